// The average of weights, bounded gradients, and the table of a model.
#include <hearth/modules/weight_average.hpp>

#include "test_runtime.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/modules/gradient_clip.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/model_summary.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Pair {
  Tensor weight;
  Tensor index;
  Buffer mean;
  HEARTH_MODULE(Pair, weight, index, mean)
};

Pair make_pair(const Device& device, float weight, DType dtype = DType::f32) {
  return {.weight = full(device, {2}, weight, dtype),
          .index = full(device, {1}, 7, DType::i64),
          .mean = Buffer(full(device, {1}, weight))};
}

TEST(WeightAverage, IsTheWeightedSumOfAllUpdates) {
  TestRuntime test;
  WeightAverage average(0.5);
  for (const float weight : {1.0F, 2.0F, 4.0F}) {
    Pair model = make_pair(test.cpu, weight);
    average.update(model);
  }
  EXPECT_EQ(average.update_count(), 3);
  // (0.25·1 + 0.5·2 + 1·4) / 1.75
  const Pair last = make_pair(test.cpu, 4);
  const Pair averaged = average.applied_to(last);
  EXPECT_NEAR(averaged.weight.to_vector<float>()[1], 5.25 / 1.75, 1e-6);
  EXPECT_EQ(averaged.index.to_vector<std::int64_t>()[0], 7);
  EXPECT_EQ(averaged.mean.to_vector<float>()[0], 4);
  EXPECT_EQ(last.weight.to_vector<float>()[0], 4) << "the model keeps its weights";
}

TEST(WeightAverage, WhatItGivesHasThePathsOfTheModel) {
  TestRuntime test;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    WeightAverage average(0.5);
    for (int i = 0; i < 2; ++i) {
      Pair model = make_pair(test.cpu, 2, dtype);
      average.update(model);
      const Pair averaged = average.applied_to(model);
      try {
        static_cast<void>(averaged.weight + zeros(test.cpu, {3}, dtype));
        ADD_FAILURE() << "sizes that differ were taken";
      } catch (const ShapeError& error) {
        EXPECT_EQ(error.error().module_path, "weight");
      }
    }
  }
}

TEST(WeightAverage, OfOneUpdateItIsTheWeights) {
  TestRuntime test;
  WeightAverage average(0.999);
  Pair model = make_pair(test.cpu, 3);
  EXPECT_EQ(average.applied_to(model).weight.to_vector<float>()[0], 3) << "before any update";
  average.update(model);
  EXPECT_EQ(average.applied_to(make_pair(test.cpu, 9)).weight.to_vector<float>()[0], 3);
}

// In bf16 the sum would stop growing: each update would lose 1/256 of it.
TEST(WeightAverage, SumsOfNarrowTypesAreKeptInF32) {
  TestRuntime test;
  WeightAverage average(0.99);
  for (int i = 0; i < 300; ++i) {
    Pair model = make_pair(test.cpu, i < 150 ? 1.0F : 2.0F, DType::bf16);
    average.update(model);
  }
  const double share = std::pow(0.99, 150);
  const double wanted = (2 * (1 - share) + share * (1 - share)) / (1 - share * share);
  const Pair averaged = average.applied_to(make_pair(test.cpu, 2, DType::bf16));
  EXPECT_EQ(averaged.weight.dtype(), DType::bf16);
  EXPECT_NEAR(averaged.weight.to(DType::f64).to_vector<double>()[0], wanted, wanted / 256);
}

TEST(WeightAverage, RefusesWhatMakesNoSense) {
  TestRuntime test;
  EXPECT_THROW(WeightAverage(1), ArgumentError);
  EXPECT_THROW(WeightAverage(-0.1), ArgumentError);
  WeightAverage average(0.5);
  Pair model = make_pair(test.cpu, 3);
  average.update(model);
  Generator generator(1);
  Linear other({.in = 2, .out = 2}, test.cpu, generator);
  EXPECT_THROW(average.update(other), ArgumentError);
}

Gradients make_gradients(const Device& device, const std::vector<float>& first, float second) {
  const auto count = static_cast<std::int64_t>(first.size());
  return Gradients({"a", "b"},
                   {Tensor::from(device, first, {count}),
                    Tensor::from(device, std::vector<float>{second}, {1})});
}

