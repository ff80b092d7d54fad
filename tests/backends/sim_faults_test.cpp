// The sim device's queues, its faults, and what shadow memory says, as seen through the seam.
#include <hearth/backends/sim/sim_backend.hpp>

#include <array>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_call.hpp"
#include "tests/support/run_call.hpp"

namespace hearth::sim {
namespace {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallCall;

/// A sim device, and tensors of four f32 in a page of its own.
class World {
 public:
  explicit World(SimOptions options)
      : sim(std::move(options)), page_(sim.pages().allocate_page(4096).value()) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    if (page_.data != nullptr) {
      free_page();
    }
  }

  [[nodiscard]] TensorView at(int place) const {
    return {page_.data + place * 64, &layout_, DType::f32};
  }
  Status put(int place, const std::array<float, 4>& values) {
    return sim.upload(at(place).data, std::as_bytes(std::span(values)), {}).status();
  }
  Status negate(int from, int to) {
    return testing::run_call(sim, SmallCall(OpKind::neg, {at(from)}, {at(to)}).call());
  }
  Result<std::array<float, 4>> get(int place) {
    std::array<float, 4> values{};
    const auto status = sim.download(std::as_writable_bytes(std::span(values)), at(place).data, {});
    if (!status.has_value()) {
      return status.error();
    }
    return values;
  }
  void free_page() { sim.pages().free_page(std::exchange(page_, Page{})); }
  [[nodiscard]] ShadowFault only_fault() const {
    EXPECT_EQ(sim.shadow_reports().size(), 1U);
    return sim.shadow_reports().empty() ? ShadowFault{} : sim.shadow_reports().front().fault;
  }

  SimBackend sim;

 private:
  Page page_;
  Layout layout_{Shape{4}};
};

SimOptions later(SimOptions options) {
  options.clock = ClockMode::manual;
  options.cost = fixed_cost(nanoseconds(100));
  options.effects = Effects::at_end;
  return options;
}

constexpr std::array<float, 4> kFour{1, 2, 3, 4};

TEST(SimFaults, ACompileFailsAloneAndIsTriedAgain) {
  World world({.faults = {.failing_compiles = {2}}});
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  world.negate(0, 1).value();  // compiled already
  const auto absolute = [&] {
    return testing::run_call(world.sim,
                             SmallCall(OpKind::abs, {world.at(0)}, {world.at(1)}).call());
  };
  const Status failed = absolute();
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kernel_failed);
  EXPECT_EQ(failed.error().text, "sim:0: compile 2 (abs f32[ 4 ] f32[ 4 ]) fails as planned");
  EXPECT_EQ(world.sim.submitted(), 2U) << "it never became a submit";
  EXPECT_TRUE(absolute().has_value());
}

TEST(SimFaults, TheDeviceIsLostWhenTheClockGetsThere) {
  for (const int queues : {1, 2}) {
    World world({.cost = fixed_cost(nanoseconds(100)),
                 .faults = {.lost_at = nanoseconds(250)},
                 .queues = queues});
    world.put(0, kFour).value();
    world.negate(0, 1).value();
    world.negate(1, 2).value();
    EXPECT_EQ(world.negate(2, 3).error().code, ErrorCode::device_lost);
    EXPECT_EQ(world.sim.ended_ops(), 2U);
    EXPECT_EQ(world.get(1).error().code, ErrorCode::device_lost);
    EXPECT_THAT(world.get(1).error().text, HasSubstr("lost at 250 ns as planned"));
  }
}

TEST(SimFaults, WorkUnderWayWhenTheDeviceIsLostNeverEnds) {
  World world(later({.faults = {.lost_at = nanoseconds(150)}}));
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  world.negate(1, 2).value();
  world.sim.advance(nanoseconds(149));
  EXPECT_FALSE(world.sim.is_lost());
  world.sim.advance(nanoseconds(1000));
  EXPECT_TRUE(world.sim.is_lost());
  EXPECT_EQ(world.sim.ended_ops(), 1U);
}

TEST(SimFaults, AHungSubmitStopsItsReadersAndNobodyElse) {
  for (const Effects effects : {Effects::at_submit, Effects::at_end}) {
    for (const ClockMode clock : {ClockMode::follows_work, ClockMode::manual}) {
      World world(
          {.clock = clock, .faults = {.hanging_submit = 2}, .queues = 2, .effects = effects});
      world.put(0, kFour).value();
      world.negate(0, 1).value();
      world.negate(1, 2).value();  // hangs
      world.negate(2, 3).value();  // waits for it
      world.negate(0, 4).value();
      EXPECT_THAT(world.get(1).value(), ElementsAre(-1, -2, -3, -4));
      const Status hung = world.get(3).has_value() ? Status() : world.get(3).shared_error();
      ASSERT_FALSE(hung.has_value());
      EXPECT_EQ(hung.error().code, ErrorCode::deadline_exceeded);
      EXPECT_EQ(hung.error().text, "sim:0: submit 2 hangs as planned");
      world.sim.advance(std::chrono::hours(1));
      EXPECT_EQ(world.sim.ended_ops(), 1U) << "the timeline cannot go past it";
    }
  }
}

