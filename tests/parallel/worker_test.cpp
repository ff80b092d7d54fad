#include <hearth/parallel/worker.hpp>

#include "training_support.hpp"

#include <hearth/modules/generator_scope.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/base/manual_executor.hpp>

#include <deque>
#include <map>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

struct OneDevice {
  Runtime runtime{cpu_devices(1)};
  Device device = runtime.device("cpu:0");
};

Tensor loss_of(const Linear& model, const Tensor& x) {
  return mean(square(model.forward(x)));
}

TEST(Worker, TakesAModuleAndGivesItsGradientsBack) {
  OneDevice test;
  Generator generator(1);
  Linear model({.in = 4, .out = 2}, test.device, generator);
  const Linear same = model;
  const Tensor x = random_normal(test.device, {3, 4}, generator);
  DeviceWorker worker(test.runtime, test.device);
  const auto differentiate = [](WorkerContext&, const Linear& moved, const Tensor& input) {
    return value_and_grad(moved, [&](const Linear& tracked) { return loss_of(tracked, input); })
        .gradients;
  };
  Gradients gradients = worker.run(differentiate, fork(model, test.device), x).get();
  take_over(gradients);
  const Gradients here =
      value_and_grad(same, [&](const Linear& tracked) { return loss_of(tracked, x); }).gradients;
  EXPECT_EQ(gradients.at("weight").to_vector<float>(), here.at("weight").to_vector<float>());
  EXPECT_EQ(gradients.at("bias").to_vector<float>(), here.at("bias").to_vector<float>());
}

TEST(Worker, WhatIsHandedOverIsAtHomeWhereItArrives) {
  OneDevice test;
  Generator generator(1);
  DeviceWorker worker(test.runtime, test.device);
  Linear model({.in = 4, .out = 2}, test.device, generator);
  const auto step = [](WorkerContext& context, Linear moved) {
    Sgd optimizer({.learning_rate = 0.1});
    const Tensor x = ones(context.device, {3, 4});
    auto result = value_and_grad(moved, [&](const Linear& tracked) { return loss_of(tracked, x); });
    optimizer.step(moved, std::move(result.gradients)).get();
    return moved;
  };
  const std::uint64_t before = test.device.statistics().foreign_uses;
  Linear back = worker.run(step, std::move(model)).get();
  take_over(back);
  static_cast<void>(back.forward(ones(test.device, {1, 4})).to_vector<float>());
  EXPECT_EQ(test.device.statistics().foreign_uses, before);
}

