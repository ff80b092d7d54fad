// Settings of some parameters, by path; and parameters without a gradient in a step.
#include <hearth/modules/parameter_group.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/modules/adam.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/sgd.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

struct Pieces {
  Tensor a, b;
  HEARTH_MODULE(Pieces, a, b)
};

struct Net {
  Linear first, head;
  HEARTH_MODULE(Net, first, head)
};

Pieces fives(const Device& device) {
  return {.a = full(device, {1}, 5.0), .b = full(device, {1}, 5.0)};
}

template <class Chosen>
Pending<StepReport> step_on(Chosen& optimizer, Pieces& model, bool uses_b) {
  auto loss = [&](const Pieces& m) { return uses_b ? sum(m.a) + sum(m.b) * 3 : sum(m.a); };
  return optimizer.step(model, value_and_grad(model, loss).gradients);
}

TEST(ParameterGroup, PatternsChooseWholePaths) {
  using detail::matches;
  EXPECT_TRUE(matches("*.bias", "first.bias"));
  EXPECT_TRUE(matches("*.bias", "a.b.bias"));
  EXPECT_FALSE(matches("*.bias", "bias"));
  EXPECT_FALSE(matches("*.bias", "first.bias2"));
  EXPECT_TRUE(matches("first.*", "first.weight"));
  EXPECT_FALSE(matches("first", "first.weight"));
  EXPECT_TRUE(matches("*", "anything"));
  EXPECT_TRUE(matches("*a*b*", "xxaxxb"));
  EXPECT_FALSE(matches("*a*b", "ab.c"));
  EXPECT_TRUE(matches("*ab", "aab")) << "it goes back to the star";
  EXPECT_TRUE(matches("a**", "a"));
  EXPECT_FALSE(matches("", "a"));
}

TEST(ParameterGroup, SetsDecayAndRateOfWhatItMatches) {
  TestRuntime test;
  Pieces model = fives(test.cpu);
  Sgd optimizer(
      {.learning_rate = 0.5,
       .weight_decay = 0.2,
       .groups = {{.match = "a", .weight_decay = 0}, {.match = "b", .rate_factor = 0.5}}});
  step_on(optimizer, model, true).get();
  EXPECT_THAT(model.a.to_vector<float>(), ElementsAre(5 - 0.5F * 1));
  EXPECT_THAT(model.b.to_vector<float>(), ElementsAre(5 - 0.25F * (3 + 1)));
  optimizer.set_learning_rate(1);  // applies to both
  const float before = model.b.item<float>();
  step_on(optimizer, model, true).get();
  EXPECT_FLOAT_EQ(model.a.item<float>(), 3.5F);
  EXPECT_FLOAT_EQ(model.b.item<float>(), before - 0.5F * (3 + 0.2F * before));
}

TEST(ParameterGroup, WorksForEveryOptimizerAndALaterGroupWins) {
  TestRuntime test;
  const std::vector<ParameterGroup> groups{{.match = "*", .weight_decay = 0.9, .rate_factor = 2},
                                           {.match = "b", .weight_decay = 0}};
  const auto ends = [&](auto grouped, auto for_a, auto for_b) {
    Pieces model = fives(test.cpu);
    Pieces a = fives(test.cpu);
    Pieces b = fives(test.cpu);
    for (int step = 0; step < 3; ++step) {
      step_on(grouped, model, true).get();
      step_on(for_a, a, true).get();
      step_on(for_b, b, true).get();
    }
    EXPECT_EQ(model.a.item<float>(), a.a.item<float>());
    EXPECT_EQ(model.b.item<float>(), b.b.item<float>());
  };
  ends(Sgd({.learning_rate = 0.1, .momentum = 0.9, .groups = groups}),
       Sgd({.learning_rate = 0.2, .momentum = 0.9, .weight_decay = 0.9}),
       Sgd({.learning_rate = 0.2, .momentum = 0.9}));
  ends(Adam({.learning_rate = 0.1, .groups = groups}),
       Adam({.learning_rate = 0.2, .weight_decay = 0.9}),
       Adam({.learning_rate = 0.2}));
  ends(AdamW({.learning_rate = 0.1, .groups = groups}),
       AdamW({.learning_rate = 0.2, .weight_decay = 0.9}),
       AdamW({.learning_rate = 0.2, .weight_decay = 0}));
}

