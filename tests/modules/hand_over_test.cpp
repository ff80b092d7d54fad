// Models, gradients and optimizers on other threads than the one that made them.
#include <hearth/modules/linear.hpp>
#include <hearth/modules/optimizer.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/ops.hpp>

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

auto mean_square(const Tensor& x) {
  return [x](const auto& model) { return mean(square(model.forward(x))); };
}

TEST(HandOver, AWorkerTrainsAModelThatItWasGivenAndGivesItBack) {
  TestRuntime test;
  Generator generator(6);
  const Tensor x = random_normal(test.cpu, {8, 3}, generator);
  Linear here({.in = 3, .out = 2}, test.cpu, generator);
  Linear given = fork(here, test.cpu);
  const auto train = [](Linear& model, const Tensor& input) {
    Optimizer optimizer = Adam({.learning_rate = 0.1});
    for (int step = 0; step < 5; ++step) {
      auto [loss, gradients] = value_and_grad(model, mean_square(input));
      optimizer.step(model, std::move(gradients)).get();
    }
  };
  publish(given);
  x.publish();
  detail::Mailbox<Linear> back;
  const std::unique_ptr<detail::Joinable> worker =
      test.runtime.executor().spawn({.name = "worker"}, [&, model = std::move(given)]() mutable {
        adopt(model);
        train(model, x);
        publish(model);
        back.push(std::move(model));
      });
  train(here, x);
  std::optional<Linear> returned = back.pop(Deadline::in(kDefaultWait));
  worker->join();
  ASSERT_TRUE(returned.has_value());
  adopt(*returned);
  EXPECT_EQ(returned->weight.to_vector<float>(), here.weight.to_vector<float>());
}

TEST(HandOver, GradientsOfAWorkerStepTheModelHere) {
  TestRuntime test;
  Generator generator(6);
  const Tensor x = random_normal(test.cpu, {8, 3}, generator);
  Linear model({.in = 3, .out = 2}, test.cpu, generator);
  Linear expected = fork(model, test.cpu);
  Linear replica = fork(model, test.cpu);
  publish(replica);
  x.publish();
  detail::Mailbox<Gradients> back;
  const std::unique_ptr<detail::Joinable> worker =
      test.runtime.executor().spawn({.name = "worker"}, [&, mine = std::move(replica)]() mutable {
        adopt(mine);
        Gradients gradients = value_and_grad(mine, mean_square(x)).gradients;
        gradients.publish();
        back.push(std::move(gradients));
      });
  std::optional<Gradients> gradients = back.pop(Deadline::in(kDefaultWait));
  worker->join();
  ASSERT_TRUE(gradients.has_value());
  gradients->adopt();
  Sgd first({.learning_rate = 0.5});
  Sgd second({.learning_rate = 0.5});
  first.step(model, std::move(*gradients)).get();
  second.step(expected, value_and_grad(expected, mean_square(x)).gradients).get();
  EXPECT_EQ(model.weight.to_vector<float>(), expected.weight.to_vector<float>());
}

TEST(HandOver, AnOptimizerMovesWithItsModel) {
  TestRuntime test;
  Generator generator(6);
  const Tensor x = random_normal(test.cpu, {8, 3}, generator);
  Linear model({.in = 3, .out = 2}, test.cpu, generator);
  Sgd optimizer({.learning_rate = 0.1, .momentum = 0.9});
  const auto step = [](Linear& stepped, Sgd& with, const Tensor& input) {
    with.step(stepped, value_and_grad(stepped, mean_square(input)).gradients).get();
  };
  Linear expected = fork(model, test.cpu);
  Sgd other(optimizer.config());
  for (int i = 0; i < 3; ++i) {
    step(expected, other, x);
  }
  step(model, optimizer, x);
  publish(model);
  publish(optimizer);
  x.publish();
  std::vector<float> trained;
  std::int64_t count = 0;
  const std::unique_ptr<detail::Joinable> worker = test.runtime.executor().spawn(
      {.name = "worker"}, [&, mine = std::move(model), with = std::move(optimizer)]() mutable {
        adopt(mine);
        adopt(with);
        step(mine, with, x);
        step(mine, with, x);
        trained = mine.weight.to_vector<float>();
        count = with.step_count();
      });
  worker->join();
  EXPECT_EQ(trained, expected.weight.to_vector<float>());
  EXPECT_EQ(count, 3);
}

}  // namespace
}  // namespace hearth