TEST(SimFaults, OneQueueHangsWhole) {
  World world({.faults = {.hanging_submit = 1}});
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  world.negate(0, 2).value();
  EXPECT_EQ(world.get(2).error().code, ErrorCode::deadline_exceeded);
  EXPECT_THAT(world.get(0).value(), ElementsAre(1, 2, 3, 4)) << "no op writes there";
}

TEST(SimFaults, AQueueInAnyOrderThatHangsIsNotLost) {
  World world({.faults = {.hanging_submit = 1}, .reorder_seed = 1});
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  world.negate(0, 2).value();  // ordered behind nothing, in a queue that stays busy
  EXPECT_EQ(world.get(2).error().code, ErrorCode::deadline_exceeded);
  EXPECT_FALSE(world.sim.is_lost());
}

TEST(SimFaults, FinishWaitsForAllThatWasSubmittedAndSaysWhatNeverEnds) {
  World world(later({.queues = 2}));
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  world.negate(0, 2).value();
  world.negate(2, 3).value();
  ASSERT_LT(world.sim.ended_ops(), 3U);
  world.sim.wait({}, Deadline::never()).value();
  EXPECT_EQ(world.sim.ended_ops(), 3U);

  World stuck(later({.faults = {.hanging_submit = 2}, .queues = 2}));
  stuck.put(0, kFour).value();
  stuck.negate(0, 1).value();
  stuck.negate(0, 2).value();  // hangs
  EXPECT_EQ(stuck.sim.wait({}, Deadline::never()).error().code, ErrorCode::deadline_exceeded);

  World lost(later({.faults = {.lost_at = nanoseconds(50)}}));
  lost.put(0, kFour).value();
  lost.negate(0, 1).value();
  EXPECT_EQ(lost.sim.wait({}, Deadline::never()).error().code, ErrorCode::device_lost);
}

TEST(SimFaults, ACorruptedDownloadIsWrongOnce) {
  World world({.faults = {.corrupted_downloads = {2}}});
  world.put(0, kFour).value();
  EXPECT_EQ(world.get(0).value(), kFour);
  EXPECT_NE(world.get(0).value(), kFour);
  EXPECT_EQ(world.get(0).value(), kFour);
}

TEST(SimQueues, IndependentOpsRunSideBySide) {
  World world(later({.queues = 2}));
  world.put(0, kFour).value();
  world.sim.advance(nanoseconds(0));
  world.negate(0, 1).value();
  world.negate(0, 2).value();
  EXPECT_EQ(world.sim.busy_until(), nanoseconds(100));
  world.negate(1, 3).value();
  EXPECT_EQ(world.sim.busy_until(), nanoseconds(200));
  world.sim.advance(nanoseconds(100));
  EXPECT_EQ(world.sim.ended_ops(), 2U);
}

TEST(SimQueues, EffectsComeAtTheEndAndDownloadsWait) {
  World world(later({}));
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  world.sim.advance(nanoseconds(50));
  std::array<float, 4> raw{};
  std::memcpy(raw.data(), world.at(1).data, sizeof raw);
  EXPECT_THAT(raw, ElementsAre(0, 0, 0, 0)) << "whoever reads the memory itself reads too early";
  EXPECT_THAT(world.get(1).value(), ElementsAre(-1, -2, -3, -4));
  EXPECT_EQ(world.sim.now(), nanoseconds(100));
}

TEST(SimQueues, CopiesTakeTimeOnTheirEngines) {
  World world({.clock = ClockMode::manual,
               .cost = fixed_cost(nanoseconds(100)),
               .copy_engines = 1,
               .copy_bytes_per_second = 1e9,
               .effects = Effects::at_end});
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  EXPECT_EQ(world.sim.busy_until(), nanoseconds(116)) << "16 bytes, then the op";
  EXPECT_THAT(world.get(1).value(), ElementsAre(-1, -2, -3, -4));
  EXPECT_EQ(world.sim.now(), nanoseconds(132));
}

TEST(SimQueues, AFailureAtTheEndIsKept) {
  World world(later({}));
  const std::array<std::int32_t, 4> zeros{};
  world.sim.upload(world.at(0).data, std::as_bytes(std::span(zeros)), {}).status().value();
  TensorView zero = world.at(0);
  zero.dtype = DType::i32;
  TensorView out = world.at(1);
  out.dtype = DType::i32;
  EXPECT_TRUE(
      testing::run_call(world.sim, SmallCall(OpKind::div, {zero, zero}, {out}).call()).has_value());
  EXPECT_TRUE(world.sim.late_failures().empty());
  world.sim.advance(nanoseconds(100));
  ASSERT_EQ(world.sim.late_failures().size(), 1U);
  EXPECT_EQ(world.sim.late_failures().front().device, "sim:0");
}

