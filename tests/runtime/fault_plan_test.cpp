// Faults that a program plans for its own tests, using only public headers.
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/update_group.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

struct FaultySim {
  explicit FaultySim(const FaultPlan& plan)
      : runtime({.devices = {{.name = "sim:0", .faults = plan}}, .fusion = Fusion::off}) {}

  const Runtime runtime;
  const Device device = runtime.device("sim:0");
  const Tensor x = Tensor::from(device, std::vector<float>{1, 2}, Shape{2});
};

ErrorCode code_of_read(const Tensor& tensor) {
  try {
    static_cast<void>(tensor.to_vector<float>());
  } catch (const Exception& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing failed";
  return ErrorCode::internal;
}

TEST(PlannedFaults, AnOpThatFailsAsPlannedSpoilsWhatDependsOnItAlone) {
  const FaultySim sim({.failing_submits = {2}});
  const Tensor good = sim.x * 2;
  const Tensor bad = sim.x * 3;
  EXPECT_EQ(code_of_read(bad + 1), ErrorCode::kernel_failed);
  EXPECT_THAT((good + 1).to_vector<float>(), ElementsAre(3, 5));
}

std::string op_of_read(const Tensor& tensor) {
  try {
    static_cast<void>(tensor.to_vector<float>());
  } catch (const Exception& error) {
    return error.error().op;
  }
  return "nothing failed";
}

TEST(PlannedFaults, AnErrorOfTheDeviceNamesTheOpAsTheProgramCallsIt) {
  const FaultySim sim({.failing_submits = {1, 2, 3, 4, 5, 6}});
  EXPECT_EQ(op_of_read(full(sim.device, {2}, 1)), "full");
  EXPECT_EQ(op_of_read(minimum(sim.x, 1)), "minimum");
  EXPECT_EQ(op_of_read(maximum(sim.x, 1)), "maximum");
  EXPECT_EQ(op_of_read(sum(sim.x)), "sum");
  EXPECT_EQ(op_of_read(mean(sim.x)), "mean");
  EXPECT_EQ(op_of_read(max(sim.x)), "max");
}

TEST(PlannedFaults, AStepWhoseGradientFailsKeepsTheWeights) {
  const FaultySim sim({.failing_compiles = {1}});
  Tensor weights = sim.x;
  Tensor none;
  UpdateGroup group(sim.device);
  group.sgd(weights, tanh(sim.x), none, {.learning_rate = 1});
  EXPECT_FALSE(group.commit().wait().has_value());
  EXPECT_THAT(weights.to_vector<float>(), ElementsAre(1, 2));
}

TEST(PlannedFaults, MemoryRunsOutAsPlanned) {
  const Runtime runtime({.devices = {{.name = "sim:0",
                                      .memory = MemoryPooling::exclusive,
                                      .faults = FaultPlan{.failing_allocation = 2,
                                                          .failing_allocation_count = 10}}}});
  const Device device = runtime.device("sim:0");
  const Tensor first = zeros(device, {8});
  EXPECT_THROW(static_cast<void>(zeros(device, {8}).to_vector<float>()), OutOfMemory);
  EXPECT_EQ(first.to_vector<float>(), std::vector<float>(8));
}

TEST(PlannedFaults, ADeviceIsLostAsPlannedAndComesBackWithoutFaults) {
  const FaultySim sim({.lost_at_submit = 1});
  EXPECT_EQ(code_of_read(sim.x + 1), ErrorCode::device_lost);
  sim.device.restart();
  const Tensor anew = Tensor::from(sim.device, std::vector<float>{3}, Shape{1});
  EXPECT_THAT((anew + 1).to_vector<float>(), ElementsAre(4));
  EXPECT_EQ(code_of_read(sim.x), ErrorCode::device_lost);
}

TEST(PlannedFaults, ADeviceIsLostAtATimeOfItsOwnClock) {
  const FaultySim sim({.lost_at = std::chrono::nanoseconds(1)});
  EXPECT_EQ(code_of_read(sim.x + 1), ErrorCode::device_lost);
}

TEST(PlannedFaults, AReadOfWhatHangsEndsWithTheDeadline) {
  const FaultySim sim({.hanging_submit = 1});
  try {
    static_cast<void>((sim.x + 1).to_vector<float>());
    FAIL() << "what hangs was read";
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.error().report(), HasSubstr("open waits"));
    EXPECT_THAT(error.error().report(), HasSubstr("device sim:0"));
  }
}

