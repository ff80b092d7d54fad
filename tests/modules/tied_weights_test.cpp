// One tensor under two names is one parameter, everywhere.
#include <hearth/modules/adam.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/sgd.hpp>
#include <hearth/modules/training_state.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `head` is tied to the embedding; `scale` lies between them.
struct Tied {
  Tensor embedding, scale, head;
  HEARTH_MODULE(Tied, embedding, scale, head)
};

Tied tied_ones(const Device& device, const Shape& shape = {2}) {
  Tied model{.embedding = ones(device, shape), .scale = ones(device, {2}), .head = {}};
  model.head = model.embedding;
  return model;
}

bool is_tied(const Tied& model) {
  return detail::TensorAccess::impl(model.embedding) == detail::TensorAccess::impl(model.head);
}

Tensor loss_of(const Tied& model) {
  return sum(model.embedding * 2) + sum(model.scale) - sum(model.head);
}

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const NamedTensor& each : tensors) {
    names.push_back(each.name);
  }
  return names;
}

TEST(TiedWeights, HaveOneGradientTheSumUnderTheFirstName) {
  TestRuntime test;
  const Tied model = tied_ones(test.cpu);
  const Gradients gradients = value_and_grad(model, loss_of).gradients;
  ASSERT_EQ(gradients.size(), 2U);
  EXPECT_EQ(gradients.path(0), "embedding");
  EXPECT_EQ(gradients.path(1), "scale");
  EXPECT_THAT(gradients[0].to_vector<float>(), ElementsAre(1, 1));
}

template <class Chosen>
void expect_one_update(Chosen optimizer, std::size_t state_tensors) {
  TestRuntime test;
  Tied model = tied_ones(test.cpu);
  Tied plain{.embedding = ones(test.cpu, {2}), .scale = ones(test.cpu, {2}), .head = {}};
  plain.head = zeros(test.cpu, {2});
  Chosen other(optimizer.config());
  for (int step = 0; step < 3; ++step) {
    optimizer.step(model, value_and_grad(model, loss_of).gradients).get();
    // An equal gradient, 1, on a separate parameter.
    const auto alone = [](const Tied& m) { return sum(m.embedding) + sum(m.scale + m.head); };
    other.step(plain, value_and_grad(plain, alone).gradients).get();
  }
  EXPECT_TRUE(is_tied(model));
  EXPECT_EQ(model.head.to_vector<float>(), plain.embedding.to_vector<float>());
  EXPECT_EQ(named_tensors(optimizer).size(), state_tensors);
}

TEST(TiedWeights, AreUpdatedOnceByEveryOptimizer) {
  expect_one_update(Sgd({.learning_rate = 0.1}), 0);
  expect_one_update(Sgd({.learning_rate = 0.1, .momentum = 0.9}), 2);
  expect_one_update(Adam({.learning_rate = 0.1}), 4);
}

TEST(TiedWeights, AreUpdatedInPlace) {
  TestRuntime test;
  constexpr std::int64_t kCount = 1 << 18;
  Tied model = tied_ones(test.cpu, {kCount});
  Sgd optimizer({.learning_rate = 0.1});
  Gradients gradients({"embedding", "scale"}, {ones(test.cpu, {kCount}), ones(test.cpu, {2})});
  test.cpu.sync();
  test.cpu.reset_peak_memory();
  const std::int64_t live = test.cpu.memory().live_bytes;
  optimizer.step(model, std::move(gradients)).get();
  EXPECT_LT(test.cpu.memory().peak_live_bytes, live + kCount) << "of 4 times as many bytes";
  EXPECT_TRUE(is_tied(model));
}

TEST(TiedWeights, StayTiedWhenAStepIsRefusedOrFails) {
  TestRuntime test;
  Tied model = tied_ones(test.cpu);
  Sgd optimizer({.learning_rate = 0.1});
  EXPECT_THROW(
      static_cast<void>(optimizer.step(
          model, Gradients({"embedding", "scale"}, {ones(test.cpu, {3}), ones(test.cpu, {2})}))),
      ArgumentError);
  EXPECT_TRUE(is_tied(model));
  const Tensor wrong =
      cross_entropy(zeros(test.cpu, {1, 2}), Tensor::from(test.cpu, {std::int64_t{7}}, {1}));
  const Pending<StepReport> failed = optimizer.step(
      model, Gradients({"embedding", "scale"}, {expand(wrong, {2}), ones(test.cpu, {2})}));
  EXPECT_FALSE(failed.wait().has_value());
  EXPECT_TRUE(is_tied(model));
  EXPECT_THAT(model.head.to_vector<float>(), ElementsAre(1, 1));
}

TEST(TiedWeights, AreCountedAndNamedOnce) {
  TestRuntime test;
  const Tied model = tied_ones(test.cpu);
  EXPECT_EQ(parameter_count(model), 4);
  EXPECT_THAT(names_of(named_tensors(model)), ElementsAre("embedding", "scale"));
  EXPECT_THAT(names_of(named_parameters(model)), ElementsAre("embedding", "scale"));
}

