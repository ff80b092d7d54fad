// The asynchronous sim through the seam: its points, its order, its clock, and the missing
// dependences that shadow memory detects.
#include <hearth/backends/sim/async_sim.hpp>

#include <array>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/backends/sim/sim_backend.hpp>

#include "async_world.hpp"
#include "tests/support/run_call.hpp"

namespace hearth::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallCall;

constexpr Four kTens{10, 20, 30, 40};

/// abs takes 1000 ns, every other op 100 ns.
SimCost slow_abs() {
  return [](const KernelCall& call) {
    return nanoseconds(call.op.kind() == OpKind::abs ? 1000 : 100);
  };
}

TEST(AsyncSim, AnOpHasItsEffectAtItsEndAndTimePassesWhileSomebodyWaits) {
  AsyncWorld world;
  EXPECT_FALSE(world.sim.info().runs_inline);
  EXPECT_TRUE(world.sim.info().has_host_memory);
  const TimelinePoint put = world.put(0, kOnes);
  const TimelinePoint negated = world.negate(0, 1, {put});
  EXPECT_FALSE(negated.is_done());
  EXPECT_EQ(world.sim.completed(kOpStream), 0U);
  EXPECT_EQ(world.sim.now(), nanoseconds(0));
  EXPECT_THAT(world.bytes_at(1), ElementsAre(0, 0, 0, 0));
  world.wait(negated).value();
  EXPECT_EQ(world.sim.now(), nanoseconds(116)) << "16 bytes in, then the op";
  EXPECT_EQ(world.sim.completed(kOpStream), negated.value);
  EXPECT_EQ(world.sim.completed(kUploadStream), put.value);
  EXPECT_THAT(world.bytes_at(1), ElementsAre(-1, -2, -3, -4));
}

TEST(AsyncSim, AReadbackGoesBehindTheOpsThatItNames) {
  AsyncWorld world;
  Four got{};
  const TimelinePoint put = world.put(0, kOnes);
  const TimelinePoint end = world.get(1, got, {world.negate(0, 1, {put})});
  EXPECT_EQ(end.stream, kDownloadStream);
  world.wait(end).value();
  EXPECT_THAT(got, ElementsAre(-1, -2, -3, -4));
  EXPECT_EQ(world.sim.now(), nanoseconds(132));
}

TEST(AsyncSim, AWaitEndsWithTheFirstOfItsPoints) {
  AsyncWorld world;
  const TimelinePoint put = world.put(0, kOnes);
  const TimelinePoint negated = world.negate(0, 1, {put});
  const std::array either{negated, put};
  world.sim.wait(either, Deadline::never()).value();
  EXPECT_EQ(world.sim.now(), nanoseconds(16));
  EXPECT_EQ(world.sim.completed(kOpStream), 0U);
  world.sim.wait(either, Deadline::never()).value();
  EXPECT_EQ(world.sim.now(), nanoseconds(16)) << "it has ended";
  world.sim.wait({}, Deadline::never()).value();
  EXPECT_EQ(world.sim.now(), nanoseconds(16)) << "nothing to wait for";
  world.wait(TimelinePoint{}).value();
  EXPECT_EQ(world.sim.now(), nanoseconds(16));
}

TEST(AsyncSim, APointThatNobodyHasSubmittedIsABug) {
  AsyncWorld world;
  const Status status = world.wait({.value = 1, .stream = kOpStream});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().text, "sim:0: point 1 of stream 0 was never submitted");
  EXPECT_FALSE(world.wait({.value = 1, .stream = 7}).has_value());
}

