// Products, convolutions and pools with their prologues in one kernel: which ops join, which must
// not, and that no bit of a result depends on it.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <hearth/runtime/explanation.hpp>

#include "tests/runtime/device/fused_runs.hpp"
#include "tests/runtime/held_token.hpp"

namespace hearth {
namespace {

using testing::have_same_bits;
using testing::normal;
using testing::Ran;
using testing::run_twice;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;
using Tensors = std::vector<Tensor>;

/// Ops that become one kernel, with their own operands.
struct Chain {
  std::string name;
  std::function<Tensors(const Device&, DType)> operands;
  std::function<Tensor(const Tensors&)> run;
};

struct Before {
  std::string name;
  std::function<Tensor(const Tensor&, const Tensor&)> run;  ///< Of x and a number a column.
};

const std::vector<Before>& all_before() {
  static const std::vector<Before> kAll = {
      {"relu", [](const Tensor& x, const Tensor& /*s*/) { return relu(x); }},
      {"swish", [](const Tensor& x, const Tensor& /*s*/) { return x * sigmoid(x); }},
      {"scale and shift", [](const Tensor& x, const Tensor& s) { return (x * 2 - s) * s; }},
      {"softmax", [](const Tensor& x, const Tensor& s) { return softmax(x * s, -1); }},
      {"rms norm",
       [](const Tensor& x, const Tensor& s) {
         return x / sqrt(mean(x * x, -1, {.keep_dims = true}) + 1e-5) * s;
       }},
  };
  return kAll;
}

struct Product {
  Shape a;
  std::int64_t columns = 0;
};

// Few and many rows, few and many columns, sums that are split, no elements.
const std::vector<Product>& all_products() {
  static const std::vector<Product> kAll = {
      {{1, 40}, 30},
      {{3, 260}, 70},
      {{40, 64}, 48},
      {{70, 300}, 600},
      {{2, 33, 50}, 20},
      {{200, 16}, 8},
      {{0, 5}, 4},
  };
  return kAll;
}

void add_products(std::vector<Chain>& all) {
  for (const Product& product : all_products()) {
    for (const Before& before : all_before()) {
      const auto operands = [product](const Device& device, DType dtype) -> Tensors {
        const std::int64_t depth = product.a[product.a.rank() - 1];
        return {normal(device, product.a, 1, dtype),
                normal(device, {depth}, 2, dtype),
                normal(device, {depth, product.columns}, 3, dtype),
                normal(device, {product.columns}, 4, dtype)};
      };
      const std::string name = before.name + " before a product of " + product.a.to_string();
      all.push_back({name, operands, [before](const Tensors& t) {
                       return matmul(before.run(t[0], t[1]), t[2]);
                     }});
      all.push_back({name + ", relu behind", operands, [before](const Tensors& t) {
                       return relu(matmul(before.run(t[0], t[1]), t[2]) + t[3]);
                     }});
    }
  }
}

struct Planes {
  Shape x;
  std::int64_t channels = 0;
  Conv2dOptions conv = {};
  Pool2dOptions pool = {};
};

const std::vector<Planes>& all_planes() {
  static const std::vector<Planes> kAll = {
      {{1, 1, 28, 28}, 16, {.padding = {1, 1}}},
      {{5, 16, 14, 14}, 32, {.padding = {1, 1}}},
      {{2, 3, 21, 17},
       6,
       {.stride = {2, 1}, .padding = {1, 0}},
       {.kernel = 3, .stride = 2, .padding = 1}},
      {{2, 4, 12, 9}, 8, {.groups = 2}, {.kernel = {2, 3}, .stride = Size2d{1, 3}}},
  };
  return kAll;
}

void add_planes(std::vector<Chain>& all) {
  for (const Planes& planes : all_planes()) {
    const auto operands = [planes](const Device& device, DType dtype) -> Tensors {
      const std::int64_t inputs = planes.x[1] / planes.conv.groups;
      return {normal(device, planes.x, 1, dtype),
              normal(device, {planes.channels, inputs, 3, 3}, 2, dtype),
              normal(device, {planes.channels}, 3, dtype)};
    };
    const std::string of = " of " + planes.x.to_string();
    all.push_back({"a convolution before a pool" + of, operands, [planes](const Tensors& t) {
                     return max_pool2d(conv2d(t[0], t[1], t[2], planes.conv), planes.pool);
                   }});
    all.push_back(
        {"a convolution and relu before a pool" + of, operands, [planes](const Tensors& t) {
           return max_pool2d(relu(conv2d(t[0], t[1], t[2], planes.conv)), planes.pool);
         }});
    all.push_back({"a convolution before a mean" + of, operands, [planes](const Tensors& t) {
                     return avg_pool2d(tanh(conv2d(t[0], t[1], planes.conv) * 2), planes.pool);
                   }});
    all.push_back({"relu before a pool, a shift behind" + of, operands, [planes](const Tensors& t) {
                     return max_pool2d(relu(t[0] * 2 - 1), planes.pool) + 0.5;
                   }});
  }
}

struct Heads {
  Shape query;
  Shape key;
  bool is_causal = false;
};

// Thin and wide blocks, several blocks of rows, heads that share keys.
void add_attention(std::vector<Chain>& all) {
  for (const Heads& heads : std::vector<Heads>{{{2, 3, 100, 16}, {2, 3, 100, 16}, true},
                                               {{1, 4, 1, 32}, {1, 2, 70, 32}},
                                               {{5, 8}, {300, 8}}}) {
    all.push_back({"a scale before attention of " + heads.query.to_string(),
                   [heads](const Device& device, DType dtype) -> Tensors {
                     return {normal(device, heads.query, 1, dtype),
                             normal(device, heads.key, 2, dtype),
                             normal(device, heads.key, 3, dtype),
                             normal(device, {heads.query[heads.query.rank() - 1]}, 4, dtype)};
                   },
                   [heads](const Tensors& t) {
                     const Tensor queries = t[0] * t[3] + 0.25;
                     return attention(queries, t[1], t[2], {.causal = heads.is_causal}) * 2;
                   }});
  }
}

const std::vector<Chain>& all_chains() {
  static const std::vector<Chain> kAll = [] {
    std::vector<Chain> all;
    add_products(all);
    add_planes(all);
    add_attention(all);
    return all;
  }();
  return kAll;
}

TEST(FusedChains, AreOneKernelThatWritesOneResult) {
  stepped({.devices = {{.name = "sim:0"}}, .fusion = Fusion::on}, [](const World& world) {
    for (const Chain& chain : all_chains()) {
      const Tensors operands = chain.operands(world.device, DType::f32);
      world.device.sync();
      Tensor result;
      const Explanation said = explain(world.device, [&] { result = chain.run(operands); });
      ASSERT_EQ(said.kernels.size(), 1U) << chain.name << "\n" << said.to_string();
      EXPECT_NE(said.kernels[0].name.find(" > "), std::string::npos) << said.kernels[0].name;
      EXPECT_EQ(said.kernels[0].bytes_written, 4 * result.element_count()) << chain.name;
    }
  });
}

TEST(FusedChains, HaveTheBitsOfSingleOps) {
  std::uint64_t fused = 0;
  for (const Chain& chain : all_chains()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const auto program = [&](const Device& on) -> Tensors {
        const Tensors operands = chain.operands(on, dtype);
        on.sync();
        return {chain.run(operands)};
      };
      const Ran on = run_twice("cpu:0", Fusion::on, program);
      EXPECT_TRUE(have_same_bits(run_twice("cpu:0", Fusion::off, program), on))
          << chain.name << " in " << name(dtype);
      fused += on.fused;
    }
  }
  EXPECT_GE(fused, 2 * 4 * all_chains().size());
}

// Prologues that a product reads row by row, and planes of a convolution that a pool reduces.
TEST(FusedChains, AreOneKernelOnCores) {
  stepped({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::on}, [](const World& world) {
    const Tensor x = normal(world.device, {64, 96}, 1, DType::f32);
    const Tensor w = normal(world.device, {96, 80}, 2, DType::f32);
    const Tensor planes = normal(world.device, {2, 3, 16, 16}, 3, DType::f32);
    const Tensor filters = normal(world.device, {8, 3, 3, 3}, 4, DType::f32);
    world.device.sync();
    Tensor y;
    const auto kernels_of = [&](const std::function<Tensor()>& program) {
      const Explanation said = explain(world.device, [&] { y = program(); });
      EXPECT_EQ(said.bytes_written(), 4 * y.element_count()) << said.to_string();
      return said.kernels.size();
    };
    EXPECT_EQ(kernels_of([&] { return relu(matmul(x * sigmoid(x), w)); }), 1U);
    EXPECT_EQ(kernels_of([&] { return matmul(softmax(x * 0.5, -1), w); }), 1U);
    EXPECT_EQ(kernels_of([&] { return max_pool2d(relu(conv2d(planes, filters))); }), 1U);
    EXPECT_EQ(kernels_of([&] { return avg_pool2d(conv2d(planes, filters)) * 2; }), 1U);
    EXPECT_EQ(kernels_of([&] { return attention(x * 0.5, x, x) + 1; }), 1U);
  });
}

// As in an 8-bit layer: the prologue computes the factors of a product.
TEST(FusedChains, OfEightBitsHaveTheBitsOfSingleOps) {
  const auto program = [](const Device& on) -> Tensors {
    const Tensor x = normal(on, {40, 96}, 1, DType::f32);
    const Tensor w = cast(round(normal(on, {96, 80}, 2, DType::f32) * 40), DType::i8);
    const Tensor scale = normal(on, {80}, 3, DType::f32);
    on.sync();
    const Tensor bytes = cast(clamp(round(x * 50), -127, 127), DType::i8);
    return {cast(matmul(bytes, w), DType::f32) * scale,
            matmul(cast(clamp(round(x * 50), -127, 127), DType::i8), w)};
  };
  for (const char* const device : {"cpu:0", "sim:0"}) {
    EXPECT_TRUE(have_same_bits(run_twice(device, Fusion::off, program),
                               run_twice(device, Fusion::on, program)))
        << device;
  }
}

// ---- ops that must stay apart ----

using Program = std::function<Tensors(const Tensors&)>;

/// x [6, 8], a scale [8], weights [8, 8], and others of x's shape.
Tensors square(const Device& device) {
  return {normal(device, {6, 8}, 1, DType::f32),
          normal(device, {8}, 2, DType::f32),
          normal(device, {8, 8}, 3, DType::f32),
          normal(device, {6, 8}, 4, DType::f32)};
}

struct Case {
  const char* name;
  std::size_t kernels = 0;
  Program run;
};

const std::vector<Case>& all_cases() {
  static const std::vector<Case> kAll = {
      {"the value is kept",
       2,
       [](const Tensors& t) -> Tensors {
         const Tensor value = t[0] * t[1];
         const Tensor product = matmul(value, t[2]);
         return {value, product};
       }},
      {"a value on the way is kept",
       2,
       [](const Tensors& t) -> Tensors {
         const Tensor first = t[0] * t[1];
         Tensor value = first + 1;
         const Tensor product = matmul(value, t[2]);
         value = {};
         return {first, product};
       }},
      {"two products read it",
       3,
       [](const Tensors& t) -> Tensors {
         const Tensor value = t[0] * t[1];
         return {matmul(value, t[2]), matmul(value, t[2]) * 2};
       }},
      {"it is read behind the product",
       2,
       [](const Tensors& t) -> Tensors {
         const Tensor value = t[0] * t[1];
         return {matmul(value, t[2]) + value};
       }},
      {"it is both sides of a product",
       2,
       [](const Tensors& t) -> Tensors {
         const Tensor value = t[2] * t[1];
         return {matmul(value, value)};
       }},
      {"it is the right side",
       2,
       [](const Tensors& t) -> Tensors { return {matmul(t[0], t[2] * t[1])}; }},
      {"what it is made of is read behind the product",
       1,
       [](const Tensors& t) -> Tensors {
         const Tensor product = matmul(t[0] * t[1], t[2]);
         return {product + t[0]};
       }},
      {"what it is made of is the program's no more",
       1,
       [](const Tensors& t) -> Tensors {
         Tensor own = t[3];
         Tensor value = std::move(own) * t[1];
         return {matmul(std::move(value), t[2])};
       }},
      {"a product of it before another",
       2,
       [](const Tensors& t) -> Tensors {
         return {matmul(relu(matmul(t[0] * t[1], t[2]) - 1), t[2]) * 3};
       }},
      {"a number for each row",
       2,
       [](const Tensors& t) -> Tensors {
         const Tensor ones = slice(t[3], 1, {0, 1});
         return {matmul(sum(t[0] * t[1], -1, {.keep_dims = true}), slice(t[2], 0, {0, 1})) + ones};
       }},
      {"weights that are turned round between",
       1,
       [](const Tensors& t) -> Tensors {
         const Tensor value = t[0] * t[1];
         return {relu(matmul(value, transpose(t[2])) + reshape(t[1], {1, 8}))};
       }},
      {"a stranger between",
       2,
       [](const Tensors& t) -> Tensors {
         const Tensor value = t[0] * t[1];
         const Tensor stranger = cumsum(t[3], 0);
         return {matmul(value, t[2]), stranger};
       }},
  };
  return kAll;
}

TEST(FusedChains, KeepWhatSomebodyElseReads) {
  stepped({.devices = {{.name = "sim:0"}}, .fusion = Fusion::on}, [](const World& world) {
    for (const Case& each : all_cases()) {
      const Tensors operands = square(world.device);
      world.device.sync();
      Tensors results;
      const Explanation said = explain(world.device, [&] { results = each.run(operands); });
      EXPECT_EQ(said.kernels.size(), each.kernels) << each.name << "\n" << said.to_string();
    }
  });
  for (const Case& each : all_cases()) {
    const auto program = [&](const Device& on) {
      const Tensors operands = square(on);
      on.sync();
      return each.run(operands);
    };
    EXPECT_TRUE(have_same_bits(run_twice("cpu:0", Fusion::off, program),
                               run_twice("cpu:0", Fusion::on, program)))
        << each.name;
  }
}

// A convolution and its pool, with no op between or after them, have no expression. The log and the
// count of groups treat them like other groups.
TEST(FusedChains, WithoutAnExpressionAreCountedAndNamed) {
  for (const std::uint64_t limit : {1U, 2U}) {
    ::testing::internal::CaptureStderr();
    SteppedOptions options{.devices = {{.name = "sim:0"}}, .fusion = Fusion::on};
    options.fusion_limit = limit;
    stepped(options, [limit](const World& world) {
      const Tensor x = normal(world.device, {1, 2, 8, 8}, 1, DType::f32);
      const Tensor w = normal(world.device, {3, 2, 3, 3}, 2, DType::f32);
      world.device.sync();
      for (int i = 0; i < 3; ++i) {
        const Tensor y = max_pool2d(conv2d(x, w));
        world.device.sync();
      }
      EXPECT_EQ(world.device.statistics().fused_kernels, limit);
    });
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("conv2d > max_pool2d"),
              std::string::npos);
  }
}

