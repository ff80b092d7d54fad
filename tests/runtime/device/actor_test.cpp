// Fine print 1 to 3 and 12 of the design: rings, releasing the token, parked lanes, user code.
#include "tests/runtime/held_token.hpp"

#include <optional>

#include "runtime/device/memory/handle_table.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::HeldStream;
using testing::HeldToken;
using testing::pass;
using testing::stepped;
using testing::World;

TEST(Actor, AReaderOfAHostDeviceRunsTheLoopItself) {
  // With real threads, because under the manual executor the actor's thread always comes first.
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  const Tensor x = ones(device, {2});
  const std::uint64_t lent = device.statistics().tokens_lent;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_THAT((x + 1).to_vector<float>(), ElementsAre(2, 2));
  }
  EXPECT_GT(device.statistics().tokens_lent, lent);
}

TEST(Actor, WhatNobodyReadsIsRunByTheActorsThread) {
  stepped([](const World& world) {
    const Tensor sum = world.f32({1}) + 1;
    const Pending<void> done = world.device.sync_later();
    pass(10ms);
    EXPECT_TRUE(done.is_ready());
    EXPECT_EQ(sum.item(), 2);
  });
}

// Fine print 2.
TEST(Actor, ABorrowerThatHasItsValueGivesTheTokenBackWithWorkLeft) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    stepped({.seed = seed}, [seed](const World& world) {
      const Tensor mine = world.f32({1});
      Stream other(world.device);
      Pending<void> done;
      {
        const StreamScope scope(other);
        Tensor x = world.f32({0});
        for (int i = 0; i < 100; ++i) {
          x = std::move(x) + 1;
        }
        done = world.device.sync_later();
      }
      EXPECT_EQ(mine.item(), 1);
      pass(10ms);
      EXPECT_TRUE(done.is_ready()) << "seed " << seed;
    });
  }
}

TEST(Actor, ABorrowerWhoseDeadlinePassesLeavesTheRestToTheActor) {
  stepped([](const World& world) {
    HeldStream held(world.device);
    const Tensor behind = world.f32({1}) + 1;
    const Pending<std::vector<std::byte>> value = behind.read_bytes();
    const detail::TimePoint start = testing::now();
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(value, Deadline::in(3s)));
    EXPECT_EQ(testing::now() - start, 3s);
    held.unblock();
    pass(10ms);
    EXPECT_TRUE(value.is_ready());
  });
}

TEST(Actor, LanesTakeTurns) {
  stepped([](const World& world) {
    Stream busy(world.device);
    std::optional<HeldStream> busy_held;
    Pending<void> busy_done;
    {
      const StreamScope scope(busy);
      busy_held.emplace(world.device);
      Tensor x = world.f32({0});
      for (int i = 0; i < 200; ++i) {
        x = std::move(x) + 1;
      }
      busy_done = world.device.sync_later();
    }
    HeldStream held(world.device);
    const Pending<std::vector<std::byte>> mine = world.f32({1}).read_bytes();
    busy_held->unblock();
    held.unblock();
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(mine, Deadline::in(1s)));
    EXPECT_FALSE(busy_done.is_ready()) << "the short lane waited for all of the long one";
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(busy_done, Deadline::in(1s)));
  });
}

// Fine print 3.
TEST(Actor, AnOpWhoseOperandNeverComesFailsAtItsDeadlineAndTheLaneGoesOn) {
  stepped([](const World& world) {
    Stream stuck(world.device);
    std::optional<HeldStream> held;
    Tensor late;
    {
      const StreamScope scope(stuck);
      held.emplace(world.device);
      late = world.f32({5});
    }
    const Tensor sum = late + 1;
    const Tensor after = world.f32({1}) + 1;
    const Pending<std::vector<std::byte>> other = after.read_bytes();
    const detail::TimePoint start = testing::now();
    const Error error = testing::read_error(sum);
    EXPECT_EQ(error.code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(error.op, "add");
    EXPECT_THAT(error.text, ::testing::HasSubstr("was not ready in time"));
    EXPECT_EQ(testing::now() - start, kDefaultWait);
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(other, Deadline::in(1s)));
    EXPECT_EQ(after.item(), 2);
    held->unblock();
    EXPECT_EQ(late.item(), 5) << "the late tensor itself is good";
  });
}