TEST(AsyncSim, PointsOfAStreamEndInTheirOrder) {
  AsyncSimOptions options = in_round_figures({.schedule = {.queues = 2}});
  options.cost = slow_abs();
  AsyncWorld world(std::move(options));
  const TimelinePoint put = world.put(0, kOnes);
  const TimelinePoint slow = world.run(OpKind::abs, {0}, 1, {put}).point;
  const TimelinePoint quick = world.negate(0, 2, {put});
  world.sim.advance(nanoseconds(116));
  EXPECT_THAT(world.bytes_at(2), ElementsAre(-1, -2, -3, -4)) << "it has ended on its queue";
  EXPECT_EQ(world.sim.completed(kOpStream), 0U);
  world.wait(quick).value();
  EXPECT_EQ(world.sim.now(), nanoseconds(1016));
  EXPECT_EQ(world.sim.completed(kOpStream), quick.value);
  EXPECT_EQ(quick.value, slow.value + 1);
}

TEST(AsyncSim, ABatchEndsWithItsLastLaunch) {
  AsyncSimOptions options = in_round_figures();
  options.cost = slow_abs();
  AsyncWorld world(std::move(options));
  const TimelinePoint put = world.put(0, kOnes);
  const SmallCall first(OpKind::neg, {world.at(0)}, {world.at(1)});
  const SmallCall second(OpKind::abs, {world.at(0)}, {world.at(2)});
  const std::array launches{Launch{.call = first.call()}, Launch{.call = second.call()}};
  const Issue issue = world.sim.submit(launches, {&put, 1});
  EXPECT_EQ(issue.issued, 2U);
  world.wait(issue.point).value();
  EXPECT_THAT(world.bytes_at(1), ElementsAre(-1, -2, -3, -4));
  EXPECT_THAT(world.bytes_at(2), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(world.sim.now(), nanoseconds(1016));
}

TEST(AsyncSim, ALaunchThatIsTimedTakesItsCost) {
  AsyncSimOptions options = in_round_figures();
  options.cost = slow_abs();
  AsyncWorld world(std::move(options));
  const TimelinePoint put = world.put(0, kOnes);
  const SmallCall first(OpKind::neg, {world.at(0)}, {world.at(1)});
  const SmallCall second(OpKind::abs, {world.at(1)}, {world.at(2)});
  const SmallCall third(OpKind::neg, {world.at(0)}, {world.at(3)});
  const std::array launches{Launch{.call = first.call(), .timed_as = 7},
                            Launch{.call = second.call(), .timed_as = 8},
                            Launch{.call = third.call()}};
  const Issue issue = world.sim.submit(launches, {&put, 1});
  EXPECT_TRUE(world.sim.take_launch_times().empty()) << "nothing has ended";
  world.wait(issue.point).value();
  const std::vector<LaunchTime> times = world.sim.take_launch_times();
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].number, 7U);
  EXPECT_EQ(times[0].end - times[0].begin, nanoseconds(100));
  EXPECT_EQ(times[1].number, 8U);
  EXPECT_EQ(times[1].end - times[1].begin, nanoseconds(1000));
  EXPECT_EQ(times[1].begin, times[0].end);
  EXPECT_TRUE(world.sim.take_launch_times().empty());
}

TEST(AsyncSim, ABatchEndsBeforeTheLaunchThatIsRefused) {
  AsyncWorld world(in_round_figures({.faults = {.failing_submits = {2}}}));
  const TimelinePoint put = world.put(0, kOnes);
  const SmallCall first(OpKind::neg, {world.at(0)}, {world.at(1)});
  const SmallCall second(OpKind::neg, {world.at(0)}, {world.at(2)});
  const SmallCall third(OpKind::neg, {world.at(0)}, {world.at(3)});
  const std::array launches{
      Launch{.call = first.call()}, Launch{.call = second.call()}, Launch{.call = third.call()}};
  const Issue issue = world.sim.submit(launches, {&put, 1});
  EXPECT_EQ(issue.issued, 1U);
  EXPECT_EQ(issue.status.error().text, "sim:0: submit 2 fails by the fault plan");
  EXPECT_EQ(world.sim.submitted(), 2U) << "nobody has looked at the third";
  world.wait(issue.point).value();
  EXPECT_THAT(world.bytes_at(1), ElementsAre(-1, -2, -3, -4));
}