TEST(GradientClip, ByValueBoundsEachNumber) {
  TestRuntime test;
  Gradients gradients = make_gradients(test.cpu, {-3, 0.25F, 2}, 0.5F);
  clip(gradients, {.max_value = 0.5});
  EXPECT_THAT(gradients[0].to_vector<float>(), ElementsAre(-0.5F, 0.25F, 0.5F));
  EXPECT_THAT(gradients[1].to_vector<float>(), ElementsAre(0.5F));
}

TEST(GradientClip, ByNormScalesAllAlike) {
  TestRuntime test;
  Gradients gradients = make_gradients(test.cpu, {3, 0}, 4);  // of norm 5
  clip(gradients, {.max_norm = 2.5});
  EXPECT_THAT(gradients[0].to_vector<float>(), ElementsAre(1.5F, 0));
  EXPECT_THAT(gradients[1].to_vector<float>(), ElementsAre(2));
  clip(gradients, {.max_norm = 10});
  EXPECT_THAT(gradients[1].to_vector<float>(), ElementsAre(2)) << "shorter ones stay as they are";
}

TEST(GradientClip, ByBothBoundsValuesFirst) {
  TestRuntime test;
  Gradients gradients = make_gradients(test.cpu, {30, 0}, 4);
  clip(gradients, {.max_value = 3, .max_norm = 1});
  EXPECT_NEAR(gradients[0].to_vector<float>()[0], std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(gradients[1].to_vector<float>()[0], std::sqrt(0.5), 1e-6);
}

TEST(GradientClip, AParameterWithoutAGradientStaysWithout) {
  TestRuntime test;
  Generator generator(1);
  const Linear used({.in = 2, .out = 2}, test.cpu, generator);
  auto [loss, gradients] =
      value_and_grad(used, [&](const Linear& tracked) { return sum(*tracked.bias); });
  ASSERT_FALSE(gradients.has_gradient(0));
  clip(gradients, {.max_value = 0.1, .max_norm = 0.1});
  EXPECT_FALSE(gradients.has_gradient(0));
  EXPECT_TRUE(gradients.has_gradient(1));
}

TEST(GradientClip, RefusesBoundsThatMakeNoSense) {
  TestRuntime test;
  Gradients gradients = make_gradients(test.cpu, {1}, 1);
  EXPECT_THROW(clip(gradients, {.max_value = 0}), ArgumentError);
  EXPECT_THROW(clip(gradients, {.max_norm = -1}), ArgumentError);
  EXPECT_THROW(clip(gradients, {.max_norm = std::nan("")}), ArgumentError);
}

struct Network {
  Linear inner, head;
  Buffer count;
  HEARTH_MODULE(Network, inner, head, count)
};

TEST(ModelSummary, ListsEachTensorOnceWithItsShapeAndNumber) {
  TestRuntime test;
  Generator generator(1);
  Network model{.inner = {{.in = 1000, .out = 2}, test.cpu, generator},
                .head = {{.in = 1000, .out = 2}, test.cpu, generator},
                .count = Buffer(zeros(test.cpu, {3}, DType::i64))};
  model.head.weight = model.inner.weight;  // tied
  const ModelSummary summary = model_summary(model);
  EXPECT_EQ(summary.parameter_count(), parameter_count(model));
  EXPECT_EQ(summary.size_bytes(), 4 * 2004 + 8 * 3);
  ASSERT_EQ(summary.rows.size(), 4U);
  EXPECT_EQ(summary.rows[0].path, "inner.weight");
  const std::string text = summary.to_string();
  EXPECT_THAT(text, HasSubstr("path "));
  EXPECT_THAT(text, HasSubstr("2,000\n"));
  EXPECT_THAT(text, HasSubstr("(3)\n"));
  EXPECT_THAT(text, HasSubstr("2,004 parameters, (3) in buffers, 8040 bytes\n"));
  model.inner.bias = Tensor();
  EXPECT_THROW(static_cast<void>(model_summary(model)), ArgumentError);
}

}  // namespace
}  // namespace hearth
