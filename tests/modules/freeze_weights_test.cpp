// Frozen parts of a model: how they are computed, stepped, decayed, averaged, moved and saved.
#include <hearth/modules/adam.hpp>
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/dropout.hpp>
#include <hearth/modules/embedding.hpp>
#include <hearth/modules/freeze_weights.hpp>
#include <hearth/modules/generator_scope.hpp>
#include <hearth/modules/gradient_clip.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/metrics.hpp>
#include <hearth/modules/model_summary.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/modules/sgd.hpp>
#include <hearth/modules/state_updates.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/modules/weight_average.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Net {
  Linear body;
  Linear middle;
  Linear head;
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return head.forward(tanh(middle.forward(tanh(body.forward(x)))));
  }
  HEARTH_MODULE(Net, body, middle, head)
};

Net make_net(const Device& device) {
  Generator generator(3);
  return {.body = {{.in = 4, .out = 4}, device, generator},
          .middle = {{.in = 4, .out = 4}, device, generator},
          .head = {{.in = 4, .out = 2}, device, generator}};
}

Gradients gradients_of(const Net& net) {
  const Tensor x = ones(net.head.weight.device(), {3, 4});
  return value_and_grad(net, [&](const Net& tracked) { return mean(square(tracked.forward(x))); })
      .gradients;
}

std::vector<std::string> names(const Optimizer& optimizer) {
  std::vector<std::string> all;
  for (const NamedTensor& named : named_tensors(optimizer)) {
    all.push_back(named.name);
  }
  return all;
}