TEST(AsyncSim, WithoutComputingItKeepsTimeAlone) {
  AsyncWorld world(in_round_figures({.computes = false}));
  EXPECT_FALSE(world.sim.info().computes);
  world.wait(world.negate(0, 1, {world.put(0, kOnes)})).value();
  EXPECT_THAT(world.bytes_at(1), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(world.sim.now(), nanoseconds(116));
}

TEST(AsyncSim, CostsAreDrawnBySeed) {
  const auto time_of = [](std::uint64_t seed) {
    AsyncWorld world(in_round_figures({.schedule = {.cost_seed = seed}}));
    TimelinePoint last = world.put(0, kOnes);
    for (int op = 0; op < 20; ++op) {
      last = world.negate(op % 2, 1 - op % 2, {last});
    }
    world.wait(last).value();
    return world.sim.now();
  };
  EXPECT_EQ(time_of(0), nanoseconds(2016));
  EXPECT_EQ(time_of(1), time_of(1));
  EXPECT_NE(time_of(1), time_of(2));
  EXPECT_LE(time_of(1), nanoseconds(2 * 2016));
}

TEST(AsyncSim, BySeedAWaitNoticesLate) {
  int late = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    AsyncWorld world(in_round_figures({.schedule = {.queues = 1, .cost_seed = seed}}));
    const TimelinePoint put = world.put(0, kOnes);
    const TimelinePoint first = world.negate(0, 1, {put});
    const TimelinePoint second = world.negate(1, 2, {});
    world.wait(first).value();
    const std::uint64_t ended = world.sim.completed(kOpStream);
    EXPECT_TRUE(ended == first.value || (seed != 0 && ended == second.value)) << "seed " << seed;
    late += ended == second.value ? 1 : 0;
  }
  EXPECT_GT(late, 0);
  EXPECT_LT(late, 20);
}

TEST(AsyncSim, ItForgetsWhatTheHostKnowsToHaveEnded) {
  for (const bool checks : {true, false}) {
    AsyncWorld world(in_round_figures({.schedule = {.checks_memory = checks}}));
    Four got{};
    TimelinePoint last = world.put(0, kOnes);
    for (int round = 0; round < 200; ++round) {  // some are always in flight
      const TimelinePoint next = world.negate(0, 1, {last});
      const TimelinePoint read = world.get(1, got, {next});
      world.wait(next).value();
      last = world.put(0, kOnes, {next});
      EXPECT_LE(world.sim.remembered(), 4U) << "round " << round;
      world.wait(read).value();
    }
    EXPECT_TRUE(world.sim.shadow_reports().empty());
  }
}

// ---- missing dependences ----

TEST(AsyncSimOrder, AnOpBeforeTheEndOfItsUploadIsFound) {
  AsyncWorld world;
  static_cast<void>(world.put(0, kOnes));
  EXPECT_THAT(world.refused(OpKind::neg, {0}, 1, {}),
              HasSubstr("sim:0: shadow memory: read_before_produce"));
}

TEST(AsyncSimOrder, AnUploadOverBytesThatAnOpReadsIsFound) {
  AsyncWorld world;
  static_cast<void>(world.negate(0, 1, {world.put(0, kOnes)}));
  const auto refused = world.sim.upload(world.at(0).data, std::as_bytes(std::span(kTens)), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().text, HasSubstr("reuse_before_timeline"));
}

TEST(AsyncSimOrder, AReadbackBeforeTheEndOfItsOpIsFound) {
  AsyncWorld world;
  static_cast<void>(world.negate(0, 1, {world.put(0, kOnes)}));
  Four got{};
  const auto refused =
      world.sim.download(std::as_writable_bytes(std::span(got)), world.at(1).data, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().text, HasSubstr("read_before_produce"));
}

TEST(AsyncSimOrder, AnOpOverBytesThatAReadbackReadsIsFound) {
  AsyncWorld world;
  Four got{};
  const TimelinePoint negated = world.negate(0, 1, {world.put(0, kOnes)});
  const TimelinePoint read = world.get(1, got, {negated});
  EXPECT_THAT(world.refused(OpKind::abs, {0}, 1, {}), HasSubstr("reuse_before_timeline"));
  static_cast<void>(world.negate(0, 1, {read}));
}