TEST(Actor, AnOpWaitsForItsOperandAsLongAsItsRuntimeSays) {
  stepped({.wait_limit = 300s}, [](const World& world) {
    Stream stuck(world.device);
    std::optional<HeldStream> held;
    Tensor late;
    {
      const StreamScope scope(stuck);
      held.emplace(world.device);
      late = world.f32({5});
    }
    const Pending<std::vector<std::byte>> sum = (late + 1).read_bytes();
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(sum, Deadline::in(299s)));
    const detail::TimePoint start = testing::now();
    EXPECT_EQ(testing::code_of(sum.wait()), ErrorCode::deadline_exceeded);
    EXPECT_EQ(testing::now() - start, 1s);
    held->unblock();
  });
}

TEST(Actor, AReadOrLoanOfATensorThatNeverComesHearsOfItsDeadline) {
  stepped([](const World& world) {
    Stream stuck(world.device);
    std::optional<HeldStream> held;
    Tensor late;
    {
      const StreamScope scope(stuck);
      held.emplace(world.device);
      late = world.f32({5});
    }
    const Error error = testing::read_error(late);
    EXPECT_EQ(error.code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(error.op, "readback");
    ErrorCode lent = ErrorCode::internal;
    const Tensor result = lend(
        late,
        [&](const Result<LentRegion>& region) { lent = region.error().code; },
        Deadline::never());
    EXPECT_EQ(testing::read_error(result).code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(lent, ErrorCode::deadline_exceeded);
    held->unblock();
    EXPECT_EQ(late.item(), 5);
  });
}

TEST(Actor, AParkedLaneLeavesItsDeadlineToTheActorsThread) {
  stepped([](const World& world) {
    HeldStream held(world.device, Deadline::in(5s));
    pass(6s);
    EXPECT_EQ(testing::read_error(held.tensor()).code, ErrorCode::deadline_exceeded);
  });
}

TEST(Actor, ItsThreadSleepsWhileABorrowerIsAtWorkPastALanesDeadline) {
  stepped([](const World& world) {
    HeldStream held(world.device, Deadline::in(5s));
    pass(1s);  // the actors' short sleeps are over
    {
      const HeldToken borrowed(world.device);
      const std::uint64_t steps = world.executor.step_count();
      pass(1h);
      EXPECT_LT(world.executor.step_count(), steps + 10);
    }
    EXPECT_EQ(testing::read_error(held.tensor()).code, ErrorCode::deadline_exceeded);
  });
}

TEST(Actor, AReaderWithMorePatienceThanALaneHearsOfTheLanesDeadline) {
  stepped([](const World& world) {
    Stream stuck(world.device);
    std::optional<HeldStream> held;
    Tensor late;
    {
      const StreamScope scope(stuck);
      held.emplace(world.device);
      late = world.f32({5});
    }
    pass(1s);
    const Tensor sum = late + 1;
    const detail::TimePoint start = testing::now();
    const Status status = sum.read_bytes().wait({.deadline = Deadline::in(10 * kDefaultWait)});
    EXPECT_EQ(testing::code_of(status), ErrorCode::deadline_exceeded);
    EXPECT_EQ(testing::now() - start, kDefaultWait);
    held->unblock();
  });
}

// Fine print 12.
TEST(Actor, AContinuationNeverRunsOnTheTokenHolder) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    stepped({.seed = seed}, [](const World& world) {
      const Tensor x = world.f32({1});
      Pending<std::string> where =
          x.read_bytes().then(world.runtime.continuations(), [&](const std::vector<std::byte>&) {
            EXPECT_EQ(x.item(), 1) << "a continuation may wait for the device";
            return detail::current_context().name();
          });
      EXPECT_EQ(std::move(where).get(), "continuations");
    });
  }
}

TEST(HandleTable, ATensorIsUnbornAlsoWhenGenerationsWrap) {
  Slot slot;
  slot.generation = 0xffffffffU;
  const auto is_unborn_in = [&](std::uint32_t generation) {
    Operand operand;
    operand.generation = generation;
    return is_uncreated(slot, operand);
  };
  EXPECT_TRUE(is_unborn_in(0));
  EXPECT_FALSE(is_unborn_in(0xffffffffU));
  EXPECT_FALSE(is_unborn_in(0xfffffffeU));
}

}  // namespace
}  // namespace hearth
