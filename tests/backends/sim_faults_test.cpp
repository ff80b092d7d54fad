// The inline sim's faults and the reports of shadow memory, seen through the seam.
#include <hearth/backends/sim/sim_backend.hpp>

#include <array>
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

/// A sim device, and tensors of four f32 in its own page.
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
  detail::Layout layout_{Shape{4}};
};

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
  EXPECT_EQ(failed.error().text,
            "sim:0: compile 2 (abs f32[ 4 ] f32[ 4 ]) fails by the fault plan");
  EXPECT_EQ(world.sim.submitted(), 2U) << "it never became a submit";
  EXPECT_TRUE(absolute().has_value());
}

TEST(SimFaults, TheDeviceIsLostWhenTheClockGetsThere) {
  World world({.cost = fixed_cost(nanoseconds(100)), .faults = {.lost_at = nanoseconds(250)}});
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  world.negate(1, 2).value();
  EXPECT_EQ(world.negate(2, 3).error().code, ErrorCode::device_lost);
  EXPECT_EQ(world.sim.ended_ops(), 2U);
  EXPECT_EQ(world.get(1).error().code, ErrorCode::device_lost);
  EXPECT_THAT(world.get(1).error().text, HasSubstr("lost at 250 ns by the fault plan"));
}

TEST(SimFaults, AHungSubmitStopsAllOpsAfterIt) {
  World world({.faults = {.hanging_submit = 2}});
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  for (const int place : {2, 3}) {
    const Status hung = world.negate(0, place);
    ASSERT_FALSE(hung.has_value()) << "it would lend bytes that nobody wrote";
    EXPECT_EQ(hung.error().code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(hung.error().text, "sim:0: submit 2 hangs by the fault plan");
    EXPECT_EQ(hung.error().op, "neg");
  }
  EXPECT_THAT(world.get(1).value(), ElementsAre(-1, -2, -3, -4));
  EXPECT_THAT(world.get(0).value(), ElementsAre(1, 2, 3, 4)) << "no op writes there";
  for (const int place : {2, 3}) {
    const Status hung = world.get(place).status();
    ASSERT_FALSE(hung.has_value());
    EXPECT_EQ(hung.error().code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(hung.error().text, "sim:0: submit 2 hangs by the fault plan");
  }
  EXPECT_EQ(world.put(0, kFour).error().code, ErrorCode::deadline_exceeded) << "they read it";
  EXPECT_TRUE(world.put(4, kFour).has_value());
  EXPECT_EQ(world.sim.ended_ops(), 1U);
}

TEST(SimFaults, AWaitSaysWhatNeverEnds) {
  World world({.faults = {.hanging_submit = 2}});
  world.put(0, kFour).value();
  world.negate(0, 1).value();
  EXPECT_TRUE(world.sim.wait({}, Deadline::never()).has_value());
  EXPECT_FALSE(world.negate(0, 2).has_value());
  EXPECT_EQ(world.sim.wait({}, Deadline::never()).error().code, ErrorCode::deadline_exceeded);
}

TEST(SimFaults, ACorruptedDownloadIsWrongOnce) {
  World world({.faults = {.corrupted_downloads = {2}}});
  world.put(0, kFour).value();
  EXPECT_EQ(world.get(0).value(), kFour);
  EXPECT_NE(world.get(0).value(), kFour);
  EXPECT_EQ(world.get(0).value(), kFour);
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

TEST(SimShadow, StridedReadsStayWithinTheirView) {
  World world({.has_shadow = true});
  world.put(0, kFour).value();
  detail::Layout reversed(Shape{4});
  reversed.strides[0] = -1;
  reversed.contiguous = false;
  const TensorView view{world.at(0).data + 12, &reversed, DType::f32};
  ASSERT_TRUE(testing::run_call(world.sim, SmallCall(OpKind::neg, {view}, {world.at(1)}).call())
                  .has_value());
  EXPECT_THAT(world.get(1).value(), ElementsAre(-4, -3, -2, -1));
}

}  // namespace
}  // namespace hearth::sim
