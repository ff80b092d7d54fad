// The asynchronous sim's failures through the seam: error cells and guards, planned faults, hangs,
// and losses with work in flight.
#include <hearth/backends/sim/async_sim.hpp>

#include <array>
#include <chrono>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/base/manual_executor.hpp>

#include "async_world.hpp"

namespace hearth::sim {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallCall;

constexpr Four kTens{10, 20, 30, 40};

/// An AsyncWorld whose place 0 holds integer zeros and whose place 1 holds the words of kTens. An
/// integer division by place 0 fails.
class DividingWorld : public AsyncWorld {
 public:
  explicit DividingWorld(AsyncSimOptions options = in_round_figures())
      : AsyncWorld(std::move(options)) {
    static_cast<void>(put(0, kZeros));
    const TimelinePoint both = put(1, kTens);
    wait(both).value();
  }

  /// Runs an op that fails into the cell.
  TimelinePoint fail_into(ErrorCell cell, int to = 2) {
    return run(OpKind::div, {1, 0}, to, {.cell = cell, .dtype = DType::i32}).point;
  }
  /// Runs an op that succeeds.
  TimelinePoint succeed_into(ErrorCell cell, int to = 2) {
    return run(OpKind::div, {1, 1}, to, {.cell = cell, .dtype = DType::i32}).point;
  }

 private:
  static constexpr Four kZeros{};
};

// ---- error cells ----

TEST(AsyncSimCells, AKernelLeavesItsFailureInItsCell) {
  DividingWorld world;
  const TimelinePoint divided = world.fail_into(3);
  EXPECT_THAT(world.sim.cell_status(3).error().text,
              HasSubstr("error cell 3 was read before its kernel's end"));
  world.wait(divided).value();
  const Status left = world.sim.cell_status(3);
  ASSERT_FALSE(left.has_value());
  EXPECT_EQ(left.error().code, ErrorCode::kernel_failed);
  EXPECT_EQ(left.error().device, "sim:0");
  EXPECT_TRUE(world.sim.cell_status(4).has_value());
  EXPECT_THAT(world.bytes_at(2), ElementsAre(0, 0, 0, 0));
}

TEST(AsyncSimCells, ACellIsEmptyWhenItsNextKernelBegins) {
  DividingWorld world;
  world.wait(world.fail_into(3)).value();
  world.wait(world.succeed_into(3)).value();
  EXPECT_TRUE(world.sim.cell_status(3).has_value());
}

TEST(AsyncSimCells, WhatHasNoCellIsToldByTheNextWait) {
  DividingWorld world;
  const TimelinePoint divided = world.fail_into(0);
  const Status status = world.wait(divided);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::internal);
  EXPECT_THAT(status.error().text, HasSubstr("sim:0: submit 1 had no error cell, but failed: div"));
  ASSERT_TRUE(status.error().cause);
  EXPECT_EQ(status.error().cause->code, ErrorCode::kernel_failed);
  world.wait(divided).value();
}

TEST(AsyncSimCells, WhatHasNoCellIsToldByTheNextSubmit) {
  DividingWorld world;
  static_cast<void>(world.fail_into(0));
  world.sim.advance(100ns);
  EXPECT_THAT(world.refused(OpKind::neg, {1}, 3, {}), HasSubstr("had no error cell"));
  EXPECT_TRUE(world.run(OpKind::neg, {1}, 3).status.has_value());
}

TEST(AsyncSimCells, AGuardedKernelCountsOnlyIfNothingHasFailed) {
  DividingWorld world;
  static_cast<void>(world.fail_into(3));
  static_cast<void>(world.succeed_into(4, 5));
  const Issue kept = world.run(OpKind::neg, {1}, 6, {.guards = {4, 3}, .keeps = {0}});
  const Issue computed = world.run(OpKind::neg, {1}, 7, {.guards = {4}, .keeps = {0}});
  world.wait(computed.point).value();
  EXPECT_TRUE(kept.status.has_value());
  EXPECT_EQ(world.bytes_at(6), kTens);
  EXPECT_THAT(world.bytes_at(7), ElementsAre(-10, -20, -30, -40));
}

TEST(AsyncSimCells, InPlaceAGuardedKernelChangesNothing) {
  DividingWorld world;
  static_cast<void>(world.fail_into(3));
  const Issue kept = world.run(OpKind::neg, {1}, 1, {.guards = {3}, .keeps = {0}});
  world.wait(kept.point).value();
  EXPECT_EQ(world.bytes_at(1), kTens);
}