TEST(ParameterGroup, RateFactorZeroKeepsParametersAsTheyAre) {
  TestRuntime test;
  Pieces model = fives(test.cpu);
  AdamW optimizer({.learning_rate = 0.1, .groups = {{.match = "b", .rate_factor = 0}}});
  step_on(optimizer, model, true).get();
  EXPECT_EQ(model.b.item<float>(), 5);
  EXPECT_NE(model.a.item<float>(), 5);
}

TEST(ParameterGroup, OfNothingIsRefusedWithThePathsThereAre) {
  TestRuntime test;
  Generator generator(1);
  Net net{.first = {{.in = 1, .out = 1}, test.cpu, generator},
          .head = {{.in = 1, .out = 1}, test.cpu, generator}};
  AdamW optimizer({.groups = {{.match = "*.biass", .weight_decay = 0}}});
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      optimizer.prepare(net);
      FAIL() << "taken";
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("Adam: the pattern '*.biass' matches no parameter"),
                        HasSubstr("first.weight, first.bias, head.weight, head.bias")));
    }
  }
}

TEST(ParameterGroup, ThatMakesNoSenseIsRefused) {
  EXPECT_THROW(Sgd({.groups = {{.match = "*", .weight_decay = -1}}}), ArgumentError);
  EXPECT_THROW(Adam({.groups = {{.match = "*", .rate_factor = NAN}}}), ArgumentError);
  EXPECT_THROW(AdamW({.groups = {{.match = "*"}}}), ArgumentError);
  EXPECT_THROW(AdamW({.groups = {{.match = "", .weight_decay = 0}}}), ArgumentError);
}

TEST(NoGradient, AUsedParameterHasOneAndAnUnusedHasZeros) {
  TestRuntime test;
  const Pieces model = fives(test.cpu);
  const Gradients gradients =
      value_and_grad(model, [](const Pieces& m) { return sum(m.a); }).gradients;
  EXPECT_TRUE(gradients.has_gradient(0));
  EXPECT_FALSE(gradients.has_gradient(1));
  EXPECT_EQ(gradients[1].item(), 0);
}

template <class Chosen>
void expect_left_alone(Chosen optimizer) {
  TestRuntime test;
  Pieces model = fives(test.cpu);
  for (int step = 0; step < 10; ++step) {
    step_on(optimizer, model, false).get();
  }
  EXPECT_EQ(model.b.item<float>(), 5) << "no gradient, no decay";
  EXPECT_LT(model.a.item<float>(), 5);
  for (const NamedTensor& named : named_tensors(optimizer)) {
    EXPECT_EQ(named.tensor.template item<float>() != 0, named.name.ends_with(".a")) << named.name;
  }
}

TEST(NoGradient, LeavesTheParameterAndItsStateAlone) {
  expect_left_alone(AdamW({.learning_rate = 0.1, .weight_decay = 0.1}));
  expect_left_alone(Adam({.learning_rate = 0.1, .weight_decay = 0.1}));
  expect_left_alone(Sgd({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1}));
}

// Momentum of earlier steps does not move a parameter in a step without a gradient for it. The bias
// correction of a parameter counts only its own updates.
template <class Chosen>
void expect_own_count(Chosen optimizer) {
  TestRuntime test;
  Pieces model = fives(test.cpu);
  Pieces always = fives(test.cpu);
  Chosen other(optimizer.config());
  for (const bool uses_b : {false, true, false, false, true}) {
    const float before = model.b.item<float>();
    step_on(optimizer, model, uses_b).get();
    EXPECT_EQ(model.b.item<float>() == before, !uses_b);
  }
  step_on(other, always, true).get();
  step_on(other, always, true).get();
  EXPECT_EQ(model.b.item<float>(), always.b.item<float>());
  EXPECT_THAT(optimizer.skipped_steps(), ElementsAre(Pair("b", 3)));
}