template <class Fn>
std::string refusal_of(const Fn& fn) {
  try {
    fn();
  } catch (const Exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(FreezeWeights, LeavesOutTheGradientsOfThePart) {
  const TestRuntime test;
  Net net = make_net(test.cpu);
  const Gradients of_all = gradients_of(net);
  freeze_weights(net.body);
  freeze_weights(net.head.weight);
  const Gradients gradients = gradients_of(net);
  ASSERT_EQ(gradients.size(), 6U);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const bool is_frozen = i == 0 || i == 1 || i == 4;
    EXPECT_EQ(gradients.path(i), of_all.path(i));
    EXPECT_EQ(gradients.has_gradient(i), !is_frozen) << gradients.path(i);
    EXPECT_EQ(gradients[i].is_valid(), !is_frozen) << gradients.path(i);
    if (!is_frozen) {
      EXPECT_EQ(gradients[i].to_vector<float>(), of_all[i].to_vector<float>());
    }
  }
  EXPECT_THAT(refusal_of([&] { static_cast<void>(gradients.at("body.weight")); }),
              HasSubstr("'body.weight' is frozen, so it has none"));
}

// The hook receives the numbers of parameters, counted over all parameters and not only the trained
// ones.
TEST(FreezeWeights, TheHookGetsTheNumbersOfParameters) {
  const TestRuntime test;
  Net net = make_net(test.cpu);
  freeze_weights(net.middle);
  std::vector<std::size_t> numbers;
  const auto result = value_and_grad(
      net,
      [&](const Net& tracked) {
        return sum(tracked.forward(ones(test.cpu, {1, 4})));
      },
      [&](std::size_t number, Tensor& gradient) {
        numbers.push_back(number);
        EXPECT_TRUE(gradient.is_valid());
      });
  EXPECT_THAT(numbers, ::testing::UnorderedElementsAre(0U, 1U, 4U, 5U));
}

// The layers before the first trained one run only forwards.
TEST(FreezeWeights, TheLayersBeforeTheFirstTrainedOneAreNotDifferentiated) {
  const TestRuntime test;
  Net net = make_net(test.cpu);
  freeze_weights(net.body);
  freeze_weights(net.middle);
  const auto result = value_and_grad(net, [&](const Net& tracked) {
    const Tensor inner =
        tanh(tracked.middle.forward(tanh(tracked.body.forward(ones(test.cpu, {1, 4})))));
    EXPECT_FALSE(inner.is_tracked());
    return sum(tracked.head.forward(inner));
  });
  EXPECT_TRUE(result.gradients.has_gradient(4));
}

// Gradients flow through a frozen layer to those before it.
TEST(FreezeWeights, AFrozenLayerBehindATrainedOnePassesGradientsOn) {
  const TestRuntime test;
  Net net = make_net(test.cpu);
  const Gradients of_all = gradients_of(net);
  freeze_weights(net.head);
  EXPECT_EQ(gradients_of(net)[0].to_vector<float>(), of_all[0].to_vector<float>());
}

TEST(FreezeWeights, OptimizersNeitherStepNorDecayNorKeepStateForThem) {
  const TestRuntime test;
  for (const int kind : {0, 1, 2}) {
    Net net = make_net(test.cpu);
    freeze_weights(net.body);
    freeze_weights(net.middle);
    const Net before = net;
    Optimizer optimizer = kind == 0   ? Optimizer(Sgd({.momentum = 0.9, .weight_decay = 0.1}))
                          : kind == 1 ? Optimizer(Adam({.weight_decay = 0.1}))
                                      : Optimizer(AdamW({.weight_decay = 0.1}));
    for (int i = 0; i < 3; ++i) {
      Gradients gradients = gradients_of(net);
      clip(gradients, {.max_value = 1, .max_norm = 0.5});
      require_finite(gradients, i);
      gradients.scale(2);
      optimizer.step(net, std::move(gradients)).get();
    }
    EXPECT_EQ(net.body.weight.to_vector<float>(), before.body.weight.to_vector<float>());
    EXPECT_EQ(net.middle.bias->to_vector<float>(), before.middle.bias->to_vector<float>());
    EXPECT_NE(net.head.weight.to_vector<float>(), before.head.weight.to_vector<float>());
    for (const std::string& state : names(optimizer)) {
      EXPECT_THAT(state, HasSubstr(".head."));
    }
    EXPECT_EQ(names(optimizer).size(), kind == 0 ? 2U : 4U);
  }
}

// Adam's first step has the length of its rate, whenever it comes.
TEST(FreezeWeights, WhatIsUnfrozenBeginsAsInTheFirstStep) {
  const TestRuntime test;
  for (const Device& device : {test.reference, test.cpu}) {
    Net net = make_net(device);
    freeze_weights(net.body);
    Optimizer adam = Adam({.learning_rate = 0.001});
    for (int i = 0; i < 5; ++i) {
      adam.step(net, gradients_of(net)).get();
    }
    unfreeze_weights(net.body);
    const std::vector<float> before = net.body.bias->to_vector<float>();
    adam.step(net, gradients_of(net)).get();
    const std::vector<float> after = net.body.bias->to_vector<float>();
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_NEAR(std::abs(after[i] - before[i]), 0.001, 1e-5);
    }
    EXPECT_EQ(names(adam).size(), 12U);
    EXPECT_EQ(adam.skipped_steps(), (SkippedSteps{{"body.weight", 5}, {"body.bias", 5}}));
    freeze_weights(net.head);
    adam.step(net, gradients_of(net)).get();
    EXPECT_EQ(names(adam).size(), 8U);
    unfreeze_weights(net.head);
    const std::vector<float> head = net.head.bias->to_vector<float>();
    adam.step(net, gradients_of(net)).get();
    EXPECT_NEAR(std::abs(net.head.bias->to_vector<float>()[0] - head[0]), 0.001, 1e-5);
  }
}

TEST(FreezeWeights, GradientsFromBeforeUnfreezingAreRefused) {
  const TestRuntime test;
  Net net = make_net(test.cpu);
  freeze_weights(net.body);
  Gradients gradients = gradients_of(net);
  unfreeze_weights(net.body);
  Adam adam({});
  EXPECT_THAT(refusal_of([&] { adam.step(net, std::move(gradients)).get(); }),
              HasSubstr("Adam: the gradients have none of 'body.weight', which is trained"));
}

TEST(FreezeWeights, AModelOfWhichAllIsFrozenIsRefused) {
  const TestRuntime test;
  Net net = make_net(test.cpu);
  freeze_weights(net);
  EXPECT_THAT(refusal_of([&] { static_cast<void>(gradients_of(net)); }),
              HasSubstr("value_and_grad: all 6 parameters are frozen: unfreeze_weights()"));
}