TEST(AsyncSimCells, WhatIsKeptIsReadThroughItsView) {
  DividingWorld world;
  static_cast<void>(world.fail_into(3));
  detail::Layout reversed(Shape{4});
  reversed.strides[0] = -1;
  reversed.contiguous = false;
  const TensorView view{world.at(1).data + 12, &reversed, DType::f32};
  const SmallCall call(OpKind::neg, {view}, {world.at(1)});
  const std::array<ErrorCell, 1> guards{3};
  const std::array<std::int8_t, 1> keeps{0};
  world.wait(world.run({.call = call.call(), .guards = guards, .keeps = keeps}).point).value();
  EXPECT_THAT(world.bytes_at(1), ElementsAre(40, 30, 20, 10));
}

TEST(AsyncSimCells, AllIsReadBeforeTheFirstOutputIsKept) {
  DividingWorld world;
  const TimelinePoint put = world.put(4, kOnes);
  static_cast<void>(world.fail_into(3));
  // Each of the two outputs overwrites the input that the other output keeps.
  const SmallCall call(
      OpKind::sgd_step, {world.at(1), world.at(4), world.at(4)}, {world.at(4), world.at(1)});
  const std::array<ErrorCell, 1> guards{3};
  const std::array<std::int8_t, 2> keeps{0, 1};
  world.wait(world.run({.call = call.call(), .guards = guards, .keeps = keeps}, {put}).point)
      .value();
  EXPECT_EQ(world.bytes_at(4), kTens);
  EXPECT_EQ(world.bytes_at(1), kOnes);
}

TEST(AsyncSimCells, AGuardWaitsForTheKernelOfItsCell) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    AsyncSimOptions options = in_round_figures({.schedule = {.queues = 3, .reorder_seed = seed}});
    options.cost = [](const KernelCall& call) {
      return call.op.kind() == OpKind::div ? 1000ns : 100ns;
    };
    DividingWorld world(std::move(options));
    static_cast<void>(world.fail_into(3));  // slow, and no other command uses its bytes
    const Issue kept = world.run(OpKind::neg, {1}, 6, {.guards = {3}, .keeps = {0}});
    const TimelinePoint again = world.succeed_into(3, 5);  // the cell is reused
    world.wait(again).value();
    EXPECT_EQ(world.bytes_at(6), kTens) << "seed " << seed;
    EXPECT_TRUE(kept.status.has_value());
    EXPECT_TRUE(world.sim.cell_status(3).has_value());
  }
}

TEST(AsyncSimCells, AKernelThatIsGuardedLeavesNoFailureOfItsOwn) {
  DividingWorld world;
  static_cast<void>(world.fail_into(3));
  const Issue kept = world.run(
      OpKind::div, {1, 0}, 6, {.cell = 4, .guards = {3}, .keeps = {0}, .dtype = DType::i32});
  world.wait(kept.point).value();
  EXPECT_TRUE(world.sim.cell_status(4).has_value());
}

TEST(AsyncSimCells, AGuardWithoutAnInputToKeepIsRefused) {
  DividingWorld world;
  for (const std::vector<std::int8_t>& keeps :
       {std::vector<std::int8_t>{}, std::vector<std::int8_t>{-1}, std::vector<std::int8_t>{1}}) {
    const Issue refused = world.run(OpKind::neg, {1}, 6, {.guards = {3}, .keeps = keeps});
    ASSERT_FALSE(refused.status.has_value());
    EXPECT_EQ(refused.status.error().code, ErrorCode::internal);
  }
}

// ---- planned failures ----

TEST(AsyncSimFaults, APlannedSubmitIsRefusedAndCounted) {
  AsyncWorld world(in_round_figures({.faults = {.failing_submits = {1}}}));
  const TimelinePoint put = world.put(0, kOnes);
  EXPECT_EQ(world.refused(OpKind::neg, {0}, 1, {put}), "sim:0: submit 1 fails by the fault plan");
  EXPECT_EQ(world.sim.submitted(), 1U);
  world.wait(world.negate(0, 1, {put})).value();
}