// A kernel that fails has changed nothing: its ops run one by one, and the log has its name.
TEST(FusedChains, ThatFailRunAsSingleOps) {
  ::testing::internal::CaptureStderr();
  stepped({.faults = {{"sim:0", {.failing_submits = {3}}}}, .fusion = Fusion::on},
          [](const World& world) {
            const Tensor x = normal(world.device, {1, 2, 8, 8}, 1, DType::f32);
            const Tensor w = normal(world.device, {3, 2, 3, 3}, 2, DType::f32);
            world.device.sync();
            const Tensor y = max_pool2d(conv2d(x, w));
            EXPECT_EQ(y.to_vector<float>().size(), 27U);
            EXPECT_EQ(world.device.failures().unread_count(), 0U);
          });
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("the kernel of conv2d > max_pool2d"),
            std::string::npos);
}

// A pool on cores refuses a small prologue: its ops then run singly, each time.
TEST(FusedChains, ThatAreRefusedLeaveTheirOpsToRun) {
  const auto program = [](const Device& on) -> Tensors {
    const Tensor x = normal(on, {2, 3, 8, 8}, 1, DType::f32);
    on.sync();
    Tensors all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(max_pool2d(relu(x * 2 - 1)) + 0.5);
      on.sync();
    }
    return all;
  };
  const Ran on = run_twice("cpu:0", Fusion::on, program);
  EXPECT_TRUE(have_same_bits(run_twice("cpu:0", Fusion::off, program), on));
  EXPECT_EQ(on.fused, 2 * 4 * 2U) << "what is before the pool, and the pool with what is behind";
}