// Keras's rule: a frozen layer works as in evaluation.
TEST(FreezeWeights, AFrozenBatchNormGoesByItsRunningStatistics) {
  const TestRuntime test;
  BatchNorm2d norm({.channels = 2}, test.cpu);
  norm.running_mean = running_statistic(full(test.cpu, {2}, 3));
  const Tensor x = full(test.cpu, {2, 2, 2, 2}, 5);
  freeze_weights(norm);
  StateUpdates updates;
  EXPECT_EQ(norm.forward(x, Mode::train, updates).to_vector<float>(),
            norm.forward(x, Mode::eval).to_vector<float>());
  EXPECT_EQ(norm.forward(x, Mode::train).to_vector<float>(),
            norm.forward(x, Mode::eval).to_vector<float>())
      << "it needs no scope";
  EXPECT_EQ(updates.size(), 0U);
  unfreeze_weights(norm);
  static_cast<void>(norm.forward(x, Mode::train, updates));
  EXPECT_EQ(updates.size(), 2U);
}

TEST(FreezeWeights, AFrozenBufferOfALayerOfOnesOwnStays) {
  const TestRuntime test;
  Buffer mean = ones(test.cpu, {2});
  StateUpdates updates;
  freeze_weights(mean);
  updates.blend(mean, zeros(test.cpu, {2}), 0.5);
  EXPECT_EQ(updates.size(), 0U);
}

TEST(FreezeWeights, DropoutGoesByItsMode) {
  const TestRuntime test;
  Sequential net(Dropout({.p = 0.5}), make_net(test.cpu).head);
  freeze_weights(net);
  Generator generator(1);
  const Tensor x = ones(test.cpu, {64, 4});
  EXPECT_NE(net.forward(x, Mode::train, generator).to_vector<float>(),
            net.forward(x, Mode::eval).to_vector<float>());
}

TEST(FreezeWeights, CopiesForksTypesAndLoadedFilesStayFrozen) {
  const TestRuntime test;
  const TemporaryFolder folder;
  Net net = make_net(test.cpu);
  freeze_weights(net.body);
  save_weights(net, folder.path());
  const auto is_frozen = [](Net model) {
    std::vector<bool> all;
    for (const TensorRef& ref : parameter_refs(model)) {
      all.push_back(ref.is_frozen());
    }
    return all;
  };
  const auto wanted = ElementsAre(true, true, false, false, false, false);
  EXPECT_THAT(is_frozen(net), wanted);
  EXPECT_THAT(is_frozen(fork(net, test.reference)), wanted);
  EXPECT_THAT(is_frozen(to_dtype(net, DType::f64)), wanted);
  load_weights(net, folder.path());
  EXPECT_THAT(is_frozen(net), wanted);
  copy_values(make_net(test.reference), net);
  EXPECT_THAT(is_frozen(net), wanted);
  adopt(net);
  EXPECT_THAT(is_frozen(net), wanted);
  // A copy is a separate model.
  Net teacher = net;
  freeze_weights(teacher);
  EXPECT_THAT(is_frozen(net), wanted);
}

struct Tied {
  Embedding words;
  Linear head;
  HEARTH_MODULE(Tied, words, head)
};

TEST(FreezeWeights, ATiedTensorIsFrozenUnderEachOfItsNames) {
  const TestRuntime test;
  Generator generator(1);
  for (const bool is_first : {true, false}) {
    Tied net{Embedding({.count = 3, .width = 4}, test.cpu, generator),
             Linear({.in = 4, .out = 3}, test.cpu, generator)};
    net.head.weight = net.words.weight;
    if (is_first) {
      freeze_weights(net.words);
    } else {
      freeze_weights(net.head.weight);
    }
    EXPECT_EQ(parameter_count(net), 3) << "the bias";
    Sgd sgd({.learning_rate = 1, .weight_decay = 0.5});
    const std::vector<float> before = net.words.weight.to_vector<float>();
    for (int i = 0; i < 2; ++i) {
      auto [loss, gradients] = value_and_grad(net, [&](const Tied& tracked) {
        return sum(tracked.head.forward(ones(test.cpu, {1, 4})));
      });
      EXPECT_FALSE(gradients.has_gradient(0));
      sgd.step(net, std::move(gradients)).get();
    }
    EXPECT_EQ(net.words.weight.to_vector<float>(), before);
    const Tied moved = fork(net, test.reference);
    EXPECT_EQ(parameter_count(moved), 3);
  }
}

TEST(FreezeWeights, CountsAndSummariesSayWhatIsTrained) {
  const TestRuntime test;
  Net net = make_net(test.cpu);
  EXPECT_EQ(parameter_count(net), 50);
  freeze_weights(net.body);
  EXPECT_EQ(parameter_count(net), 30);
  const ModelSummary summary = model_summary(net);
  EXPECT_EQ(summary.parameter_count(), 30);
  EXPECT_TRUE(summary.rows[0].is_frozen);
  EXPECT_FALSE(summary.rows[0].is_trained);
  EXPECT_THAT(summary.to_string(), HasSubstr("30 parameters, (20) frozen"));
}

