#include <hearth/modules/activations.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/dropout.hpp>
#include <hearth/modules/flatten.hpp>
#include <hearth/modules/generator_scope.hpp>
#include <hearth/modules/layer_norm.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/pooling.hpp>
#include <hearth/modules/rms_norm.hpp>
#include <hearth/modules/sequential.hpp>

#include "test_runtime.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/recompute.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;

const auto kSeven = std::vector<float>(7, 1.0F);

TEST(Linear, WorksOnAnyLeadingAxes) {
  TestRuntime test;
  Generator generator(1);
  const Linear layer({.in = 4, .out = 3}, test.cpu, generator);
  EXPECT_EQ(layer.forward(ones(test.cpu, {5, 4})).shape(), (Shape{5, 3}));
  EXPECT_EQ(layer.forward(ones(test.cpu, {2, 5, 4})).shape(), (Shape{2, 5, 3}));
  EXPECT_EQ(layer.forward(ones(test.cpu, {0, 4})).shape(), (Shape{0, 3}));
}

TEST(Linear, IsTheProductWithTheTransposedWeightPlusTheBias) {
  TestRuntime test;
  Generator generator(1);
  Linear layer({.in = 2, .out = 3}, test.cpu, generator);
  layer.weight = Tensor::from(test.cpu, {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {3, 2});
  layer.bias = Tensor::from(test.cpu, {0.5F, 0.0F, -1.0F}, {3});
  const Tensor x = Tensor::from(test.cpu, {1.0F, 10.0F}, {1, 2});
  EXPECT_EQ(layer.forward(x).to_vector<float>(), (std::vector<float>{21.5F, 43, 64}));
}

TEST(Linear, StartsWithinOneOverTheRootOfItsInputs) {
  TestRuntime test;
  Generator generator(3);
  const Linear layer({.in = 100, .out = 50}, test.cpu, generator);
  const std::vector<float> values = layer.weight.to_vector<float>();
  const auto [low, high] = std::ranges::minmax(values);
  EXPECT_GE(low, -0.1F);
  EXPECT_LT(high, 0.1F);
  EXPECT_LT(low, -0.095F);
  EXPECT_GT(high, 0.095F);
}

TEST(Linear, TheSameGeneratorGivesTheSameWeightsOnEveryDevice) {
  TestRuntime test;
  Generator first(9);
  Generator second(9);
  const Linear::Config config{.in = 7, .out = 5};
  const std::vector<float> on_cpu = Linear(config, test.cpu, first).weight.to_vector<float>();
  const std::vector<float> on_reference =
      Linear(config, test.reference, second).weight.to_vector<float>();
  const auto limit = testing::tolerance(testing::Precision::rounded, DType::f32);
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    EXPECT_TRUE(limit.accepts(static_cast<double>(on_cpu[i]), static_cast<double>(on_reference[i])))
        << on_cpu[i] << " and " << on_reference[i] << " at " << i;
  }
  EXPECT_EQ(first.counter(), second.counter());
}

TEST(Layers, RefuseSizesThatMakeNoSense) {
  TestRuntime test;
  Generator generator(1);
  EXPECT_THROW(Linear({.in = 0, .out = 3}, test.cpu, generator), ArgumentError);
  EXPECT_THROW(Conv2d({.in = 3, .out = 4, .groups = 2}, test.cpu, generator), ArgumentError);
  EXPECT_THROW(Conv2d({.in = 2, .out = 2, .stride = {0, 1}}, test.cpu, generator), ArgumentError);
  EXPECT_THROW(Dropout({.p = 1.5}), ArgumentError);
}

TEST(Layers, ErrorsNameTheLineOfTheUser) {
  TestRuntime test;
  Generator generator(1);
  const Linear layer({.in = 4, .out = 3}, test.cpu, generator);
  std::uint32_t line = 0;
  try {
    line = __LINE__ + 1;
    static_cast<void>(layer.forward(ones(test.cpu, {5, 9})));
    FAIL() << "9 features went into a layer for 4";
  } catch (const ShapeError& error) {
    EXPECT_EQ(error.error().location.line, line);
    EXPECT_THAT(error.error().location.file, HasSubstr("layers_test.cpp"));
  }
}

TEST(Layers, RefuseANumberAsInput) {
  EXPECT_THROW(static_cast<void>(Gelu{}.forward(1.0)), ArgumentError);
  EXPECT_THROW(static_cast<void>(Dropout({}).forward(1.0, Mode::eval)), ArgumentError);
}