TEST(PlannedFaults, ADownloadIsCorruptedAsPlannedAndOnlyThat) {
  const FaultySim sim({.corrupted_downloads = {1}});
  EXPECT_NE(sim.x.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(sim.x.to_vector<float>(), (std::vector<float>{1, 2}));
}

std::optional<Error> refusal(const DeviceOptions& device) {
  try {
    const Runtime runtime({.devices = {device}});
  } catch (const ArgumentError& error) {
    return error.error();
  }
  return {};
}

TEST(PlannedFaults, AreRefusedForDevicesThatAreNoSimsEvenWhenNothingIsPlanned) {
  for (const char* name : {"cpu:0", "reference:0"}) {
    const auto refused = refusal({.name = name, .faults = FaultPlan{}});
    ASSERT_TRUE(refused) << name;
    EXPECT_THAT(refused->text, HasSubstr("faults are for sim, vulkan and cuda devices alone"));
    EXPECT_THAT(refused->location.file, EndsWith("fault_plan_test.cpp"));
  }
  EXPECT_FALSE(refusal({.name = "sim:0", .faults = FaultPlan{}}));
}

// Checked before the device is opened, so it need not exist.
TEST(PlannedFaults, AreRefusedWhereTheyWouldHaveNoEffect) {
  const auto says = [](const std::string& device, const FaultPlan& faults) {
    const auto refused = refusal({.name = device, .faults = faults});
    return refused ? refused->text : "";
  };
  for (const auto& [faults, name] : std::vector<std::pair<FaultPlan, std::string>>{
           {{.failing_submits = {1}}, "failing_submits"},
           {{.late_failures = {1}}, "late_failures"},
           {{.failing_allocation = 1}, "failing_allocation"},
           {{.lost_at = std::chrono::nanoseconds(1)}, "lost_at"},
           {{.corrupted_downloads = {1}}, "corrupted_downloads"},
           {{.forgotten_barriers = {1}}, "forgotten_barriers"}}) {
    EXPECT_EQ(
        says("vulkan:0", faults),
        "device 'vulkan:0': its faults have " + name +
            ", which vulkan devices do not support; they support lost_at_submit, lost_at_call, "
            "refused_at_call, hanging_submit and failing_compiles");
  }
  EXPECT_THAT(says("sim:0", {.lost_at_call = 1}),
              HasSubstr("its faults have lost_at_call, which sim devices do not support"));
  EXPECT_THAT(says("sim:0", {.refused_at_call = 1}), HasSubstr("refused_at_call"));
}

TEST(PlannedFaults, NumbersThatCountNothingAreRefused) {
  for (const FaultPlan& faults : {FaultPlan{.failing_submits = {1, 0}},
                                  FaultPlan{.failing_allocation = -1},
                                  FaultPlan{.failing_allocation_count = -1},
                                  FaultPlan{.failing_compiles = {0}},
                                  FaultPlan{.corrupted_downloads = {0}},
                                  FaultPlan{.lost_at = std::chrono::nanoseconds(-1)}}) {
    const auto refused = refusal({.name = "sim:0", .faults = faults});
    ASSERT_TRUE(refused);
    EXPECT_THAT(refused->text, HasSubstr("numbered from 1"));
  }
  const auto refused = refusal({.name = "sim:0", .faults = FaultPlan{.forgotten_barriers = {2}}});
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->text, HasSubstr("asynchronous sim alone"));
}

}  // namespace
}  // namespace hearth
