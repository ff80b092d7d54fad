// With 16-bit parameters, values that accumulate over many steps are f32: optimizer state, sums of
// gradients, running statistics. Files of the older form, with 16 bits, still load.
#include <hearth/modules/adam.hpp>
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/gradient_clip.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/sgd.hpp>
#include <hearth/modules/state_updates.hpp>
#include <hearth/modules/training_state.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/update_group.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;

constexpr DType kNarrow[] = {DType::bf16, DType::f16};

struct Point {
  Tensor p;
  HEARTH_MODULE(Point, p)
};

Point point_at(const Device& device, double value, DType dtype, std::int64_t size = 1) {
  return {full(device, {size}, value, dtype)};
}

Gradients gradient_of(const Device& device, double value, DType dtype, std::int64_t size = 1) {
  return Gradients({"p"}, {full(device, {size}, value, dtype)});
}

std::vector<float> wide(const Tensor& tensor) {
  return tensor.to(DType::f32).to_vector<float>();
}

// The length of the step after `count` equal gradients that have not moved the parameter.
double step_behind(
    const Device& device, Optimizer optimizer, DType dtype, double gradient, int count) {
  Point point = point_at(device, 0, dtype);
  optimizer.set_learning_rate(0);
  for (int i = 0; i < count; ++i) {
    optimizer.step(point, gradient_of(device, gradient, dtype)).get();
  }
  point = point_at(device, 0, dtype);
  optimizer.set_learning_rate(1);
  optimizer.step(point, gradient_of(device, gradient, dtype)).get();
  return -wide(point.p)[0];
}

// Adam divides the mean of equal gradients by the root of the mean of their squares.
TEST(SixteenBitState, AdamsStepIsAsLongAsItsRateHoweverManyEqualGradientsCame) {
  const TestRuntime test;
  for (const DType dtype : kNarrow) {
    for (const double gradient : {0.1, 0.001}) {
      for (const Device& device : {test.reference, test.cpu}) {
        EXPECT_NEAR(step_behind(device, Adam({}), dtype, gradient, 1500), 1, 0.01)
            << device.name() << " " << name(dtype) << " " << gradient;
        EXPECT_NEAR(step_behind(device, AdamW({.weight_decay = 0}), dtype, gradient, 1500), 1, 0.01)
            << device.name() << " " << name(dtype) << " " << gradient;
      }
    }
  }
}

TEST(SixteenBitState, MomentumAddsUpToItsSum) {
  const TestRuntime test;
  for (const DType dtype : kNarrow) {
    for (const bool nesterov : {false, true}) {
      const Sgd::Config config{.momentum = 0.999, .nesterov = nesterov};
      double momentum = 0;
      for (int i = 0; i <= 3000; ++i) {
        momentum = 0.999 * momentum + 1;
      }
      const double wanted = nesterov ? 1 + 0.999 * momentum : momentum;
      EXPECT_NEAR(step_behind(test.cpu, Sgd(config), dtype, 1, 3000) / wanted, 1, 0.01)
          << name(dtype);
    }
  }
}

// One rounding, into the parameter: the sums of a step are those of f32.
TEST(SixteenBitState, AStepIsTheOneOfF32RoundedOnce) {
  const TestRuntime test;
  for (const DType dtype : kNarrow) {
    for (const Device& device : {test.reference, test.cpu}) {
      Point narrow = point_at(device, 0.7, dtype, 5);
      Point exact{narrow.p.to(DType::f32)};
      Adam of_narrow({.learning_rate = 0.003, .weight_decay = 0.01});
      Adam of_exact({.learning_rate = 0.003, .weight_decay = 0.01});
      for (int i = 0; i < 20; ++i) {
        const Tensor gradient = full(device, {5}, std::sin(i), dtype);
        of_narrow.step(narrow, Gradients({"p"}, {gradient})).get();
        of_exact.step(exact, Gradients({"p"}, {gradient.to(DType::f32)})).get();
        EXPECT_EQ(wide(narrow.p), wide(exact.p.to(dtype))) << name(dtype) << " step " << i;
        exact.p = narrow.p.to(DType::f32);
      }
    }
  }
}

TEST(SixteenBitState, HasTheTypeOfItsSums) {
  const TestRuntime test;
  for (const auto& [parameter, state] : {std::pair{DType::bf16, DType::f32},
                                         std::pair{DType::f16, DType::f32},
                                         std::pair{DType::f32, DType::f32},
                                         std::pair{DType::f64, DType::f64}}) {
    std::vector<Optimizer> all;
    all.emplace_back(Sgd({.momentum = 0.9}));
    all.emplace_back(Adam({}));
    all.emplace_back(AdamW({}));
    for (Optimizer& optimizer : all) {
      Point point = point_at(test.cpu, 1, parameter);
      optimizer.step(point, gradient_of(test.cpu, 1, parameter)).get();
      EXPECT_EQ(point.p.dtype(), parameter);
      for (const NamedTensor& named : named_tensors(optimizer)) {
        EXPECT_EQ(named.tensor.dtype(), state) << named.name;
      }
    }
  }
}