TEST(Conv2d, HasTheShapeThatItsDocumentationSays) {
  TestRuntime test;
  Generator generator(1);
  const Conv2d layer(
      {.in = 4, .out = 6, .kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .groups = 2},
      test.cpu,
      generator);
  EXPECT_EQ(layer.weight.shape(), (Shape{6, 2, 3, 2}));
  EXPECT_EQ(layer.forward(ones(test.cpu, {2, 4, 7, 5})).shape(), (Shape{2, 6, 4, 4}));
}

TEST(Pooling, TakesTheLargestOrTheMean) {
  TestRuntime test;
  const Tensor x = Tensor::from(test.cpu, {1.0F, 2.0F, 3.0F, 6.0F}, {1, 1, 2, 2});
  EXPECT_EQ(MaxPool2d{}.forward(x).item(), 6);
  const AvgPool2d average{{.kernel = {2, 2}}};
  EXPECT_EQ(average.forward(x).item(), 3);
}

TEST(Gelu, IsTheErfForm) {
  TestRuntime test;
  const std::vector<double> points{-3, -0.5, 0, 0.7, 4};
  const std::vector<double> values =
      gelu(Tensor::from(test.reference, points, {5})).to_vector<double>();
  const auto limit = testing::tolerance(testing::Precision::function, DType::f64);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_TRUE(
        limit.accepts(values[i], 0.5 * points[i] * (1 + std::erf(points[i] / std::sqrt(2)))))
        << "at " << points[i];
  }
}

TEST(LayerNorm, StartsWithRowsOfMeanZeroAndVarianceOne) {
  TestRuntime test;
  const LayerNorm layer({.shape = {4}, .epsilon = 0}, test.reference, DType::f64);
  const Tensor x = Tensor::from(test.reference, std::vector<double>{1, 2, 3, 6}, {1, 4});
  const std::vector<double> y = layer.forward(x).to_vector<double>();
  const double deviation = std::sqrt(3.5);  // of squares 4, 1, 0, 9
  const auto limit = testing::tolerance(testing::Precision::function, DType::f64);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double want = (std::vector<double>{-2, -1, 0, 3})[i] / deviation;
    EXPECT_TRUE(limit.accepts(y[i], want)) << y[i] << ", not " << want;
  }
}

TEST(LayerNorm, TrainsAWeightAndABiasUnderTheirNames) {
  TestRuntime test;
  const LayerNorm layer({.shape = {2, 3}}, test.cpu, DType::f16);
  const std::vector<NamedTensor> parameters = named_parameters(layer);
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_EQ(parameters[0].name, "weight");
  EXPECT_EQ(parameters[1].name, "bias");
  EXPECT_EQ(parameters[1].tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(parameters[0].tensor.dtype(), DType::f16);
  EXPECT_EQ(layer.forward(ones(test.cpu, {5, 2, 3}, DType::f16)).shape(), (Shape{5, 2, 3}));
  EXPECT_EQ(named_parameters(LayerNorm({.shape = {3}, .bias = false}, test.cpu)).size(), 1U);
  EXPECT_EQ(named_parameters(RmsNorm({.shape = {3}}, test.cpu))[0].name, "weight");
}

TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  TestRuntime test;
  const RmsNorm layer({.shape = {2}, .epsilon = 0}, test.cpu);
  const Tensor x = Tensor::from(test.cpu, {3.0F, 4.0F, 0.0F, -2.0F}, {2, 2});
  const std::vector<float> y = layer.forward(x).to_vector<float>();
  const std::vector<double> wanted{
      3 / std::sqrt(12.5), 4 / std::sqrt(12.5), 0, -2 / std::sqrt(2.0)};
  const auto limit = testing::tolerance(testing::Precision::function, DType::f32);
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_TRUE(limit.accepts(static_cast<double>(y[i]), wanted[i])) << y[i];
  }
}

TEST(Norms, RefuseAShapeWithoutElements) {
  TestRuntime test;
  EXPECT_THROW(LayerNorm({.shape = {}}, test.cpu), ArgumentError);
  EXPECT_THROW(LayerNorm({.shape = {3, 0}}, test.cpu), ArgumentError);
  EXPECT_THROW(RmsNorm({.shape = {3}, .epsilon = -1}, test.cpu), ArgumentError);
}

