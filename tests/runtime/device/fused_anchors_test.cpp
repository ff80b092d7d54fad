// Gathers, pools and attention with their epilogues in one kernel: which ops join, that no bit of a
// result depends on it, and errors of indices out of range.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/explanation.hpp>

#include "tests/runtime/device/fused_runs.hpp"

namespace hearth {
namespace {

using testing::have_same_bits;
using testing::normal;
using testing::Ran;
using testing::run_twice;
using testing::stepped;
using testing::World;
using Tensors = std::vector<Tensor>;

/// An anchor that owns its operands, in one of several forms.
struct Anchor {
  std::string name;
  std::function<Tensors(const Device&, DType)> operands;
  std::function<Tensor(const Tensors&)> run;
};

/// Copies the values to another order in memory.
Tensor turned(const Tensor& x) {
  return transpose(contiguous(transpose(x, 0, -1)), 0, -1);
}

Tensor places(const Device& device, const Shape& shape, std::int64_t size, DType dtype) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    values.push_back(i * 7 % 11 * size / 11);
  }
  return cast(Tensor::from(device, values, shape), dtype);
}

// ---- the anchors ----

struct Table {
  Shape shape;
  int axis = 0;
  std::int64_t count = 0;
  bool is_turned = false;

  [[nodiscard]] Tensor on(const Device& device, DType dtype) const {
    const Tensor x = normal(device, shape, 3, dtype);
    return is_turned ? turned(x) : x;
  }
  [[nodiscard]] std::string text() const {
    return " of " + shape.to_string() + " along " + std::to_string(axis);
  }
};

// Whole rows, pieces of rows, single elements; many pieces of the result, and parts of it.
void add_picks(std::vector<Anchor>& all) {
  for (const Table& table : std::vector<Table>{{{5, 8}, 0, 7},
                                               {{50, 96}, 0, 300},
                                               {{3, 5000}, 0, 40},
                                               {{6, 30}, 1, 9, true},
                                               {{4, 3, 2, 5, 2}, 2, 6},
                                               {{40}, 0, 5000},
                                               {{7, 4}, 0, 0}}) {
    all.push_back(
        {"index_select" + table.text(),
         [table](const Device& device, DType dtype) -> Tensors {
           const std::int64_t size = table.shape[table.axis];
           return {table.on(device, dtype), places(device, {table.count}, size, DType::i64)};
         },
         [table](const Tensors& t) { return index_select(t[0], table.axis, t[1]); }});
    all.push_back({"gather" + table.text(),
                   [table](const Device& device, DType dtype) -> Tensors {
                     Shape named = table.shape;
                     named.set(table.axis, table.count);
                     const std::int64_t size = table.shape[table.axis];
                     return {table.on(device, dtype), places(device, named, size, DType::i32)};
                   },
                   [table](const Tensors& t) { return gather(t[0], table.axis, t[1]); }});
  }
  all.push_back(
      {"embedding",
       [](const Device& device, DType dtype) -> Tensors {
         return {normal(device, {30, 24}, 3, dtype), places(device, {4, 10}, 30, DType::i64)};
       },
       [](const Tensors& t) { return embedding(t[0], t[1]); }});
}

struct Windows {
  Shape x;
  Pool2dOptions options = {};
  bool is_turned = false;
};

// Pairs of many planes that lie close together, then others, also of large planes.
void add_pools(std::vector<Anchor>& all) {
  for (const Windows& windows : std::vector<Windows>{
           {{2, 32, 14, 14}},
           {{1, 3, 200, 160}},
           {{2, 3, 9, 7}, {}, true},
           {{2, 5, 12, 10}, {.kernel = 3, .stride = 2, .padding = 1}},
           {{3, 2, 8, 8}, {.kernel = {2, 4}, .stride = Size2d{1, 3}, .padding = {0, 1}}, true},
           {{0, 3, 4, 4}}}) {
    const auto operands = [windows](const Device& device, DType dtype) -> Tensors {
      const Tensor x = normal(device, windows.x, 7, dtype);
      return {windows.is_turned ? turned(x) : x};
    };
    all.push_back({"max_pool2d of " + windows.x.to_string(), operands, [windows](const Tensors& t) {
                     return max_pool2d(t[0], windows.options);
                   }});
    all.push_back({"avg_pool2d of " + windows.x.to_string(), operands, [windows](const Tensors& t) {
                     return avg_pool2d(t[0], windows.options);
                   }});
  }
}

struct Heads {
  Shape query;
  Shape key;
  std::int64_t width = 0;
  bool is_causal = false;
};