// Chains of ops on four queues, out of order: the bytes are the oracle's, and no access is a fault.
TEST(SimQueues, AnyOrderOfUnorderedWorkGivesTheSameBytes) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    World world(later({.queues = 4, .copy_engines = 2, .reorder_seed = seed, .has_shadow = true}));
    World plain({.cost = {}});
    std::uint64_t state = seed;
    const auto pick = [&state] {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<int>((state >> 33U) % 8U);
    };
    for (int place = 0; place < 8; ++place) {
      const auto base = static_cast<float>(place);
      for (World* each : {&world, &plain}) {
        each->put(place, {base, base + 1, base + 2, base + 3}).value();
      }
    }
    for (int op = 0; op < 40; ++op) {
      const int a = pick();
      const int b = pick();
      const int to = pick();
      for (World* each : {&world, &plain}) {
        const Status status = testing::run_call(
            each->sim, SmallCall(OpKind::sub, {each->at(a), each->at(b)}, {each->at(to)}).call());
        ASSERT_TRUE(status.has_value()) << status.error().text << ", seed " << seed;
      }
      if (op % 10 == 3) {
        world.sim.advance(nanoseconds(130));
      }
    }
    for (int place = 0; place < 8; ++place) {
      EXPECT_EQ(world.get(place).value(), plain.get(place).value()) << "seed " << seed;
    }
    EXPECT_TRUE(world.sim.shadow_reports().empty());
  }
}

TEST(SimShadow, AForgottenBarrierBeforeAReadIsFound) {
  World world(later({.faults = {.forgotten_barriers = {2}}, .queues = 2, .has_shadow = true}));
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  const Status status = world.negate(1, 2);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::internal);
  EXPECT_THAT(status.error().text, HasSubstr("sim:0: shadow memory: read_before_produce"));
  EXPECT_EQ(world.only_fault(), ShadowFault::read_before_produce);
}

TEST(SimShadow, AForgottenBarrierBeforeAWriteIsFound) {
  World world(later({.faults = {.forgotten_barriers = {2}}, .queues = 2, .has_shadow = true}));
  world.put(0, kFour).value();
  world.put(2, kFour).value();
  world.sim.advance(nanoseconds(1));
  world.negate(0, 1).value();
  EXPECT_FALSE(world.negate(2, 1).has_value());
  EXPECT_EQ(world.only_fault(), ShadowFault::reuse_before_timeline);
}

TEST(SimShadow, OnOneQueueInOrderNoBarrierIsNeeded) {
  World world(later({.faults = {.forgotten_barriers = {2}}, .has_shadow = true}));
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  EXPECT_TRUE(world.negate(1, 2).has_value());
}

TEST(SimShadow, UninitialisedReadsAreFound) {
  World world({.has_shadow = true});
  EXPECT_FALSE(world.negate(0, 1).has_value());
  EXPECT_EQ(world.only_fault(), ShadowFault::uninitialised_read);
}

TEST(SimShadow, ADownloadOfBytesThatNobodyWroteIsFound) {
  World world({.has_shadow = true});
  EXPECT_EQ(world.get(0).error().code, ErrorCode::internal);
  EXPECT_EQ(world.only_fault(), ShadowFault::uninitialised_read);
}

TEST(SimShadow, BytesOutsideThePagesAreFound) {
  World world({.has_shadow = true});
  world.put(0, kFour).value();
  TensorView beyond = world.at(0);
  beyond.data = world.at(63).data + 64 - 8;
  EXPECT_FALSE(testing::run_call(world.sim, SmallCall(OpKind::neg, {world.at(0)}, {beyond}).call())
                   .has_value());
  EXPECT_EQ(world.only_fault(), ShadowFault::out_of_bounds);
}

TEST(SimShadow, APageFreedUnderWorkIsFound) {
  World world(later({.has_shadow = true}));
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  world.free_page();
  EXPECT_EQ(world.only_fault(), ShadowFault::reuse_before_timeline);
}

TEST(SimShadow, AHostThatLooksTooEarlyIsFound) {
  World world(later({.has_shadow = true}));
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  const ByteRange bytes{world.at(1).data, 16};
  EXPECT_FALSE(world.sim.check_host_access(bytes, false).has_value());
  EXPECT_EQ(world.only_fault(), ShadowFault::read_before_produce);
  world.sim.advance(nanoseconds(1000));
  EXPECT_TRUE(world.sim.check_host_access(bytes, false).has_value());
  EXPECT_TRUE(world.sim.check_host_access(bytes, true).has_value());
}

TEST(SimShadow, StridedReadsStayWithinTheirView) {
  World world({.has_shadow = true});
  world.put(0, kFour).value();
  Layout reversed(Shape{4});
  reversed.strides[0] = -1;
  reversed.contiguous = false;
  const TensorView view{world.at(0).data + 12, &reversed, DType::f32};
  ASSERT_TRUE(testing::run_call(world.sim, SmallCall(OpKind::neg, {view}, {world.at(1)}).call())
                  .has_value());
  EXPECT_THAT(world.get(1).value(), ElementsAre(-4, -3, -2, -1));
}

}  // namespace
}  // namespace hearth::sim
