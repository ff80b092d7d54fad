#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/backends/reference/reference_backend.hpp>
#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <array>
#include <vector>

#include "small_call.hpp"
#include "tests/support/run_call.hpp"

namespace hearth::sim {
namespace {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallCall;
using testing::SmallTensor;

class Sim : public ::testing::Test {
 protected:
  [[nodiscard]] Status negate(Backend& backend) const {
    return testing::run_call(backend, SmallCall(OpKind::neg, {x_.view()}, {y_.view()}).call());
  }

  const SmallTensor x_{DType::f32, {3}, {1, 2, 3}};
  const SmallTensor y_{DType::f32, {3}};
};

TEST_F(Sim, ComputesTheOraclesResults) {
  SimBackend sim;
  negate(sim).value();
  EXPECT_THAT(y_.values(), ElementsAre(-1, -2, -3));
  EXPECT_TRUE(sim.info().computes);
  EXPECT_TRUE(sim.info().runs_inline);
}

TEST_F(Sim, WithoutComputingItLeavesOutputsAlone) {
  SimBackend sim({.computes = false, .cost = {}});
  negate(sim).value();
  EXPECT_THAT(y_.values(), ElementsAre(0, 0, 0));
  EXPECT_FALSE(sim.info().computes);
  EXPECT_EQ(sim.ended_ops(), 1U);
  EXPECT_EQ(sim.now(), nanoseconds(0));
}

TEST_F(Sim, TheClockFollowsWork) {
  SimBackend sim({.cost = fixed_cost(nanoseconds(50))});
  negate(sim).value();
  negate(sim).value();
  EXPECT_EQ(sim.now(), nanoseconds(100));
  EXPECT_EQ(sim.submitted(), 2U);
  EXPECT_EQ(sim.ended_ops(), 2U);
}

TEST_F(Sim, RooflineCostIsTheLongerOfWorkAndTraffic) {
  const auto call = SmallCall(OpKind::neg, {x_.view()}, {y_.view()});
  // 3 flops and 24 bytes.
  EXPECT_EQ(
      roofline_cost({.flops_per_second = 1e9, .bytes_per_second = 1e9, .launch = nanoseconds(5)})(
          call.call()),
      nanoseconds(29));
  EXPECT_EQ(
      roofline_cost({.flops_per_second = 1e6, .bytes_per_second = 1e9, .launch = nanoseconds(0)})(
          call.call()),
      nanoseconds(3000));
}

TEST_F(Sim, APlannedSubmitFailsAloneAndIsCounted) {
  SimBackend sim({.name = "sim:3", .faults = {.failing_submits = {2}}});
  EXPECT_TRUE(negate(sim).has_value());
  const Status failed = negate(sim);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kernel_failed);
  EXPECT_THAT(failed.error().text, HasSubstr("sim:3: submit 2 fails by the fault plan"));
  EXPECT_TRUE(negate(sim).has_value());
  EXPECT_EQ(sim.submitted(), 3U);
  EXPECT_EQ(sim.ended_ops(), 3U);
}

TEST_F(Sim, ALostDeviceStaysLost) {
  SimBackend sim({.cost = fixed_cost(nanoseconds(10)), .faults = {.lost_at_submit = 2}});
  EXPECT_TRUE(negate(sim).has_value());
  EXPECT_EQ(negate(sim).error().code, ErrorCode::device_lost);
  EXPECT_EQ(negate(sim).error().code, ErrorCode::device_lost);
  std::array<std::byte, 4> bytes{};
  EXPECT_EQ(sim.upload(bytes.data(), bytes, {}).error().code, ErrorCode::device_lost);
  EXPECT_EQ(sim.download(bytes, bytes.data(), {}).error().code, ErrorCode::device_lost);
  sim.advance(nanoseconds(1000));
  EXPECT_EQ(sim.ended_ops(), 1U);
  EXPECT_EQ(sim.wait({}, Deadline::never()).error().code, ErrorCode::device_lost);
  EXPECT_TRUE(sim.is_lost());
}

TEST_F(Sim, ALateFailureFailsAtOnce) {
  SimBackend sim({.faults = {.late_failures = {1}}});
  EXPECT_EQ(negate(sim).error().text, "sim:0: submit 1 fails by the fault plan");
  EXPECT_TRUE(negate(sim).has_value());
}

TEST_F(Sim, APlannedAllocationFails) {
  SimBackend sim({.faults = {.failing_allocation = 2}});
  const Page first = sim.pages().allocate_page(100).value();
  EXPECT_EQ(sim.pages().allocate_page(100).error().code, ErrorCode::out_of_memory);
  const Page third = sim.pages().allocate_page(100).value();
  sim.pages().free_page(first);
  sim.pages().free_page(third);
}

TEST_F(Sim, FailuresOfOpsNameTheDevice) {
  const SmallTensor zero(DType::i32, {1});
  const auto divide = SmallCall(OpKind::div, {zero.view(), zero.view()}, {zero.view()});
  SimBackend sim;
  EXPECT_EQ(testing::run_call(sim, divide.call()).error().device, "sim:0");
  reference::ReferenceBackend oracle;
  EXPECT_EQ(testing::run_call(oracle, divide.call()).error().device, "reference:0");
}

TEST_F(Sim, CopiesBytesBothWays) {
  const std::array<std::byte, 3> from{std::byte{1}, std::byte{2}, std::byte{3}};
  std::array<std::byte, 3> middle{};
  std::array<std::byte, 3> to{};
  reference::ReferenceBackend oracle;
  SimBackend sim;
  for (Backend* backend : {static_cast<Backend*>(&oracle), static_cast<Backend*>(&sim)}) {
    to = {};
    EXPECT_TRUE(backend->copies().upload(middle.data(), from, {}).value().point.is_done());
    EXPECT_TRUE(backend->copies().download(to, middle.data(), {}).value().point.is_done());
    EXPECT_EQ(to, from) << backend->info().name;
  }
}

}  // namespace
}  // namespace hearth::sim
