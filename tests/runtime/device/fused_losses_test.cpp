// Reductions with prologues, above all losses: which ops become one kernel, which must not, and
// that no bit of a result depends on it.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/explanation.hpp>
#include <hearth/runtime/losses.hpp>

#include "tests/runtime/device/fused_runs.hpp"

namespace hearth {
namespace {

using testing::have_same_bits;
using testing::normal;
using testing::Ran;
using testing::read_error;
using testing::run_twice;
using testing::stepped;
using testing::World;
using Tensors = std::vector<Tensor>;

struct Loss {
  std::string name;
  Shape shape;
  std::function<Tensor(const Tensor&, const Tensor&)> run;  ///< Takes two tensors of that shape.
};

Tensor squares(const Tensor& a, const Tensor& b) {
  return mean(square(a - b));
}

// Too long for a row of a group: folds by one thread, by several, and rows of either kind.
const std::vector<Loss>& all_losses() {
  static const std::vector<Loss> kAll = {
      {"mean of squares", {300, 100}, squares},
      {"mean of squares in parts", {401, 503}, squares},
      {"sum of a wave in parts",
       {3, 140000},
       [](const Tensor& a, const Tensor& b) { return sum(sin(a * 3) + b); }},
      {"largest of long rows",
       {2, 3, 9000},
       [](const Tensor& a, const Tensor& b) { return max(abs(a - b), -1, {.keep_dims = true}); }},
      {"smallest of rows in parts",
       {2, 150001},
       [](const Tensor& a, const Tensor& b) { return min(a * b, {1}); }},
      {"sum of the outer and the last axis",
       {5, 7, 3000},
       [](const Tensor& a, const Tensor& b) {
         return sum(a * b + 1, {0, 2});
       }},
      {"sum of the outer and the last axis, in parts",
       {5, 7, 8000},
       [](const Tensor& a, const Tensor& b) {
         return sum(a * b + 1, {0, 2});
       }},
      {"product of long rows",
       {2, 9000},
       [](const Tensor& a, const Tensor& b) { return prod(a * 0.001 + b * 0.001 + 1, {1}); }},
      {"mean of a scaled row for all",
       {90, 110},
       [](const Tensor& a, const Tensor& b) {
         return mean(tanh(a) * slice(b, 0, {0, 1}));
       }},
  };
  return kAll;
}

/// Logits [rows, classes], and a class and a weight for each row.
Tensors rows_of(const Device& device, std::int64_t rows, std::int64_t classes, DType dtype) {
  std::vector<std::int64_t> targets(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    targets[static_cast<std::size_t>(row)] = row * 7 % classes;
  }
  return {normal(device, {rows, classes}, 1, dtype),
          Tensor::from(device, targets, {rows}),
          normal(device, {rows}, 2, dtype)};
}

Tensor weighted(const Tensors& t) {
  return mean(cross_entropy_per_row(t[0], t[1]) * t[2]);
}

TEST(FusedLosses, HaveTheBitsOfSingleOps) {
  for (const Loss& loss : all_losses()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const auto program = [&](const Device& on) -> Tensors {
        const Tensor a = normal(on, loss.shape, 1, dtype);
        const Tensor b = normal(on, loss.shape, 2, dtype);
        on.sync();
        return {loss.run(a, b)};
      };
      const Ran on = run_twice("cpu:0", Fusion::on, program);
      EXPECT_TRUE(have_same_bits(run_twice("cpu:0", Fusion::off, program), on))
          << loss.name << " in " << name(dtype);
      EXPECT_EQ(on.fused, 2U) << loss.name << " in " << name(dtype);
    }
  }
}

TEST(FusedLosses, OfClassesHaveTheBitsOfSingleOps) {
  struct Rows {
    std::int64_t count;
    std::int64_t classes;
  };
  for (const Rows& rows : {Rows{1, 5}, Rows{300, 20}, Rows{2500, 2}, Rows{131080, 2}}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
      const auto program = [&](const Device& on) -> Tensors {
        const Tensors t = rows_of(on, rows.count, rows.classes, dtype);
        on.sync();
        return {cross_entropy(t[0], t[1]), weighted(t), cross_entropy_per_row(t[0], t[1]) * 2};
      };
      EXPECT_TRUE(have_same_bits(run_twice("cpu:0", Fusion::off, program),
                                 run_twice("cpu:0", Fusion::on, program)))
          << rows.count << " rows in " << name(dtype);
    }
  }
}