// Another stream may wait for a view whose turn has not come: making the view ahead wakes it.
TEST(FusedChains, AViewThatIsMadeAheadWakesWhoWaitsForIt) {
  stepped({.devices = {{.name = "sim:0"}}, .fusion = Fusion::on}, [](const World& world) {
    const Tensor x = normal(world.device, {4, 8}, 1, DType::f32);
    x.publish();
    world.device.sync();
    Stream first(world.device);
    Stream second(world.device);
    Tensor turned;
    Tensor sum;
    {
      const testing::HeldToken held(world.device);
      Tensor before;
      {
        const StreamScope scope(first);
        before = x * 2 + 1;
        turned = transpose(x);
      }
      const StreamScope scope(second);
      sum = turned + 1;
      before = {};
    }
    const std::vector<float> values = sum.to_vector<float>();
    EXPECT_EQ(values[1], x.to_vector<float>()[8] + 1);
  });
}

// The second run compares the records instead of gathering, also with other sizes.
TEST(FusedChains, ComeAgain) {
  stepped({.devices = {{.name = "sim:0"}}, .fusion = Fusion::on}, [](const World& world) {
    for (const std::int64_t rows : {6, 6, 6, 9, 6, 9}) {
      const Tensor x = normal(world.device, {rows, 8}, 1, DType::f32);
      const Tensor w = normal(world.device, {8, 5}, 2, DType::f32);
      world.device.sync();
      const std::uint64_t before = world.device.statistics().fused_kernels;
      const Tensor fused = relu(matmul(x * 2 + 1, w) - 1);
      world.device.sync();
      EXPECT_EQ(world.device.statistics().fused_kernels, before + 1);
      const Tensor value = x * 2 + 1;
      const Tensor product = matmul(value, w);
      const Tensor singly = relu(product - 1);
      EXPECT_EQ(fused.to_vector<float>(), singly.to_vector<float>()) << rows;
    }
    EXPECT_EQ(world.device.failures().unread_count(), 0U);
  });
}

// The internal value takes no memory: the peak is that of operands and result.
TEST(FusedChains, TakeNoMemoryForWhatIsHandedOn) {
  stepped({.devices = {{.name = "sim:0"}}, .fusion = Fusion::on}, [](const World& world) {
    const Tensor x = normal(world.device, {64, 1024}, 1, DType::f32);
    const Tensor w = normal(world.device, {1024, 2}, 2, DType::f32);
    world.device.sync();
    const auto allocations = [&] { return world.device.memory().allocation_count; };
    static_cast<void>(matmul(x * 2 + 1, w).to_vector<float>());
    const auto before = allocations();
    const Tensor product = matmul(x * 2 + 1, w);
    world.device.sync();
    EXPECT_EQ(allocations() - before, 1);
  });
}

}  // namespace
}  // namespace hearth
