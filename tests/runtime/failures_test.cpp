// An unread failure is reported: by sync(), by the log, at the runtime's end.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/runtime/update_group.hpp>

#include "stepped_runtime.hpp"

namespace hearth::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A loss whose label is outside its classes.
Tensor bad_loss(const Device& device, std::int64_t label = 9) {
  return cross_entropy(zeros(device, {1, 3}), Tensor::from(device, std::vector{label}, {1}));
}

template <class Program>
std::string log_of(const Program& program) {
  ::testing::internal::CaptureStderr();
  {
    const Runtime runtime({.devices = {{.name = "cpu:0"}}});
    program(runtime.device("cpu:0"));
  }
  return ::testing::internal::GetCapturedStderr();
}

/// log_of() in virtual time.
template <class Program>
std::string stepped_log_of(const Program& program) {
  ::testing::internal::CaptureStderr();
  stepped({.devices = {{.name = "cpu:0"}}}, [&](const World& world) { program(world.device); });
  return ::testing::internal::GetCapturedStderr();
}

std::ptrdiff_t count_of(const std::string& text, std::string_view part) {
  std::ptrdiff_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// ---- sync() ----

TEST(Failures, SyncThrowsTheFirstThatNobodyHasRead) {
  stepped([](const World& world) {
    static_cast<void>(bad_loss(world.device, 7) + 1.0);
    static_cast<void>(bad_loss(world.device, 8));
    try {
      world.device.sync();
      FAIL() << "two failures were not read";
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_range);
      EXPECT_EQ(error.error().op, "cross_entropy");
      EXPECT_THAT(error.error().text, HasSubstr("7"));
      EXPECT_NE(error.error().location.line, 0U);
    }
    world.device.sync();  // reports only later failures
    static_cast<void>(bad_loss(world.device));
    EXPECT_THROW(world.device.sync(), DeviceError);
  });
}

TEST(Failures, SyncSaysNothingOfWhatWasRead) {
  stepped([](const World& world) {
    const Tensor loss = bad_loss(world.device);
    const Tensor after = loss * 2.0;
    EXPECT_THROW(static_cast<void>(after.item<float>()), DeviceError);
    world.device.sync();
    EXPECT_THROW(static_cast<void>(loss.item<float>()), DeviceError) << "reads still throw it";
    EXPECT_EQ(world.device.failures().unread_count(), 0U);
  });
}

TEST(Failures, SyncIsAboutItsOwnStreamAndWhatItTookOver) {
  stepped([](const World& world) {
    Stream other(world.device);
    Tensor spoiled;
    {
      const StreamScope scope(other);
      spoiled = bad_loss(world.device);
      spoiled.publish();
    }
    world.device.sync();
    const Tensor taken_over = spoiled + 1.0;
    EXPECT_THROW(world.device.sync(), DeviceError);
    const StreamScope scope(other);
    world.device.sync();  // the cause is known by now
  });
}

TEST(Failures, ADroppedReadIsNoRead) {
  stepped([](const World& world) {
    const Tensor loss = bad_loss(world.device);
    world.device.catch_up_later().get();
    static_cast<void>(loss.item_later());
    static_cast<void>(detail::PendingAccess::is_ready_by(loss.item_later(),
                                                         Deadline::in(std::chrono::seconds(1))));
    EXPECT_EQ(world.device.failures().unread_count(), 1U);
    EXPECT_THROW(world.device.sync(), DeviceError);
    EXPECT_EQ(world.device.failures().unread_count(), 0U);
  });
}

TEST(Failures, MoreThanAStreamRemembersAreStillCounted) {
  stepped([](const World& world) {
    for (int i = 0; i < 100; ++i) {
      const Tensor loss = bad_loss(world.device);
      if (i < 50) {
        EXPECT_THROW(static_cast<void>(loss.item<float>()), DeviceError);
      }
    }
    EXPECT_THROW(world.device.sync(), DeviceError);
    EXPECT_EQ(world.device.failures().unread_count(), 49U);
  });
}

TEST(Failures, ALostUpdateIsOneEvenWhenItsInputsWereGivenUp) {
  stepped([](const World& world) {
    Tensor weight = ones(world.device, {2});
    Tensor gradient = lend(
        ones(world.device, {2}), [](const Result<LentRegion>&) {}, Deadline::never());
    world.device.catch_up_later().get();
    EXPECT_EQ(world.device.failures().unread_count(), 0U) << "cancelled, and nobody needs it";
    {
      UpdateGroup group(world.device);
      Tensor none;
      group.sgd(weight, std::move(gradient), none, {});
      static_cast<void>(group.commit());
    }
    world.device.catch_up_later().get();
    EXPECT_EQ(world.device.failures().unread_count(), 1U);
    EXPECT_THROW(world.device.sync(), DeviceError);
  });
}

TEST(Failures, ARestartIsKnownToItsProgram) {
  stepped([](const World& world) {
    const Tensor lost = ones(world.device, {2});
    world.device.restart();
    static_cast<void>(lost + 1.0);
    static_cast<void>(lost.read_bytes());
    world.device.sync();
    EXPECT_EQ(world.device.failures().unread_count(), 0U);
  });
}