TEST(FusedLosses, AreOneKernelThatWritesOneNumber) {
  for (const char* const device : {"cpu:0", "sim:0"}) {
    stepped({.devices = {{.name = device}}, .fusion = Fusion::on}, [](const World& world) {
      const Tensor a = normal(world.device, {300, 100}, 1, DType::f32);
      const Tensor b = normal(world.device, {300, 100}, 2, DType::f32);
      const Tensors t = rows_of(world.device, 512, 1024, DType::f32);
      world.device.sync();
      const auto expect_one = [&](const char* name, const std::function<Tensor()>& program) {
        Tensor y;
        const Explanation said = explain(world.device, [&] { y = program(); });
        ASSERT_EQ(said.kernels.size(), 1U) << said.to_string();
        EXPECT_EQ(said.kernels[0].name, name);
        EXPECT_EQ(said.bytes_written(), 4);
      };
      expect_one("sub+square > mean", [&] { return squares(a, b); });
      expect_one("cross_entropy > mean", [&] { return cross_entropy(t[0], t[1]); });
      expect_one("cross_entropy+mul > mean", [&] { return weighted(t); });
    });
  }
}

// Zeros of both signs: the sign of a row's result depends on how the row is split.
TEST(FusedLosses, OfZerosHaveTheirSigns) {
  constexpr std::int64_t kCount = 300000;
  std::vector<float> values(kCount, -1.0F);
  values[5] = 0.0F;
  values[1025] = -0.0F;
  values[200000] = -0.0F;
  const auto program = [&](const Device& on) -> Tensors {
    const Tensor x = Tensor::from(on, values, {kCount});
    on.sync();
    return {1.0 / max(x * 2), 1.0 / min(-x), 1.0 / max(reshape(x * 2, {2, kCount / 2}), -1)};
  };
  EXPECT_TRUE(have_same_bits(run_twice("cpu:0", Fusion::off, program),
                             run_twice("cpu:0", Fusion::on, program)));
}

// A refusal for one operand's layout, or for other axes, must not refuse the next call.
TEST(FusedLosses, ThatAreRefusedDoNotStandForOthers) {
  stepped({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::on}, [](const World& world) {
    const Tensor a = normal(world.device, {100, 100}, 1, DType::f32);
    const Tensor b = normal(world.device, {100, 100}, 2, DType::f32);
    const Tensor cube = normal(world.device, {40, 40, 40}, 3, DType::f32);
    world.device.sync();
    const auto kernels_of = [&](const std::function<Tensor()>& program) {
      Tensor y;
      return explain(world.device, [&] { y = program(); }).kernels.size();
    };
    EXPECT_EQ(kernels_of([&] { return squares(transpose(a), b); }), 2U);
    EXPECT_EQ(kernels_of([&] { return squares(a, b); }), 1U);
    EXPECT_EQ(kernels_of([&] { return sum(square(cube), {0, 1}); }), 2U);
    EXPECT_EQ(kernels_of([&] { return sum(square(cube), {0, 2}); }), 1U);
  });
}

// Values that the gradient needs are kept; columns, and a second reader, leave the value in memory.
TEST(FusedLosses, KeepWhatSomebodyElseReads) {
  const auto program = [](const Device& on) -> Tensors {
    const Tensor a = normal(on, {300, 100}, 1, DType::f32);
    const Tensor b = normal(on, {300, 100}, 2, DType::f32);
    on.sync();
    const Tensor kept = a * b;
    const Tensor twice = square(a);
    Tensors all{kept, mean(kept), mean(twice) + mean(twice * 2), sum(relu(a - b), {0})};
    const Tensors gradients =
        grad([](const Tensors& t) { return mean(square(t[0] - t[1])); }, {a, b});
    all.insert(all.end(), gradients.begin(), gradients.end());
    return all;
  };
  EXPECT_TRUE(have_same_bits(run_twice("cpu:0", Fusion::off, program),
                             run_twice("cpu:0", Fusion::on, program)));
}

// A class out of range: the loss has the error of the op that found it, and its line.
TEST(FusedLosses, ThatFailNameTheOpAndItsLine) {
  for (const char* const device : {"cpu:0", "sim:0"}) {
    stepped({.devices = {{.name = device}}, .fusion = Fusion::on}, [](const World& world) {
      const Tensor logits = normal(world.device, {4, 3}, 1, DType::f32);
      const Tensor targets = Tensor::from(world.device, std::vector<std::int64_t>{0, 1, 7, 2}, {4});
      const int line = __LINE__ + 1;
      const Tensor losses = cross_entropy_per_row(logits, targets);
      const Error error = read_error(mean(losses * 2));
      EXPECT_EQ(error.op, "cross_entropy");
      EXPECT_NE(error.text.find("class 7 in row 2"), std::string::npos) << error.text;
      EXPECT_EQ(error.location.line, line);
    });
  }
}

}  // namespace
}  // namespace hearth
