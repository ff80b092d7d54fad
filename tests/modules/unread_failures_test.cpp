// README's first program with a label outside the classes; the program reads neither loss nor
// reports.
#include <hearth/modules/linear.hpp>
#include <hearth/modules/optimizer.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/stream.hpp>

#include <cstdint>
#include <stop_token>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

struct Program {
  TestRuntime test;
  Generator generator{1};
  Linear model{{.in = 4, .out = 3}, test.cpu, generator};

  /// Loss and gradients of one sample with this label; the classes are 0, 1 and 2.
  [[nodiscard]] auto differentiate(std::int64_t label) {
    return value_and_grad(model, [&](const Linear& tracked) {
      return cross_entropy(tracked.forward(ones(test.cpu, {1, 4})),
                           Tensor::from(test.cpu, std::vector{label}, {1}));
    });
  }
  /// A step whose loss and report stay unread.
  void step(Optimizer& optimizer, std::int64_t label) {
    auto report = optimizer.step(model, differentiate(label).gradients);
  }
};

void expect_told_by_the_next_step(Optimizer optimizer, const std::string& name) {
  Program program;
  program.step(optimizer, 1);
  program.step(optimizer, 3);
  const Tensor before = program.model.weight + 0.0;
  try {
    program.step(optimizer, 1);
    FAIL() << "a step was lost, and nobody knows";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_range);
    EXPECT_EQ(error.error().op, name);
    EXPECT_THAT(error.error().text, HasSubstr("an earlier step did not happen"));
    ASSERT_NE(error.error().cause, nullptr);
    EXPECT_EQ(error.error().cause->op, "cross_entropy");
    EXPECT_THAT(error.what(), HasSubstr("unread_failures_test.cpp"));
  }
  EXPECT_TRUE(all_equal(program.model.weight, before)) << "the step that threw changed nothing";
  program.step(optimizer, 1);  // reported once: training may go on
  EXPECT_EQ(optimizer.step_count(), 2);
  EXPECT_EQ(program.test.cpu.failures().unread_count(), 0U);
}

TEST(UnreadFailures, ALostStepOfSgdIsThrownByTheNext) {
  expect_told_by_the_next_step(Sgd({.learning_rate = 0.1, .momentum = 0.9}), "Sgd");
}
TEST(UnreadFailures, ALostStepOfAdamIsThrownByTheNext) {
  expect_told_by_the_next_step(Adam({.learning_rate = 0.1}), "Adam");
}
TEST(UnreadFailures, ALostStepOfAdamWIsThrownByTheNext) {
  expect_told_by_the_next_step(AdamW({.learning_rate = 0.1}), "Adam");
}

// The update was submitted, and its stream is cancelled before the update has begun.
TEST(UnreadFailures, AnUpdateThatItsStreamGaveUpIsThrownByTheNextStep) {
  Program program;
  Optimizer sgd = Sgd({.learning_rate = 0.1});
  Stream stream(program.test.cpu);
  const StreamScope scope(stream);
  auto gradients = program.differentiate(1).gradients;
  std::stop_source stop;
  stop.request_stop();
  stream.set_limits({.stop = stop.get_token()});
  const std::uint32_t line = __LINE__ + 1;
  static_cast<void>(sgd.step(program.model, std::move(gradients)));
  stream.set_limits({});
  try {
    program.step(sgd, 1);
    FAIL() << "an update was lost, and nobody knows";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
    ASSERT_NE(error.error().cause, nullptr);
    const Error& cause = *error.error().cause;
    EXPECT_EQ(cause.op, "update group");
    EXPECT_EQ(cause.location.line, line) << "the line of the step that was given up";
    EXPECT_THAT(cause.location.file, EndsWith("unread_failures_test.cpp"));
  }
  program.step(sgd, 1);
  EXPECT_EQ(sgd.step_count(), 1);
}

TEST(UnreadFailures, AStepWhoseReportWasReadIsNotThrown) {
  Program program;
  Sgd sgd({.learning_rate = 0.1});
  auto report = sgd.step(program.model, program.differentiate(3).gradients);
  EXPECT_THROW(report.get(), DeviceError);
  sgd.step(program.model, program.differentiate(1).gradients).get();
  EXPECT_EQ(sgd.step_count(), 1);
}

TEST(UnreadFailures, AStepWhoseLossWasReadIsNotThrown) {
  Program program;
  Sgd sgd({.learning_rate = 0.1});
  auto [loss, gradients] = program.differentiate(3);
  static_cast<void>(sgd.step(program.model, std::move(gradients)));
  EXPECT_THROW(static_cast<void>(loss.item()), DeviceError);
  sgd.step(program.model, program.differentiate(1).gradients).get();
}

TEST(UnreadFailures, AReportThatIsHeldIsLeftToItsHolder) {
  Program program;
  Sgd sgd({.learning_rate = 0.1});
  auto report = sgd.step(program.model, program.differentiate(3).gradients);
  auto next = sgd.step(program.model, program.differentiate(1).gradients);
  report = {};
  EXPECT_THROW(static_cast<void>(sgd.step(program.model, program.differentiate(1).gradients)),
               DeviceError);
  EXPECT_EQ(next.get().step, 1);
}

TEST(UnreadFailures, AskingForTheCountReadsNothing) {
  Program program;
  Optimizer sgd = Sgd({.learning_rate = 0.1});
  program.step(sgd, 3);
  EXPECT_EQ(sgd.step_count(), 0);
  EXPECT_THROW(program.step(sgd, 1), DeviceError);
}

TEST(UnreadFailures, TheRuntimesEndCountsTheLastStep) {
  ::testing::internal::CaptureStderr();
  {
    Program program;
    Optimizer sgd = Sgd({.learning_rate = 0.1});
    program.step(sgd, 3);
    static_cast<void>(sgd.step_count());
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("the runtime ends: 1 failure was never read\n  cross_entropy: "));
}

}  // namespace
}  // namespace hearth