TEST(Failures, EveryScheduleTellsTheSame) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    stepped({.seed = seed}, [seed](const World& world) {
      const auto other = world.spawn("other", [device = world.device] {
        static_cast<void>(bad_loss(device, 5));
        EXPECT_THROW(device.sync(), DeviceError);
      });
      const Tensor loss = bad_loss(world.device, 6);
      EXPECT_THROW(static_cast<void>(loss.item<float>()), DeviceError);
      world.device.sync();
      ASSERT_TRUE(other->join(Deadline::never()));
      EXPECT_EQ(world.device.failures().unread_count(), 0U) << "seed " << seed;
    });
  }
}

// ---- the log ----

TEST(Failures, ATensorThatDiesUnreadIsLoggedOnceWithOpAndLine) {
  const std::string log = stepped_log_of([](const Device& device) {
    {
      const Tensor loss = bad_loss(device);
      const Tensor more = (loss + 1.0) * 2.0;
    }
    device.catch_up_later().get();
    pass(std::chrono::seconds(1));  // the device is idle: no later sync() would throw the failure
  });
  EXPECT_EQ(count_of(log, "unread failure"), 1) << log;
  EXPECT_THAT(
      log,
      ContainsRegex("unread failure: cross_entropy: .*9.*op cross_entropy.*failures_test.cpp:"
                    "[0-9]+\\] \\(4 ops failed with it\\)"));
  EXPECT_THAT(log, HasSubstr("the runtime ends: 1 failure was never read\n  cross_entropy"));
}

// The losses and the look-ups of their weights fail separately; with one name they make one line.
TEST(Failures, WhatAFunctionIsMadeOfHasItsName) {
  const std::string log = log_of([](const Device& device) {
    const Tensor scores = zeros(device, {2, 3});
    const Tensor strays = Tensor::from<std::int64_t>(device, {0, 9}, {2});
    static_cast<void>(cross_entropy(scores, strays, {.class_weights = ones(device, {3})}));
    static_cast<void>(nll_loss(scores, strays));
    static_cast<void>(embedding(scores, strays));
  });
  EXPECT_THAT(log, HasSubstr("4 failures were never read"));
  EXPECT_EQ(count_of(log, "\n  cross_entropy: "), 1) << log;
  EXPECT_EQ(count_of(log, "\n  nll_loss: "), 1) << log;
  EXPECT_EQ(count_of(log, "\n  embedding: "), 1) << log;
  EXPECT_THAT(log, AllOf(Not(HasSubstr("index_select")), Not(HasSubstr("gather"))));
}

TEST(Failures, WhatASyncThrowsIsNotLoggedBefore) {
  const std::string log = stepped_log_of([](const Device& device) {
    static_cast<void>(bad_loss(device) + 1.0);
    EXPECT_THROW(device.sync(), DeviceError);
    pass(std::chrono::seconds(1));
  });
  EXPECT_THAT(log, IsEmpty());
}

TEST(Failures, ASyncWhoseAnswerNobodyReadsIsLoggedAsItsFailure) {
  const std::string log = stepped_log_of([](const Device& device) {
    static_cast<void>(bad_loss(device));
    static_cast<void>(device.sync_later());
    pass(std::chrono::seconds(1));
  });
  EXPECT_EQ(count_of(log, "unread failure"), 1) << log;
}

TEST(Failures, WhatWasReadIsNotLogged) {
  const std::string log = log_of([](const Device& device) {
    for (int i = 0; i < 3; ++i) {
      const Tensor loss = bad_loss(device);
      const Pending<double> unread = (loss + 1.0).item_later();
      EXPECT_THROW(static_cast<void>(loss.item<float>()), DeviceError);
    }
    Tensor weight = ones(device, {2});
    Tensor none;
    UpdateGroup dropped(device);
    dropped.sgd(weight, ones(device, {2}), none, {});
  });
  EXPECT_THAT(log, IsEmpty());
}

TEST(Failures, TheRuntimesEndReportsWhatIsStillAlive) {
  Tensor loss;
  const std::string log = log_of([&loss](const Device& device) {
    static_cast<void>(bad_loss(device, 4).item_later().wait());
    loss = bad_loss(device, 5);
  });
  EXPECT_THAT(log, AllOf(Not(HasSubstr("unread failure")), HasSubstr("1 failure was never read")))
      << "the one that was read is known";
}

TEST(Failures, OneMistakeInALoopIsAFewLines) {
  const std::string log = log_of([](const Device& device) {
    for (int i = 0; i < 500; ++i) {
      static_cast<void>(bad_loss(device));
    }
    device.catch_up_later().get();
  });
  EXPECT_EQ(count_of(log, "unread failure"), 3) << log;
  EXPECT_THAT(log, HasSubstr("(100 such lines so far)"));
  EXPECT_THAT(log, HasSubstr("500 failures were never read"));
}

TEST(Failures, ACallbackThatThrowsInALoopIsAFewLines) {
  const std::string log = log_of([](const Device& device) {
    const Tensor ones_there = ones(device, {2});
    for (int i = 0; i < 200; ++i) {
      const Tensor back = lend(
          ones_there,
          [](const Result<LentRegion>& region) {
            static_cast<void>(region);
            throw std::runtime_error("no taker");
          },
          Deadline::never());
      EXPECT_FALSE(back.read_bytes().wait().has_value());
    }
  });
  EXPECT_EQ(count_of(log, "no taker"), 3) << log;
}

}  // namespace
}  // namespace hearth::testing