// Thin and wide blocks, several blocks of rows, shared heads, no keys.
void add_attention(std::vector<Anchor>& all) {
  for (const Heads& heads : std::vector<Heads>{{{2, 3, 100, 16}, {2, 3, 100, 16}, 24, true},
                                               {{1, 4, 1, 32}, {1, 2, 70, 32}, 32},
                                               {{5, 8}, {300, 8}, 3},
                                               {{2, 1, 3, 4}, {2, 1, 0, 4}, 4}}) {
    all.push_back({"attention of " + heads.query.to_string() + " over " + heads.key.to_string(),
                   [heads](const Device& device, DType dtype) -> Tensors {
                     Shape value = heads.key;
                     value.set(value.rank() - 1, heads.width);
                     return {turned(normal(device, heads.query, 5, dtype)),
                             normal(device, heads.key, 6, dtype),
                             normal(device, value, 7, dtype)};
                   },
                   [heads](const Tensors& t) {
                     return attention(t[0], t[1], t[2], {.causal = heads.is_causal});
                   }});
  }
}

const std::vector<Anchor>& all_anchors() {
  static const std::vector<Anchor> kAll = [] {
    std::vector<Anchor> all;
    add_picks(all);
    add_pools(all);
    add_attention(all);
    return all;
  }();
  return kAll;
}

// ---- epilogues ----

struct Behind {
  const char* name;
  std::function<Tensors(const Tensor&, const Tensors&)> run;
};

/// All but the first along the first axis, in another order in memory.
Tensor all_but_first(const Tensor& whole) {
  return whole.shape()[0] > 0 && whole.rank() > 1 ? turned(whole[0]) : whole;
}

/// Operands for epilogues: one of the result's shape, a row, one number a row, the result's shape
/// in another order, one number. Then a row, and all but the first axis with steps, which repeat
/// over pieces of the result that end inside them.
Tensors beside(const Device& device, const Shape& shape, DType dtype) {
  const Tensor whole = normal(device, shape, 13, dtype);
  Shape row{shape[shape.rank() - 1]};
  Shape column = shape;
  column.set(shape.rank() - 1, 1);
  return {whole,
          normal(device, row, 14, dtype),
          normal(device, column, 15, dtype),
          turned(whole * -0.75),
          normal(device, {1}, 16, dtype),
          slice(normal(device, {2 * row[0]}, 17, dtype), 0, {.step = 2}),
          all_but_first(whole)};
}

const std::vector<Behind>& all_behind() {
  static const std::vector<Behind> kAll = {
      {"relu", [](const Tensor& y, const Tensors&) -> Tensors { return {relu(y)}; }},
      {"scale and shift",
       [](const Tensor& y, const Tensors& t) -> Tensors {
         return {relu(y * t[4] + t[1]) * 0.5 + t[2]};
       }},
      {"rows in steps",
       [](const Tensor& y, const Tensors& t) -> Tensors { return {y * t[5] - t[6]}; }},
      {"residuals",
       [](const Tensor& y, const Tensors& t) -> Tensors { return {tanh(y + t[0]) * t[2] - t[3]}; }},
      {"a cast",
       [](const Tensor& y, const Tensors& t) -> Tensors {
         const DType other = y.dtype() == DType::f16 ? DType::f32 : DType::f16;
         return {cast(y + t[0], other) * 2};
       }},
      {"several results",
       [](const Tensor& y, const Tensors& t) -> Tensors {
         const Tensor after = relu(y);
         return {y, after + t[0], after * after, after > 0.25};
       }},
  };
  return kAll;
}

Tensors run_all(const Device& device, const Anchor& anchor, const Behind& behind, DType dtype) {
  const Tensors operands = anchor.operands(device, dtype);
  const Tensors others = beside(device, anchor.run(operands).shape(), dtype);
  device.sync();
  return behind.run(anchor.run(operands), others);
}

TEST(FusedAnchors, OpsBehindThemAreInTheirKernels) {
  for (const char* const device : {"cpu:0", "sim:0"}) {
    stepped({.devices = {{.name = device}}, .fusion = Fusion::on}, [](const World& world) {
      for (const Anchor& anchor : all_anchors()) {
        const Tensors operands = anchor.operands(world.device, DType::f32);
        const Tensors others = beside(world.device, anchor.run(operands).shape(), DType::f32);
        world.device.sync();
        for (const Behind& behind : all_behind()) {
          Tensors results;
          const Explanation said =
              explain(world.device, [&] { results = behind.run(anchor.run(operands), others); });
          EXPECT_EQ(said.kernels.size(), 1U) << behind.name << " behind " << anchor.name << "\n"
                                             << said.to_string();
        }
      }
    });
  }
}