// A program's rule whose initial state has 16 bits.
TEST(SixteenBitState, OfAnUpdateRuleIsWidenedWhereItWasNarrow) {
  const TestRuntime test;
  for (const DType dtype : kNarrow) {
    UpdateRule rule({.name = "sums", .state_count = 1, .scalar_count = 1},
                    [](const UpdateRule::Operands& o) -> std::vector<Tensor> {
                      const Tensor sum = o.state[0] + o.gradient;
                      return {o.parameter - o.scalars[0] * sum, sum};
                    });
    Tensor parameter = zeros(test.cpu, {3}, dtype);
    Tensor sum = zeros_like(parameter);
    for (int i = 0; i < 3000; ++i) {
      UpdateGroup group(test.cpu);
      Tensor* const state[] = {&sum};
      const double scalars[] = {0};
      group.update(rule, parameter, ones(test.cpu, {3}, dtype), state, scalars);
      group.commit().get();
    }
    EXPECT_EQ(sum.dtype(), DType::f32);
    EXPECT_EQ(wide(sum)[0], 3000);
    EXPECT_EQ(parameter.dtype(), dtype);
  }
}

TEST(SixteenBitState, ARuleThatRoundsItsResultIsToldThatSumsAreF32) {
  const TestRuntime test;
  UpdateRule rule({.name = "rounds"}, [](const UpdateRule::Operands& o) -> std::vector<Tensor> {
    return {(o.parameter - o.gradient).to(DType::bf16)};
  });
  Tensor parameter = zeros(test.cpu, {3}, DType::bf16);
  UpdateGroup group(test.cpu);
  try {
    group.update(rule, parameter, ones(test.cpu, {3}, DType::bf16), {}, {});
    ADD_FAILURE() << "it was taken";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("rounds: the function returned bf16 for parameters of bf16, which are "
                          "computed in f32"));
  }
}

TEST(SixteenBitState, ManySmallGradientsAddUpAndAStepTakesTheirSum) {
  const TestRuntime test;
  for (const DType dtype : kNarrow) {
    Gradients all;
    for (int i = 0; i < 4096; ++i) {
      all.accumulate(gradient_of(test.cpu, 1, dtype));
    }
    EXPECT_EQ(wide(all[0])[0], 4096) << name(dtype);
    all.scale(1.0 / 4096);
    clip(all, {.max_value = 10, .max_norm = 10});
    Point point = point_at(test.cpu, 1, dtype);
    Sgd sgd({.learning_rate = 0.5});
    sgd.step(point, std::move(all)).get();
    EXPECT_EQ(point.p.dtype(), dtype);
    EXPECT_EQ(wide(point.p)[0], 0.5F);
  }
}

// A factor rounded to 16 bits would make all gradients longer or shorter.
TEST(SixteenBitState, ClippedGradientsHaveTheNormOfTheBound) {
  const TestRuntime test;
  Gradients gradients = gradient_of(test.cpu, 1, DType::bf16, 1000);
  gradients.clip_by_norm(0.7 * std::sqrt(1000.0));
  EXPECT_EQ(gradients[0].dtype(), DType::bf16);
  EXPECT_EQ(wide(gradients[0])[0], wide(full(test.cpu, {1}, 0.7, DType::bf16))[0]);
}

struct Normed {
  BatchNorm2d norm;
  HEARTH_MODULE(Normed, norm)
};

void pass(Normed& model, const Tensor& x) {
  StateUpdates updates;
  static_cast<void>(model.norm.forward(x, Mode::train, updates));
  updates.commit(model).get();
}

TEST(SixteenBitState, RunningStatisticsReachTheOnesOfTheirBatches) {
  const TestRuntime test;
  for (const DType dtype : kNarrow) {
    for (const bool is_converted : {false, true}) {
      const BatchNorm2d::Config config{.channels = 1, .momentum = 0.001};
      Normed model{BatchNorm2d(config, test.cpu, is_converted ? DType::f32 : dtype)};
      model = to_dtype(model, dtype);
      EXPECT_EQ(model.norm.weight->dtype(), dtype);
      const Tensor x = full(test.cpu, {4, 1, 1, 1}, 2, dtype);
      for (int i = 0; i < 4000; ++i) {
        pass(model, x);
      }
      EXPECT_EQ(model.norm.running_mean.dtype(), DType::f32);
      EXPECT_NEAR(model.norm.running_mean.item(), 2 * (1 - std::pow(0.999, 4000)), 0.001);
      EXPECT_EQ(model.norm.forward(x, Mode::eval).dtype(), dtype);
    }
  }
}