TEST(Dropout, IsTheIdentityInEvaluation) {
  TestRuntime test;
  Generator generator(5);
  const Dropout layer({.p = 0.9});
  const Tensor x = Tensor::from(test.cpu, kSeven, {7});
  EXPECT_EQ(layer.forward(x, Mode::eval, generator).to_vector<float>(), kSeven);
  EXPECT_EQ(layer.forward(x, Mode::eval).to_vector<float>(), kSeven);
  EXPECT_EQ(generator.counter(), 0U);
}

TEST(Dropout, DropsAndScalesInTraining) {
  TestRuntime test;
  Generator generator(5);
  const std::vector<float> values = Dropout({.p = 0.75})
                                        .forward(ones(test.cpu, {4000}), Mode::train, generator)
                                        .to_vector<float>();
  const auto kept = std::ranges::count(values, 4.0F);
  EXPECT_EQ(std::ranges::count(values, 0.0F) + kept, 4000);
  EXPECT_GT(kept, 850);
  EXPECT_LT(kept, 1150);
}

TEST(Dropout, DrawsFromTheInnermostScope) {
  TestRuntime test;
  const Dropout layer({.p = 0.5});
  const Tensor x = ones(test.cpu, {64});
  Generator explicit_one(8);
  const std::vector<float> expected =
      layer.forward(x, Mode::train, explicit_one).to_vector<float>();
  Generator outer(1);
  Generator inner(8);
  const GeneratorScope outer_scope(outer);
  {
    const GeneratorScope inner_scope(inner);
    EXPECT_EQ(layer.forward(x, Mode::train).to_vector<float>(), expected);
  }
  EXPECT_NE(layer.forward(x, Mode::train).to_vector<float>(), expected);
  EXPECT_EQ(inner.counter(), explicit_one.counter());
}

// The backward pass runs the function again after the scope of the forward pass has ended.
TEST(Dropout, DrawsAgainWhatItDrewInACheckpoint) {
  TestRuntime test;
  const Dropout layer({.p = 0.5});
  Generator generator(4);
  const auto gradient = [&](bool is_checkpointed) {
    generator = Generator(4);
    const auto run = [](const Dropout& of, const Tensor& x) {
      return square(of.forward(x, Mode::train));
    };
    return grad(
               [&](const std::vector<Tensor>& in) {
                 const GeneratorScope scope(generator);
                 return sum(is_checkpointed ? checkpoint(run, layer, in[0]) : run(layer, in[0]));
               },
               {ones(test.cpu, {64})})[0]
        .to_vector<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(Dropout, SaysWhenThereIsNoGenerator) {
  TestRuntime test;
  try {
    static_cast<void>(Dropout({}).forward(ones(test.cpu, {2}), Mode::train));
    FAIL() << "random numbers out of nowhere";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Dropout: no generator"));
  }
}

TEST(Sequential, GivesModeAndGeneratorToTheLayersThatTakeThem) {
  TestRuntime test;
  Generator generator(2);
  const Sequential model(
      Linear({.in = 3, .out = 8}, test.cpu, generator), Gelu{}, Dropout({.p = 0.5}), Flatten{});
  const Tensor x = ones(test.cpu, {2, 3});
  const std::uint64_t before = generator.counter();
  const std::vector<float> eval = model.forward(x, Mode::eval, generator).to_vector<float>();
  EXPECT_EQ(generator.counter(), before);
  EXPECT_EQ(model.forward(x, Mode::eval).to_vector<float>(), eval);
  EXPECT_NE(model.forward(x, Mode::train, generator).to_vector<float>(), eval);
  EXPECT_GT(generator.counter(), before);
}

TEST(Sequential, RunsItsLayersInOrder) {
  TestRuntime test;
  const Sequential model(Relu{}, Tanh{}, Sigmoid{});
  const Tensor x = Tensor::from<double>(test.reference, {-2.0, 2.0}, {2});
  const std::vector<double> values = model.forward(x).to_vector<double>();
  const auto limit = testing::tolerance(testing::Precision::function, DType::f64);
  EXPECT_TRUE(limit.accepts(values[0], 0.5));
  EXPECT_TRUE(limit.accepts(values[1], 1 / (1 + std::exp(-std::tanh(2.0)))));
}

}  // namespace
}  // namespace hearth