TEST(FusedAnchors, HaveTheBitsOfSingleOps) {
  std::uint64_t fused = 0;
  for (const Anchor& anchor : all_anchors()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (const Behind& behind : all_behind()) {
        const auto program = [&](const Device& device) {
          return run_all(device, anchor, behind, dtype);
        };
        const Ran off = run_twice("cpu:0", Fusion::off, program);
        const Ran on = run_twice("cpu:0", Fusion::on, program);
        EXPECT_TRUE(have_same_bits(off, on))
            << behind.name << " behind " << anchor.name << " in " << name(dtype);
        EXPECT_EQ(off.fused, 0U);
        fused += on.fused;
      }
    }
  }
  EXPECT_GE(fused, 2 * 4 * all_anchors().size() * all_behind().size());
}

// The gather sees an embedding's rows as a list, whatever the shape of the indices.
TEST(FusedAnchors, AnEmbeddingIsOneKernelWithItsPlaces) {
  stepped({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::on}, [](const World& world) {
    const Tensor table = normal(world.device, {30, 8}, 1, DType::f32);
    const Tensor where = normal(world.device, {5, 8}, 2, DType::f32);
    const Tensor text = places(world.device, {3, 5}, 30, DType::i64);
    Tensor rows;
    Tensor sums;
    const Explanation one =
        explain(world.device, [&] { sums = (embedding(table, text) + where) * 0.5; });
    EXPECT_EQ(one.kernels.size(), 1U) << one.to_string();
    EXPECT_EQ(one.kernels[0].name, "embedding+add+mul");
    const Explanation two = explain(world.device, [&] {
      rows = embedding(table, text);
      sums = rows + where;
    });
    EXPECT_EQ(two.kernels.size(), 1U) << two.to_string();
    const std::vector<float> alone = rows.to_vector<float>();
    const std::vector<float> added = where.to_vector<float>();
    const std::vector<float> both = sums.to_vector<float>();
    for (std::size_t i = 0; i < both.size(); ++i) {
      ASSERT_EQ(both[i], alone[i] + added[i % added.size()]) << i;
    }
  });
}

TEST(FusedAnchors, PicturesOfBytesBecomeNumbersWhileTheyArePicked) {
  const auto program = [](const Device& device) -> Tensors {
    const Tensor bytes = cast(arange(device, 0, 240), DType::u8);
    const Tensor pictures = reshape(bytes, {10, 24});
    const Tensor chosen = places(device, {7}, 10, DType::i64);
    const Tensor signs = normal(device, {10, 24}, 4, DType::f32) > 0.25;
    const Tensor weights = normal(device, {7, 24}, 5, DType::f32);
    device.sync();
    return {cast(index_select(pictures, 0, chosen), DType::f32) * (1.0 / 255),
            index_select(cast(pictures, DType::i32), 0, chosen) * 3 + 1,
            where(index_select(signs, 0, chosen), weights, weights * 2)};
  };
  const Ran off = run_twice("cpu:0", Fusion::off, program);
  const Ran on = run_twice("cpu:0", Fusion::on, program);
  EXPECT_TRUE(have_same_bits(off, on));
  EXPECT_GE(on.fused, 4U);
}

// The result of an i8 product is i32: a float result of it reuses its bytes, and a narrower result
// has none to reuse.
TEST(FusedAnchors, ProductsOfBytesAreScaledInTheirKernel) {
  const auto program = [](const Device& device) -> Tensors {
    const auto bytes = [&](const Shape& shape, std::uint64_t seed) {
      Generator generator(seed);
      return randint(device, shape, generator, -128, 128, DType::i8);
    };
    const Tensor a = bytes({40, 300}, 1);
    const Tensor b = bytes({300, 70}, 2);
    const Tensor rows = bytes({3, 300}, 3);
    const Tensor scale = normal(device, {70}, 4, DType::f32);
    const Tensor by_row = normal(device, {40, 1}, 5, DType::f32);
    device.sync();
    return {matmul(a, b).to(DType::f32) * by_row * scale,
            matmul(rows, contiguous(b)).to(DType::f32) * scale + 1,
            maximum(matmul(a, b) + 7, 0),
            matmul(a, b).to(DType::f32) * scale + matmul(a, b).to(DType::f32)};
  };
  const Ran off = run_twice("cpu:0", Fusion::off, program);
  const Ran on = run_twice("cpu:0", Fusion::on, program);
  EXPECT_TRUE(have_same_bits(off, on));
  EXPECT_GE(on.fused, 6U);
}