TEST(SixteenBitState, OfALayerWithoutWeightsTakesPicturesOfBothTypes) {
  const TestRuntime test;
  Normed model{BatchNorm2d({.channels = 1, .affine = false}, test.cpu, DType::bf16)};
  const Tensor x = full(test.cpu, {4, 1, 1, 1}, 2, DType::bf16);
  pass(model, x);
  EXPECT_EQ(model.norm.forward(x, Mode::eval).dtype(), DType::bf16);
  EXPECT_THROW(static_cast<void>(model.norm.forward(x.to(DType::f64), Mode::eval)), DtypeError);
}

// ---- files ----

/// The tensors in the older file form: wide ones stored as 16 bits.
std::vector<NamedTensor> older_form(std::vector<NamedTensor> tensors, DType dtype) {
  for (NamedTensor& named : tensors) {
    named.tensor = named.tensor.to(dtype);
  }
  return tensors;
}

TEST(SixteenBitState, OfAnOlderFileIsWidened) {
  const TestRuntime test;
  const TemporaryFolder folder;
  const auto file = folder.path() / "state.safetensors";
  for (const DType dtype : kNarrow) {
    Point point = point_at(test.cpu, 1, dtype, 3);
    Optimizer adam = Adam({.learning_rate = 0.5});
    for (int i = 0; i < 3; ++i) {
      adam.step(point, gradient_of(test.cpu, 0.25, dtype, 3)).get();
    }
    const Metadata numbers{{"hearth.optimizer", "Adam"},
                           {"hearth.step_count", "3"},
                           {"hearth.learning_rate", "0.5"},
                           {"hearth.epoch", "0"},
                           {"hearth.batch", "0"},
                           {"hearth.generators", "0"}};
    write_safetensors(file, older_form(detail::training_tensors(point, adam), dtype), numbers);

    Point other = point_at(test.cpu, 0, dtype, 3);
    Optimizer loaded = Adam({});
    static_cast<void>(load_training(other, loaded, file));
    EXPECT_EQ(wide(other.p), wide(point.p));
    const std::vector<NamedTensor> before = named_tensors(adam);
    const std::vector<NamedTensor> after = named_tensors(loaded);
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].tensor.dtype(), DType::f32) << after[i].name;
      EXPECT_EQ(wide(after[i].tensor), wide(before[i].tensor.to(dtype))) << after[i].name;
    }
    EXPECT_EQ(loaded.step(other, gradient_of(test.cpu, 0.25, dtype, 3)).get().step, 4);
    // New files are read unchanged.
    save_training(other, loaded, {.cursor = {}}, file);
    Point again = point_at(test.cpu, 0, dtype, 3);
    Optimizer third = Adam({});
    static_cast<void>(load_training(again, third, file));
    EXPECT_EQ(wide(named_tensors(third)[1].tensor), wide(named_tensors(loaded)[1].tensor));
  }
}

TEST(SixteenBitState, OfAnotherTypeThanTheFilesIsStillRefused) {
  const TestRuntime test;
  const TemporaryFolder folder;
  const auto file = folder.path() / "state.safetensors";
  Point point = point_at(test.cpu, 1, DType::f64, 3);
  Optimizer adam = Adam({});
  save_training(point, adam, {.cursor = {}}, file);
  Point other = point_at(test.cpu, 1, DType::bf16, 3);
  Optimizer loaded = Adam({});
  EXPECT_THROW(static_cast<void>(load_training(other, loaded, file)), FileError);
}

TEST(SixteenBitState, RunningStatisticsOfAnOlderFileAreWidened) {
  const TestRuntime test;
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.safetensors";
  Normed model{BatchNorm2d({.channels = 2}, test.cpu, DType::bf16)};
  pass(model, full(test.cpu, {4, 2, 1, 1}, 2, DType::bf16));
  write_safetensors(file, older_form(named_tensors(model), DType::bf16));
  Normed loaded{BatchNorm2d({.channels = 2}, test.cpu, DType::bf16)};
  load_weights(loaded, file);
  EXPECT_EQ(loaded.norm.running_mean.dtype(), DType::f32);
  EXPECT_EQ(wide(loaded.norm.running_mean), wide(model.norm.running_mean.to(DType::bf16)));
  pass(loaded, full(test.cpu, {4, 2, 1, 1}, 2, DType::bf16));
  EXPECT_EQ(to_dtype(loaded, DType::f16).norm.running_mean.dtype(), DType::f32)
      << "loaded statistics are known as such";
}

}  // namespace
}  // namespace hearth