TEST(Worker, HandsOverWhatPairsListsAndOptionalsHold) {
  OneDevice test;
  DeviceWorker worker(test.runtime, test.device);
  using Parts = std::pair<std::vector<Tensor>, std::optional<Tensor>>;
  const auto add_one = [](WorkerContext&, Parts parts) {
    parts.first[0] = parts.first[0] + 1;
    parts.second = *parts.second + 2;
    return parts;
  };
  Parts parts{{ones(test.device, {2})}, ones(test.device, {1})};
  const std::uint64_t before = test.device.statistics().foreign_uses;
  Parts back = worker.run(add_one, std::move(parts)).get();
  take_over(back);
  EXPECT_EQ(back.first[0].to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ(back.second->item(), 3);
  EXPECT_EQ(test.device.statistics().foreign_uses, before);
}

TEST(Worker, HandsOverWhatMapsAndDequesHold) {
  OneDevice test;
  DeviceWorker worker(test.runtime, test.device);
  using Parts = std::map<std::string, std::deque<Tensor>>;
  const auto add_one = [](WorkerContext&, Parts parts) {
    parts["a"][0] = parts["a"][0] + 1;
    return parts;
  };
  Parts parts;
  parts["a"].push_back(ones(test.device, {2}));
  const std::uint64_t before = test.device.statistics().foreign_uses;
  Parts back = worker.run(add_one, std::move(parts)).get();
  take_over(back);
  EXPECT_EQ(back["a"][0].to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ(test.device.statistics().foreign_uses, before);
}

TEST(Worker, RunsInTheOrderOfTheCalls) {
  OneDevice test;
  DeviceWorker worker(test.runtime, test.device);
  std::vector<int> order;
  std::vector<Pending<void>> pending;
  for (int i = 0; i < 100; ++i) {
    pending.push_back(worker.run([&order, i](WorkerContext&) { order.push_back(i); }));
  }
  pending.back().get();
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(Worker, ReportsWhatItsFunctionThrew) {
  OneDevice test;
  DeviceWorker worker(test.runtime, test.device, {.rank = 3, .world = 4});
  const auto thrown_by = [&](auto fn) -> ErrorRef { return worker.run(fn).wait().shared_error(); };
  const ErrorRef ours = thrown_by([](WorkerContext& context) {
    static_cast<void>(add(ones(context.device, {2}), ones(context.device, {3})));
  });
  ASSERT_NE(ours, nullptr);
  EXPECT_EQ(ours->code, ErrorCode::shape_mismatch);
  EXPECT_THAT(ours->text, HasSubstr("f32[3] (worker 3 on cpu:0)"));
  EXPECT_EQ(ours->cause, nullptr);
  const ErrorRef late = thrown_by([](WorkerContext& context) {
    throw_error(Error{.code = ErrorCode::deadline_exceeded, .text = context.device.name()});
  });
  EXPECT_EQ(late->code, ErrorCode::worker_failed) << "the worker, not its caller, waited";
  EXPECT_EQ(late->cause->code, ErrorCode::deadline_exceeded);
  const ErrorRef standard =
      thrown_by([](WorkerContext&) { throw std::runtime_error("no more paper"); });
  EXPECT_THAT(standard->cause->text, HasSubstr("no more paper"));
  const ErrorRef strange = thrown_by([](WorkerContext&) { throw 7; });
  EXPECT_EQ(strange->code, ErrorCode::worker_failed);
  EXPECT_EQ(worker.run([](WorkerContext& context) { return context.rank; }).get(), 3);
}

TEST(Worker, DrawsItsOwnNumbersFromSeedAndRank) {
  OneDevice test;
  const auto draw = [&](std::uint64_t seed, int rank) {
    DeviceWorker worker(test.runtime, test.device, {.rank = rank, .world = 2, .seed = seed});
    return worker
        .run([](WorkerContext& context) {
          return random_uniform(context.device, {8}, current_generator("a test"))
              .to_vector<float>();
        })
        .get();
  };
  EXPECT_EQ(draw(7, 0), draw(7, 0));
  EXPECT_NE(draw(7, 0), draw(7, 1));
  EXPECT_NE(draw(7, 0), draw(8, 0));
}

TEST(Worker, RunsOnTheCoresOfItsDevice) {
  const int core = available_cores().back();
  RuntimeOptions options = cpu_devices(1);
  options.devices[0].cores = {core};
  const Runtime runtime(std::move(options));
  EXPECT_EQ(runtime.device("cpu:0").cores(), std::vector<int>{core});
  DeviceWorker worker(runtime, runtime.device("cpu:0"));
  EXPECT_EQ(worker.run([](WorkerContext&) { return available_cores(); }).get(),
            std::vector<int>{core});
}

TEST(Worker, AsksTheFunctionThatRunsToStop) {
  OneDevice test;
  detail::Mailbox<int> started;
  Promise<void> never;
  Pending<void> nothing = never.pending();
  auto worker = std::make_unique<DeviceWorker>(test.runtime, test.device);
  const Pending<void> patient = worker->run([&](WorkerContext& context) {
    started.push(1);
    nothing.get({.stop = context.stop});
  });
  ASSERT_TRUE(started.pop(Deadline::in(kDefaultWait)).has_value());
  worker.reset();
  const Status status = patient.wait();
  ASSERT_FALSE(status.has_value());
  ASSERT_NE(status.error().cause, nullptr) << status.error().to_string();
  EXPECT_EQ(status.error().cause->code, ErrorCode::cancelled);
}

TEST(Worker, GivesUpWhatIsQueuedWhenItEnds) {
  OneDevice test;
  detail::Mailbox<int> started;
  detail::Mailbox<int> release;
  auto worker = std::make_unique<DeviceWorker>(test.runtime, test.device);
  Pending<int> running = worker->run([&](WorkerContext&) {
    started.push(1);
    return release.pop(Deadline::in(kDefaultWait)).value_or(0);
  });
  Pending<int> queued = worker->run([](WorkerContext&) { return 1; });
  ASSERT_TRUE(started.pop(Deadline::in(kDefaultWait)).has_value());
  worker->stop();
  release.push(42);
  worker.reset();
  EXPECT_EQ(running.get(), 42);
  EXPECT_EQ(queued.wait().error().code, ErrorCode::cancelled);
}

TEST(Worker, AFunctionThatDoesNotComeBackIsLeftBehindWithAllThatItsThreadTouches) {
  ManualExecutor executor;
  executor.run([&] {
    const Runtime runtime(cpu_devices(1, &executor));
    const Device device = runtime.device("cpu:0");
    Promise<void> release;
    const auto released = std::make_shared<const Pending<void>>(release.pending());
    auto worker = std::make_unique<DeviceWorker>(
        runtime, device, WorkerOptions{.rank = 2, .world = 3, .shutdown_limit = 5s});
    Pending<float> hung = worker->run([released](WorkerContext& context) {
      static_cast<void>(released->wait({.deadline = Deadline::never()}));
      return sum(ones(context.device, {2})).item<float>() + static_cast<float>(context.rank);
    });
    const Pending<int> queued = worker->run([](WorkerContext&) { return 1; });
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(hung, Deadline::in(1s)));
    const detail::TimePoint begin = executor.clock().now();
    ::testing::internal::CaptureStderr();
    worker.reset();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("worker 2 on cpu:0 does not end: runs one; 0 functions wait; its thread "
                          "is abandoned"));
    EXPECT_EQ(executor.clock().now() - begin, 5s);
    EXPECT_EQ(queued.wait().error().code, ErrorCode::cancelled);
    EXPECT_THAT(runtime.watchdog().report("a test"), HasSubstr("worker 2 on cpu:0: runs one"));
    release.set_value();
    EXPECT_EQ(hung.get(), 4);
    detail::current_context().parker().park(Deadline::in(1s));
    EXPECT_THAT(runtime.watchdog().report("a test"), Not(HasSubstr("worker 2")));
  });
}

TEST(Worker, AWaitThatNamesNoDeadlineHasThatOfTheRuntime) {
  ManualExecutor executor;
  executor.run([&] {
    RuntimeOptions options = cpu_devices(1, &executor);
    options.wait_limit = 1s;
    const Runtime runtime(options);
    Promise<void> release;
    const auto released = std::make_shared<const Pending<void>>(release.pending());
    DeviceWorker worker(runtime, runtime.device("cpu:0"));
    const Pending<void> hung = worker.run([released](WorkerContext&) {
      static_cast<void>(released->wait({.deadline = Deadline::never()}));
    });
    const detail::TimePoint start = executor.clock().now();
    const Status status = hung.wait();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(executor.clock().now() - start, 1s);
    release.set_value();
    EXPECT_TRUE(hung.wait().has_value());
  });
}

// Its device runs one op after another, for much longer than the limit.
TEST(Worker, AWaitForAWorkerWhoseDeviceGetsOnGoesOn) {
  ManualExecutor executor;
  executor.run([&] {
    RuntimeOptions options = cpu_devices(1, &executor);
    options.wait_limit = 1s;
    const Runtime runtime(options);
    DeviceWorker worker(runtime, runtime.device("cpu:0"));
    Pending<float> result = worker.run([](WorkerContext& context) {
      Tensor sum = zeros(context.device, {1});
      for (int i = 0; i < 20; ++i) {
        sum = std::move(sum) + 1;
        context.device.sync();
        detail::current_context().parker().park(Deadline::in(500ms));
      }
      return sum.item<float>();
    });
    EXPECT_EQ(result.get(), 20);
  });
}

// The test does not control the order of threads.
TEST(Worker, AThreadThatHangsOutlivesItsWorkerAndItsRuntime) {
  Promise<void> release;
  const auto released = std::make_shared<const Pending<void>>(release.pending());
  Pending<int> hung;
  {
    OneDevice test;
    detail::Mailbox<int> started;
    DeviceWorker worker(test.runtime, test.device, {.shutdown_limit = 1ms});
    hung = worker.run([released, &started](WorkerContext& context) {
      started.push(1);
      static_cast<void>(released->wait({.deadline = Deadline::never()}));
      return context.world;
    });
    ASSERT_TRUE(started.pop(Deadline::in(kDefaultWait)).has_value());
  }
  release.set_value();
  EXPECT_EQ(hung.get(), 1);
}

}  // namespace
}  // namespace hearth