TEST(AsyncSimFaults, ALateFailureComesAtTheEnd) {
  AsyncWorld world(in_round_figures({.faults = {.late_failures = {1, 2}}}));
  const TimelinePoint put = world.put(0, kOnes);
  const Issue late = world.run(OpKind::neg, {0}, 1, {.cell = 1}, {put});
  ASSERT_TRUE(late.status.has_value());
  world.wait(late.point).value();
  EXPECT_EQ(world.sim.cell_status(1).error().text, "sim:0: submit 1 fails by the fault plan");
  EXPECT_THAT(world.bytes_at(1), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(world.refused(OpKind::neg, {0}, 1, {put}), "sim:0: submit 2 fails by the fault plan")
      << "without a cell it cannot come late";
}

TEST(AsyncSimFaults, ACompileFailsAloneAndIsTriedAgain) {
  AsyncWorld world(in_round_figures({.faults = {.failing_compiles = {1}}}));
  const TimelinePoint put = world.put(0, kOnes);
  EXPECT_EQ(world.refused(OpKind::neg, {0}, 1, {put}),
            "sim:0: compile 1 (neg f32[ 4 ] f32[ 4 ]) fails by the fault plan");
  EXPECT_EQ(world.sim.submitted(), 0U) << "it never became a submit";
  static_cast<void>(world.negate(0, 1, {put}));
}

TEST(AsyncSimFaults, ACorruptedDownloadIsWrongOnce) {
  AsyncWorld world(in_round_figures({.faults = {.corrupted_downloads = {1}}}));
  const TimelinePoint put = world.put(0, kOnes);
  Four first{};
  Four second{};
  static_cast<void>(world.get(0, first, {put}));
  world.wait(world.get(0, second, {put})).value();
  EXPECT_NE(first, kOnes);
  EXPECT_EQ(second, kOnes);
}

// ---- losses ----

TEST(AsyncSimLoss, WhatIsInFlightNeverEnds) {
  AsyncWorld world(in_round_figures({.faults = {.lost_at_submit = 2}}));
  const TimelinePoint put = world.put(0, kOnes);
  world.wait(put).value();
  const TimelinePoint negated = world.negate(0, 1, {put});
  const Issue lost = world.run(OpKind::neg, {0}, 2, {put});
  EXPECT_EQ(lost.status.error().code, ErrorCode::device_lost);
  EXPECT_EQ(lost.status.error().text, "sim:0: lost at submit 2 by the fault plan");
  EXPECT_TRUE(world.sim.is_lost());
  EXPECT_EQ(world.wait(negated).error().code, ErrorCode::device_lost);
  EXPECT_TRUE(world.wait(put).has_value()) << "it had ended";
  world.sim.advance(1s);
  EXPECT_EQ(world.sim.completed(kOpStream), 0U);
  EXPECT_THAT(world.bytes_at(1), ElementsAre(0, 0, 0, 0));
  Four got{};
  EXPECT_EQ(world.sim.upload(world.at(0).data, std::as_bytes(std::span(kOnes)), {}).error().code,
            ErrorCode::device_lost);
  EXPECT_EQ(
      world.sim.download(std::as_writable_bytes(std::span(got)), world.at(0).data, {}).error().code,
      ErrorCode::device_lost);
  EXPECT_EQ(world.sim.cell_status(1).error().code, ErrorCode::device_lost);
  world.free_page();
  EXPECT_TRUE(world.sim.shadow_reports().empty()) << "nothing is at the page any more";
}

TEST(AsyncSimLoss, ItComesWhenTheClockGetsThere) {
  AsyncWorld world(in_round_figures({.faults = {.lost_at = 216ns}}));
  const TimelinePoint put = world.put(0, kOnes);
  const TimelinePoint first = world.negate(0, 1, {put});
  const TimelinePoint second = world.negate(1, 2, {put});
  world.wait(first).value();
  EXPECT_EQ(world.wait(second).error().text, "sim:0: lost at 216 ns by the fault plan");
  EXPECT_EQ(world.sim.completed(kOpStream), first.value);
  EXPECT_EQ(world.wait(second).error().code, ErrorCode::device_lost);

  AsyncWorld passing(in_round_figures({.faults = {.lost_at = 216ns}}));
  passing.sim.advance(215ns);
  EXPECT_FALSE(passing.sim.is_lost());
  passing.sim.advance(1ns);
  EXPECT_TRUE(passing.sim.is_lost());
}

TEST(AsyncSimLoss, ItEndsAHang) {
  AsyncWorld world(in_round_figures({.faults = {.lost_at = 1ms, .hanging_submit = 1}}));
  const TimelinePoint hung = world.negate(0, 1, {world.put(0, kOnes)});
  EXPECT_EQ(world.wait(hung).error().code, ErrorCode::device_lost);
}

// ---- hangs ----

TEST(AsyncSimHang, AWaitForItEndsWithItsDeadline) {
  ManualExecutor executor;
  executor.run([] {
    AsyncWorld world(in_round_figures({.faults = {.hanging_submit = 1}}));
    const TimelinePoint hung = world.negate(0, 1, {world.put(0, kOnes)});
    const Deadline deadline = Deadline::in(5ms);
    const Status status = world.wait(hung, deadline);
    EXPECT_TRUE(deadline.has_passed());
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(status.error().device, "sim:0");
  });
}

TEST(AsyncSimHang, ItStopsWhatComesAfterItOnItsStreamAndNothingElse) {
  AsyncWorld world(in_round_figures({.faults = {.hanging_submit = 1}, .schedule = {.queues = 2}}));
  Four got{};
  const TimelinePoint put = world.put(0, kOnes);
  static_cast<void>(world.negate(0, 1, {put}));
  const TimelinePoint later = world.negate(0, 2, {put});
  world.wait(world.get(0, got, {put})).value();
  EXPECT_EQ(got, kOnes);
  world.sim.advance(1h);
  EXPECT_THAT(world.bytes_at(2), ElementsAre(-1, -2, -3, -4)) << "on the other queue";
  EXPECT_EQ(world.sim.completed(kOpStream), 0U);
  EXPECT_EQ(world.wait(later, Deadline::in(0ns)).error().code, ErrorCode::deadline_exceeded);
}

TEST(AsyncSimHang, ALossWakesThoseWhoWait) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ManualExecutor executor(seed, {.preempts_at_locks = true});
    executor.run([&executor, seed] {
      AsyncWorld world(in_round_figures({.faults = {.lost_at_submit = 2, .hanging_submit = 1}}));
      const TimelinePoint hung = world.negate(0, 1, {world.put(0, kOnes)});
      std::array<Status, 2> waits;
      std::vector<std::unique_ptr<detail::Joinable>> waiters;
      for (Status& status : waits) {
        waiters.push_back(executor.spawn({}, [&] { status = world.wait(hung); }));
      }
      if (seed % 2 == 0) {
        detail::current_context().parker().park(Deadline::in(1ms));  // they sleep by now
      }
      EXPECT_FALSE(world.run(OpKind::neg, {0}, 2).status.has_value());
      for (const auto& waiter : waiters) {
        waiter->join();
      }
      for (const Status& status : waits) {
        ASSERT_FALSE(status.has_value()) << "seed " << seed;
        EXPECT_EQ(status.error().code, ErrorCode::device_lost);
      }
    });
  }
}