TEST(AsyncSimOrder, WhatHasEndedCountsOnceTheHostKnowsIt) {
  AsyncWorld world;
  static_cast<void>(world.put(0, kOnes));
  world.sim.advance(nanoseconds(1000));
  EXPECT_THAT(world.refused(OpKind::neg, {0}, 1, {}), HasSubstr("read_before_produce"))
      << "it has ended by luck";
  AsyncWorld told;
  const TimelinePoint put = told.put(0, kOnes);
  told.sim.advance(nanoseconds(1000));
  EXPECT_EQ(told.sim.completed(kUploadStream), put.value);
  EXPECT_TRUE(told.run(OpKind::neg, {0}, 1).status.has_value());
}

TEST(AsyncSimOrder, TheEndOfWorkTellsTheEndOfAllThatLedThere) {
  AsyncWorld world;
  Four got{};
  const TimelinePoint negated = world.negate(0, 1, {world.put(0, kOnes)});
  world.wait(world.get(1, got, {negated})).value();
  EXPECT_TRUE(world.sim.upload(world.at(0).data, std::as_bytes(std::span(kTens)), {}).has_value());
}

TEST(AsyncSimOrder, OrderGoesThroughOtherStreams) {
  AsyncWorld world;
  Four got{};
  const TimelinePoint negated = world.negate(0, 1, {world.put(0, kOnes)});
  const TimelinePoint read = world.get(1, got, {negated});
  // After the readback, so after the op, so after the first upload.
  const TimelinePoint put = world.put(0, kTens, {read});
  world.wait(put).value();
  EXPECT_EQ(world.bytes_at(0), kTens);
  EXPECT_THAT(got, ElementsAre(-1, -2, -3, -4));
}

TEST(AsyncSimOrder, AForgottenBarrierIsFound) {
  AsyncWorld world(in_round_figures({.faults = {.forgotten_barriers = {2}}}));
  const TimelinePoint put = world.put(0, kOnes);
  static_cast<void>(world.negate(0, 1, {put}));
  EXPECT_THAT(world.refused(OpKind::neg, {0}, 2, {put}), HasSubstr("read_before_produce"));
}

TEST(AsyncSimOrder, WhatIsRefusedHasNoEffect) {
  AsyncWorld world;
  const TimelinePoint put = world.put(0, kOnes);
  EXPECT_THAT(world.refused(OpKind::neg, {0}, 1, {}), HasSubstr("read_before_produce"));
  Four got{};
  EXPECT_FALSE(
      world.sim.download(std::as_writable_bytes(std::span(got)), world.at(0).data, {}).has_value());
  got = kTens;
  world.wait(put).value();
  world.sim.advance(nanoseconds(1000));
  EXPECT_THAT(world.bytes_at(1), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(got, kTens) << "the host has its bytes back";
}

TEST(AsyncSimOrder, ReportsAreKept) {
  AsyncWorld world;
  static_cast<void>(world.put(0, kOnes));
  static_cast<void>(world.run(OpKind::neg, {0}, 1));
  ASSERT_EQ(world.sim.shadow_reports().size(), 1U);
  EXPECT_EQ(world.sim.shadow_reports().front().fault, ShadowFault::read_before_produce);
}

// Chains of ops on four queues, out of order, with readbacks in between: the bytes equal those of
// the inline sim, and no access is a fault.
TEST(AsyncSimOrder, AnyOrderOfUnorderedWorkGivesTheSameBytes) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    AsyncWorld world(
        in_round_figures({.schedule = {.queues = 4, .reorder_seed = seed, .cost_seed = seed}}));
    SimBackend plain({.cost = {}});
    std::vector<testing::SmallTensor> tensors;
    std::uint64_t state = seed;
    const auto pick = [&state] {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<int>((state >> 33U) % 8U);
    };
    std::array<Four, 8> first{};
    TimelinePoint put;
    for (std::size_t place = 0; place < 8; ++place) {
      const auto base = static_cast<float>(place);
      first[place] = {base, base + 1, base + 2, base + 3};
      put = world.put(static_cast<int>(place), first[place]);
      tensors.emplace_back(DType::f32, Shape{4}, std::vector<double>(4, 0.0));
      std::ranges::copy(first[place], tensors.back().view().as<float>());
    }
    for (int op = 0; op < 40; ++op) {
      const int a = pick();
      const int b = pick();
      const int to = pick();
      const Issue issue = world.run(OpKind::sub, {a, b}, to, {put});
      ASSERT_TRUE(issue.status.has_value()) << issue.status.error().text << ", seed " << seed;
      const auto tensor = [&](int place) {
        return tensors[static_cast<std::size_t>(place)].view();
      };
      testing::run_call(plain, SmallCall(OpKind::sub, {tensor(a), tensor(b)}, {tensor(to)}).call())
          .value();
      if (op % 10 == 3) {
        Four got{};
        world.wait(world.get(to, got, {issue.point})).value();
        EXPECT_TRUE(std::ranges::equal(got, std::span(tensor(to).as<float>(), 4))) << seed;
      }
    }
    EXPECT_TRUE(world.sim.shadow_reports().empty());
  }
}