TEST(FreezeWeights, AnAverageOfWhatIsUnfrozenIsTheOneOfItsValues) {
  const TestRuntime test;
  Net net = make_net(test.cpu);
  freeze_weights(net.body);
  WeightAverage average(0.5);
  average.update(net);
  average.update(net);
  EXPECT_EQ(named_tensors(average).size(), 4U);
  EXPECT_EQ(average.applied_to(net).body.weight.to_vector<float>(),
            net.body.weight.to_vector<float>());
  unfreeze_weights(net.body);
  average.update(net);
  net.body.weight = net.body.weight + 1;
  average.update(net);
  const float before = net.body.weight.to_vector<float>()[0] - 1;
  // Of 15 sixteenths in all, the newest weight has 8.
  EXPECT_NEAR(average.applied_to(net).body.weight.to_vector<float>()[0], before + 8.0 / 15, 1e-5);
}

// In bf16 a share of 1/100 of a step from 1 to 2 would be lost.
TEST(FreezeWeights, AnAverageThatBeginsLaterIsKeptInF32) {
  const TestRuntime test;
  Net net = to_dtype(make_net(test.cpu), DType::bf16);
  freeze_weights(net.body);
  WeightAverage average(0.99);
  average.update(net);
  unfreeze_weights(net.body);
  average.update(net);
  for (const NamedTensor& each : named_tensors(average)) {
    EXPECT_EQ(each.tensor.dtype(), DType::f32) << each.name;
  }
}

TEST(FreezeWeights, ATrainingGoesOnWithTheSameStepsFromItsFile) {
  const TestRuntime test;
  const TemporaryFolder folder;
  const auto file = folder.path() / "state.safetensors";
  Net net = make_net(test.cpu);
  freeze_weights(net.body);
  Optimizer adam = Adam({});
  adam.step(net, gradients_of(net)).get();
  save_training(net, adam, {.cursor = {}}, file);
  Net other = make_net(test.cpu);
  freeze_weights(other.body);
  Optimizer loaded = Adam({});
  static_cast<void>(load_training(other, loaded, file));
  for (const bool is_unfrozen : {false, true}) {
    if (is_unfrozen) {
      unfreeze_weights(net.body);
      unfreeze_weights(other.body);
    }
    adam.step(net, gradients_of(net)).get();
    loaded.step(other, gradients_of(other)).get();
    EXPECT_EQ(other.head.weight.to_vector<float>(), net.head.weight.to_vector<float>());
    EXPECT_EQ(other.body.weight.to_vector<float>(), net.body.weight.to_vector<float>());
  }
  // The state has no list of frozen parts, but its tensors show them.
  Net whole = make_net(test.cpu);
  Optimizer of_whole = Adam({});
  EXPECT_THAT(refusal_of([&] { static_cast<void>(load_training(whole, of_whole, file)); }),
              HasSubstr("tensor 'optimizer.mean.body.weight' is missing"));
}

TEST(FreezeWeights, InsideOfADifferentiatedFunctionItIsRefused) {
  const TestRuntime test;
  Net net = make_net(test.cpu);
  EXPECT_THAT(refusal_of([&] {
                static_cast<void>(value_and_grad(net, [&](const Net& tracked) {
                  Net copy = tracked;
                  freeze_weights(copy.body);
                  return sum(copy.forward(ones(test.cpu, {1, 4})));
                }));
              }),
              HasSubstr("freeze_weights: 'weight' is tracked by value_and_grad"));
}

// A rate of 0 differs from frozen: gradients are computed, and statistics move.
TEST(FreezeWeights, AGroupWithoutARateStillHasGradientsAndState) {
  const TestRuntime test;
  Net net = make_net(test.cpu);
  Optimizer adam = Adam({.groups = {{.match = "body.*", .rate_factor = 0}}});
  Gradients gradients = gradients_of(net);
  EXPECT_TRUE(gradients.has_gradient(0));
  const std::vector<float> before = net.body.weight.to_vector<float>();
  adam.step(net, std::move(gradients)).get();
  EXPECT_EQ(net.body.weight.to_vector<float>(), before);
  EXPECT_EQ(names(adam).size(), 12U);
}

}  // namespace
}  // namespace hearth