TEST(TiedWeights, StayTiedThroughForkAndToDtypeAndCopyValues) {
  TestRuntime test;
  const Tied model = tied_ones(test.cpu);
  const Tied there = fork(model, test.reference);
  EXPECT_TRUE(is_tied(there));
  EXPECT_EQ(there.head.device(), test.reference);
  EXPECT_NE(detail::TensorAccess::impl(fork(model, test.cpu).head),
            detail::TensorAccess::impl(model.head));
  const Tied wide = to_dtype(model, DType::f64);
  EXPECT_TRUE(is_tied(wide));
  EXPECT_EQ(wide.head.dtype(), DType::f64);
  Tied to = tied_ones(test.cpu);
  to.embedding = zeros(test.cpu, {2});
  to.head = to.embedding;
  copy_values(model, to);
  EXPECT_TRUE(is_tied(to));
  EXPECT_THAT(to.head.to_vector<float>(), ElementsAre(1, 1));
}

TEST(TiedWeights, AreSavedOnceAndLoadedIntoBothNames) {
  TestRuntime test;
  const TemporaryFolder folder;
  Tied model = tied_ones(test.cpu);
  Sgd optimizer({.learning_rate = 0.25});
  optimizer.step(model, value_and_grad(model, loss_of).gradients).get();
  save_weights(model, folder.path() / "tied.safetensors");
  const SafetensorsFile file = SafetensorsFile::read(folder.path() / "tied.safetensors");
  EXPECT_EQ(file.entries().size(), 2U);
  EXPECT_FALSE(file.contains("head"));
  Tied loaded = tied_ones(test.reference);
  load_weights(loaded, folder.path() / "tied.safetensors");
  EXPECT_TRUE(is_tied(loaded));
  EXPECT_THAT(loaded.head.to_vector<float>(), ElementsAre(0.75, 0.75));
  // A model of equal names without the tie is a different model.
  Tied loose = tied_ones(test.cpu);
  loose.head = ones(test.cpu, {2});
  try {
    load_weights(loose, folder.path() / "tied.safetensors");
    FAIL() << "taken";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'head'"));
  }
}

TEST(TiedWeights, AreInATrainingStateOnceAndComeBackTied) {
  TestRuntime test;
  const TemporaryFolder folder;
  Tied model = tied_ones(test.cpu);
  Optimizer optimizer = Adam({.learning_rate = 0.25});
  optimizer.step(model, value_and_grad(model, loss_of).gradients).get();
  save_training(model, optimizer, {}, folder.path() / "state");
  Tied other = tied_ones(test.cpu);
  Optimizer again = Adam({.learning_rate = 0.25});
  static_cast<void>(load_training(other, again, folder.path() / "state"));
  EXPECT_TRUE(is_tied(other));
  EXPECT_EQ(other.head.to_vector<float>(), model.head.to_vector<float>());
  EXPECT_EQ(again.step_count(), 1);
}

TEST(TiedWeights, StayTiedOnTheWayToAnotherThreadAndAreAtHomeThere) {
  TestRuntime test;
  constexpr std::int64_t kCount = 1 << 18;
  detail::Mailbox<Tied> back;
  const std::unique_ptr<detail::Joinable> producer =
      test.runtime.executor().spawn({.name = "maker"}, [&] {
        Tied made = tied_ones(test.cpu, {kCount});
        publish(made);
        back.push(std::move(made));
      });
  std::optional<Tied> model = back.pop(Deadline::in(kDefaultWait));
  producer->join();
  ASSERT_TRUE(model.has_value());
  adopt(*model);
  EXPECT_TRUE(is_tied(*model));
  Gradients gradients({"embedding", "scale"}, {ones(test.cpu, {kCount}), ones(test.cpu, {2})});
  test.cpu.sync();
  test.cpu.reset_peak_memory();
  const std::int64_t live = test.cpu.memory().live_bytes;
  Sgd({.learning_rate = 0.1}).step(*model, std::move(gradients)).get();
  EXPECT_LT(test.cpu.memory().peak_live_bytes, live + kCount) << "updated in place";
}

struct Stack {
  std::vector<Linear> layers;
  HEARTH_MODULE(Stack, layers)
};

TEST(TiedWeights, CopiesOfALayerAreTiedUntilTheyAreForked) {
  TestRuntime test;
  Generator generator(1);
  const Linear layer({.in = 2, .out = 2}, test.cpu, generator);
  EXPECT_EQ(parameter_count(Stack{{layer, layer}}), 6);
  EXPECT_EQ(parameter_count(Stack{{layer, fork(layer, test.cpu)}}), 12);
}

}  // namespace
}  // namespace hearth