// In real time: short pools are shared with a thread that is awake; long gathers and attention are
// split over all cores.
TEST(FusedAnchors, InABurstHaveTheBitsOfOneCore) {
  const auto results = [](std::vector<int> cores) {
    const Runtime runtime(
        {.devices = {{.name = "cpu:0", .cores = std::move(cores)}}, .fusion = Fusion::on});
    const Device device = runtime.device("cpu:0");
    const Tensor x = normal(device, {1, 32, 28, 28}, 1, DType::f32);
    const Tensor shift = normal(device, {32, 1, 1}, 2, DType::f32);
    const Tensor table = normal(device, {500, 256}, 3, DType::f32);
    const Tensor text = places(device, {40, 100}, 500, DType::i64);
    const Tensor where = normal(device, {100, 256}, 4, DType::f32);
    const Tensor heads = normal(device, {8, 4, 200, 32}, 5, DType::f32);
    std::vector<std::vector<float>> all;
    all.reserve(108);
    for (int i = 0; i < 100; ++i) {
      all.push_back(relu(max_pool2d(x) * 0.5 + shift).to_vector<float>());
    }
    for (int i = 0; i < 4; ++i) {
      all.push_back(((embedding(table, text) + where) * 0.5).to_vector<float>());
      all.push_back((attention(heads, heads, heads) * 0.5 + heads).to_vector<float>());
    }
    return all;
  };
  const std::vector<int> cores = available_cores();
  const std::vector<std::vector<float>> alone = results({cores.front()});
  const std::vector<std::vector<float>> shared =
      cores.size() > 1 ? results({cores.front(), cores.back()}) : alone;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    ASSERT_EQ(shared[i], alone[i]) << i;
  }
}

// ---- indices out of range ----

/// The op and line of the error that a read throws; empty if the read succeeds.
std::string failure_of(const Tensor& tensor) {
  try {
    static_cast<void>(cast(tensor, DType::f64).to_vector<double>());
    return "none";
  } catch (const DeviceError& error) {
    return error.error().op + " in line " + std::to_string(error.error().location.line) + ": " +
           error.error().text;
  }
}

/// Inline devices, and an asynchronous one.
std::vector<DeviceOptions> kinds_of_devices() {
  return {{.name = "cpu:0"},
          {.name = "sim:0"},
          {.name = "sim:0", .sim_schedule = SimSchedule{.queues = 2, .reorder_seed = 3}}};
}

TEST(FusedAnchors, ABadIndexPoisonsItsOwnDependantsAlone) {
  for (const DeviceOptions& device : kinds_of_devices()) {
    std::vector<std::string> seen[2];
    for (const Fusion fusion : {Fusion::off, Fusion::on}) {
      stepped({.devices = {device}, .fusion = fusion}, [&](const World& world) {
        const Tensor table = normal(world.device, {4, 3}, 1, DType::f32);
        const Tensor other = normal(world.device, {2, 3}, 2, DType::f32);
        const Tensor bad = Tensor::from(world.device, std::vector<std::int64_t>{1, 9}, {2});
        world.device.sync();
        const Tensor rows = index_select(table, 0, bad);
        const Tensor apart = other * 2;
        const Tensor scaled = rows * 3;
        const Tensor mixed = relu(scaled + apart);
        const Tensor behind = apart - other;
        for (const Tensor& each : {rows, apart, scaled, mixed, behind}) {
          seen[fusion == Fusion::on].push_back(failure_of(each));
        }
        EXPECT_EQ(world.device.failures().unread_count(), 0U);
      });
    }
    EXPECT_EQ(seen[0], seen[1]) << device.name;
    EXPECT_EQ(seen[1][1], "none");
    EXPECT_EQ(seen[1][4], "none");
    EXPECT_NE(seen[1][0], "none");
    EXPECT_EQ(seen[1][0], seen[1][3]);
  }
}

TEST(FusedAnchors, ABadIndexIsToldThoughNobodyReadsWhatItMade) {
  for (const DeviceOptions& device : kinds_of_devices()) {
    stepped({.devices = {device}, .fusion = Fusion::on}, [](const World& world) {
      const Tensor table = normal(world.device, {4, 3}, 1, DType::f32);
      const Tensor bad = Tensor::from(world.device, std::vector<std::int64_t>{-1}, {1});
      world.device.sync();
      static_cast<void>(relu(index_select(table, 0, bad) + 1));
      EXPECT_THROW(world.device.sync(), DeviceError);
      EXPECT_EQ(world.device.failures().unread_count(), 0U);
    });
  }
}

// The kernel of the group stays usable; otherwise the log would report that it cannot be built.
TEST(FusedAnchors, AGroupWhoseIndexWasBadRunsAgainWithAnother) {
  ::testing::internal::CaptureStderr();
  stepped({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::on}, [](const World& world) {
    const Tensor table = world.f32({1, 2, 3, 4});
    for (const std::int64_t place : {1, 7, 2, 3}) {
      const Tensor index = Tensor::from(world.device, std::vector{place}, {1});
      world.device.sync();
      const Tensor twice = index_select(table, 0, index) * 2 + 1;
      if (place == 7) {
        EXPECT_NE(failure_of(twice), "none");
      } else {
        EXPECT_EQ(twice.item<float>(), 2 * static_cast<float>(place + 1) + 1);
      }
    }
    EXPECT_EQ(world.device.statistics().fused_kernels, 3U);
  });
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("cannot be built"), std::string::npos);
}

}  // namespace
}  // namespace hearth