// ---- threads ----

TEST(AsyncSimThreads, OthersWaitWhileTheOwnerSubmits) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    ManualExecutor executor(seed, {.preempts_at_locks = true});
    executor.run([&executor, seed] {
      AsyncWorld world(in_round_figures({.schedule = {.queues = 2, .reorder_seed = seed}}));
      const TimelinePoint put = world.put(0, kOnes);
      std::vector<std::unique_ptr<detail::Joinable>> waiters;
      std::array<Four, 3> got{};
      for (std::size_t reader = 0; reader < got.size(); ++reader) {
        const int place = 1 + static_cast<int>(reader);
        const TimelinePoint read =
            world.get(place, got[reader], {world.negate(place - 1, place, {put})});
        waiters.push_back(executor.spawn({}, [&world, read] { world.wait(read).value(); }));
      }
      for (const auto& waiter : waiters) {
        waiter->join();
      }
      EXPECT_THAT(got[0], ElementsAre(-1, -2, -3, -4)) << "seed " << seed;
      EXPECT_THAT(got[1], ElementsAre(1, 2, 3, 4));
      EXPECT_THAT(got[2], ElementsAre(-1, -2, -3, -4));
      EXPECT_TRUE(world.sim.shadow_reports().empty());
    });
  }
}

}  // namespace
}  // namespace hearth::sim