TEST(NoGradient, AStepWithoutOneDoesNotCountForTheParameter) {
  expect_own_count(Adam({.learning_rate = 0.1}));
  expect_own_count(Sgd({.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5}));
}

TEST(NoGradient, AFailedStepSkipsNothing) {
  TestRuntime test;
  Pieces model = fives(test.cpu);
  Adam optimizer({});
  const auto poisoned = [&](const Pieces& m) {
    return sum(m.a) +
           cross_entropy(zeros(test.cpu, {1, 2}), Tensor::from(test.cpu, {std::int64_t{7}}, {1}));
  };
  Gradients gradients = value_and_grad(model, poisoned).gradients;
  gradients[0] = gradients[0] * cross_entropy(zeros(test.cpu, {1, 2}),
                                              Tensor::from(test.cpu, {std::int64_t{7}}, {1}));
  EXPECT_FALSE(optimizer.step(model, std::move(gradients)).wait().has_value());
  EXPECT_TRUE(optimizer.skipped_steps().empty());
}

TEST(NoGradient, WhatTheProgramPutsInItsPlaceCounts) {
  TestRuntime test;
  Pieces model = fives(test.cpu);
  Gradients gradients = value_and_grad(model, [](const Pieces& m) { return sum(m.a); }).gradients;
  gradients.scale(2);
  static_cast<void>(gradients.clip_by_norm(1));
  EXPECT_FALSE(gradients.has_gradient(1)) << "scaled and clipped, but not replaced";
  gradients[1] = gradients[1] + model.b * 0.5;
  Sgd optimizer({.learning_rate = 1});
  optimizer.step(model, std::move(gradients)).get();
  EXPECT_EQ(model.b.item<float>(), 2.5F);
}

TEST(NoGradient, AccumulatedGradientsHaveWhatOneOfThemHas) {
  TestRuntime test;
  const Pieces model = fives(test.cpu);
  const auto of = [&](bool uses_b) {
    auto loss = [&](const Pieces& m) { return uses_b ? sum(m.b) * 3 : sum(m.a); };
    return value_and_grad(model, loss).gradients;
  };
  Gradients both = of(false);
  both.accumulate(of(true));
  EXPECT_TRUE(both.has_gradient(0) && both.has_gradient(1));
  EXPECT_EQ(both[0].item(), 1);
  EXPECT_EQ(both[1].item(), 3);
  Gradients one = of(false);
  one.accumulate(of(false));
  EXPECT_EQ(one[0].item(), 2);
  EXPECT_FALSE(one.has_gradient(1));
}

TEST(NoGradient, SkippedStepsAreInTheTrainingState) {
  TestRuntime test;
  const TemporaryFolder folder;
  const auto run = [&](bool stops) {
    Pieces model = fives(test.cpu);
    Optimizer optimizer = Adam({.learning_rate = 0.1});
    step_on(optimizer, model, true).get();
    step_on(optimizer, model, false).get();
    if (stops) {
      save_training(model, optimizer, {}, folder.path() / "state");
      model = fives(test.cpu);
      optimizer = Adam({.learning_rate = 0.1});
      static_cast<void>(load_training(model, optimizer, folder.path() / "state"));
      EXPECT_THAT(optimizer.skipped_steps(), ElementsAre(Pair("b", 1)));
    }
    step_on(optimizer, model, true).get();
    return model.b.item<float>();
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(NoGradient, SkippedStepsThatCannotBeAreRefused) {
  TestRuntime test;
  Pieces model = fives(test.cpu);
  Adam optimizer({});
  optimizer.prepare(model);
  EXPECT_THROW(optimizer.set_step_count(3, {{"c", 1}}), ArgumentError);
  EXPECT_THROW(optimizer.set_step_count(3, {{"b", 4}}), ArgumentError);
  EXPECT_THROW(optimizer.set_step_count(3, {{"b", -1}}), ArgumentError);
  EXPECT_EQ(optimizer.step_count(), 0);
}

}  // namespace
}  // namespace hearth
