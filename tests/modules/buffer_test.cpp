// Buffers: tensors that a module saves but does not train.
#include <hearth/modules/adam.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/training_state.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;

struct Centred {
  Buffer mean;
  Tensor weight;
  std::vector<Buffer> history;
  [[nodiscard]] Tensor forward(const Tensor& x) const { return (x - mean) * weight; }
  HEARTH_MODULE(Centred, mean, weight, history)
};

Centred make_centred(const Device& device) {
  return {.mean = full(device, {2}, 5.0),
          .weight = ones(device, {2}),
          .history = {Tensor(arange(device, 0, 3))}};
}

Tensor loss_of(const Centred& model) {
  return sum(model.forward(zeros(model.weight.device(), {2})));
}

TEST(Buffer, IsVisitedAsATensorOfTheModule) {
  TestRuntime test;
  const Centred model = make_centred(test.cpu);
  std::vector<std::string> paths;
  model.visit("", [&](const std::string& path, const Tensor&) { paths.push_back(path); });
  EXPECT_THAT(paths, ElementsAre("mean", "weight", "history.0"));
  EXPECT_EQ(named_tensors(model).size(), 3U);
  ASSERT_EQ(named_parameters(model).size(), 1U);
  EXPECT_EQ(named_parameters(model)[0].name, "weight");
  EXPECT_EQ(parameter_count(model), 2);
}

TEST(Buffer, IsNeitherDifferentiatedNorTrained) {
  TestRuntime test;
  Centred model = make_centred(test.cpu);
  AdamW optimizer({.learning_rate = 0.1, .weight_decay = 0.5});
  for (int step = 0; step < 10; ++step) {
    Gradients gradients = value_and_grad(model, loss_of).gradients;
    ASSERT_EQ(gradients.size(), 1U);
    EXPECT_EQ(gradients.path(0), "weight");
    optimizer.step(model, std::move(gradients)).get();
  }
  EXPECT_THAT(model.mean.to_vector<float>(), ElementsAre(5, 5));
  EXPECT_GT(model.weight.to_vector<float>()[0], 1.25);  // its gradient is -5
  EXPECT_EQ(named_tensors(optimizer).size(), 2U);
}

TEST(Buffer, TakesNewValuesThatALossReturns) {
  TestRuntime test;
  Centred model = make_centred(test.cpu);
  const Tensor x = Tensor::from(test.cpu, {1.0F, 3.0F}, {2});
  auto [value, gradients] = value_and_grad(model, [&](const Centred& m) {
    return std::pair(sum(m.forward(x)), Tensor(m.mean * 0.5 + x * 0.5));
  });
  model.mean = value.second;
  EXPECT_THAT(model.mean.to_vector<float>(), ElementsAre(3, 4));
}

TEST(Buffer, IsForkedCastAndCopied) {
  TestRuntime test;
  const Centred model = make_centred(test.cpu);
  const Centred there = fork(model, test.reference);
  EXPECT_EQ(there.mean.device(), test.reference);
  EXPECT_THAT(there.mean.to_vector<float>(), ElementsAre(5, 5));
  EXPECT_EQ(to_dtype(model, DType::f64).mean.dtype(), DType::f64);
  Centred to = make_centred(test.cpu);
  to.mean = zeros(test.cpu, {2});
  copy_values(model, to);
  EXPECT_THAT(to.mean.to_vector<float>(), ElementsAre(5, 5));
}

// Two buffers that begin with equal values stay separate: a tie would change the file at the first
// update.
TEST(Buffer, IsNeverTied) {
  TestRuntime test;
  const TemporaryFolder folder;
  Centred model = make_centred(test.cpu);
  model.mean = model.weight;  // the mean of the weights begins as the weights
  model.history = {model.mean};
  EXPECT_EQ(named_tensors(model).size(), 3U);
  AdamW optimizer({.learning_rate = 0.1});
  optimizer.step(model, value_and_grad(model, loss_of).gradients).get();
  EXPECT_THAT(model.mean.to_vector<float>(), ElementsAre(1, 1));
  const Centred copy = fork(model, test.cpu);
  EXPECT_NE(detail::TensorAccess::impl(copy.mean), detail::TensorAccess::impl(copy.history[0]));
}

TEST(Buffer, IsSavedAndLoadedWithWeightsAndTrainingState) {
  TestRuntime test;
  const TemporaryFolder folder;
  Centred model = make_centred(test.cpu);
  Optimizer optimizer = AdamW({.learning_rate = 0.1});
  optimizer.step(model, value_and_grad(model, loss_of).gradients).get();
  save_weights(model, folder.path() / "weights.safetensors");
  save_training(model, optimizer, {}, folder.path() / "state");
  const auto other = [&] {
    Centred made = make_centred(test.cpu);
    made.mean = zeros(test.cpu, {2});
    return made;
  };
  Centred loaded = other();
  load_weights(loaded, folder.path() / "weights.safetensors");
  EXPECT_THAT(loaded.mean.to_vector<float>(), ElementsAre(5, 5));
  Centred resumed = other();
  Optimizer again = AdamW({.learning_rate = 0.1});
  static_cast<void>(load_training(resumed, again, folder.path() / "state"));
  EXPECT_THAT(resumed.mean.to_vector<float>(), ElementsAre(5, 5));
  EXPECT_EQ(resumed.weight.to_vector<float>(), model.weight.to_vector<float>());
}

}  // namespace
}  // namespace hearth