// ---- host memory ----

TEST(AsyncSimHost, AReadbackIsGarbageUpToItsPoint) {
  AsyncWorld world;
  Four got = kTens;
  const TimelinePoint read = world.get(0, got, {world.put(0, kOnes)});
  EXPECT_NE(got, kTens);
  EXPECT_NE(got, kOnes);
  world.wait(read).value();
  EXPECT_EQ(got, kOnes);
}

TEST(AsyncSimHost, BytesOfAnUploadThatChangeTooEarlyAreFound) {
  AsyncWorld world;
  Four values = kOnes;
  const TimelinePoint put = world.put(0, values);
  values[2] = 7;
  const Status status = world.wait(put);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::internal);
  EXPECT_THAT(status.error().text,
              HasSubstr("host_bytes_changed: an upload's 16 host bytes changed before its end"));
  EXPECT_EQ(world.bytes_at(0), values) << "the device takes them at the end";
}

TEST(AsyncSimHost, BytesOfAReadbackThatChangeTooEarlyAreFound) {
  AsyncWorld world;
  Four got{};
  const TimelinePoint read = world.get(0, got, {world.put(0, kOnes)});
  got[3] = 7;
  EXPECT_THAT(world.wait(read).error().text, HasSubstr("a download's 16 host bytes changed"));
}

TEST(AsyncSimHost, AHostThatLooksTooEarlyIsFound) {
  AsyncWorld world;
  const TimelinePoint negated = world.negate(0, 1, {world.put(0, kOnes)});
  const ByteRange bytes{world.at(1).data, 16};
  EXPECT_THAT(world.sim.check_host_access(bytes, false).error().text,
              HasSubstr("read_before_produce"));
  EXPECT_FALSE(world.sim.check_host_access(bytes, true).has_value());
  world.wait(negated).value();
  EXPECT_TRUE(world.sim.check_host_access(bytes, false).has_value());
  EXPECT_TRUE(world.sim.check_host_access(bytes, true).has_value());
}

TEST(AsyncSimHost, APageThatIsFreedUnderWorkIsFoundAndNotTouched) {
  AsyncWorld world;
  const TimelinePoint negated = world.negate(0, 1, {world.put(0, kOnes)});
  world.free_page();
  const Status status = world.wait(negated);  // would write into freed memory
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().text, HasSubstr("a page of 4096 bytes was freed while command"));
  world.wait(negated).value();
}

TEST(AsyncSimHost, APlannedAllocationFails) {
  AsyncWorld world(in_round_figures({.faults = {.failing_allocation = 2}}));
  EXPECT_EQ(world.sim.pages().allocate_page(100).error().code, ErrorCode::out_of_memory);
}

}  // namespace
}  // namespace hearth::sim
