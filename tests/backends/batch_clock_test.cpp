// When launches ran, in batches with more launches than timestamps, and which launches may have
// overlapped.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/gpu/launches/launch_stream.hpp"
#include "backends/gpu/store/kernel_factory.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/vulkan/device/physical_list.hpp"
#include "backends/vulkan/pipelines/pipeline_compiler.hpp"
#include "backends/vulkan/queue/vulkan_queue.hpp"

namespace hearth::vulkan {
namespace {

using namespace gpu;

class BatchClockTest : public ::testing::Test {
 protected:
  explicit BatchClockTest(const VulkanDeviceOptions& options = {}) {
    const PhysicalList list = list_physical().value();
    device_ = VulkanDevice::open("vulkan:0", list.instance, list.devices.front(), options).value();
    compiler_ = PipelineCompiler::make(device_).value();
    kernels_ = std::make_unique<KernelFactory>(compiler_);
    const std::string text = glsl_prelude({.threads = 64}) + glsl_parameters("uint64_t y; ", 8) +
                             "void main() { store_i32(p.y, INDEX(THREAD), 1); }\n";
    kernel_ = kernels_->kernel(KernelKey(KernelFamily::custom).add(1), text).value();
    bytes_ = device_->make_buffer(4096, MemoryPlace::device).value();
    const auto queue =
        VulkanQueue::make(device_,
                          QueueWork::kernels,
                          {.layout = compiler_->layout(), .loop_word = compiler_->loop_word()})
            .value();
    stream_ = std::make_unique<LaunchStream>(queue);
  }
  /// A launch of one dispatch; `number` 0 is not timed.
  void launch(std::uint32_t number, bool is_behind_barrier) {
    ASSERT_TRUE(stream_->begin_launch({}, {}).has_value());
    if (is_behind_barrier) {
      stream_->barrier();
    }
    stream_->time_as(number);
    ASSERT_TRUE(
        stream_->dispatch(kernel_, ParameterBlock().add(bytes_.address()), {1, 1, 1}).has_value());
  }
  [[nodiscard]] std::vector<LaunchTime> times() {
    EXPECT_TRUE(stream_->flush().has_value());
    EXPECT_TRUE(stream_->queue().wait_until(stream_->submitted()).has_value());
    return stream_->take_times();
  }

  std::shared_ptr<const VulkanDevice> device_;
  std::shared_ptr<PipelineCompiler> compiler_;
  std::unique_ptr<KernelFactory> kernels_;
  KernelHandle kernel_ = KernelHandle::none;
  Buffer bytes_;
  std::unique_ptr<LaunchStream> stream_;
};

TEST_F(BatchClockTest, LaunchesFollowOneAnotherAndOnlyThoseWithANumberAreTimed) {
  for (const std::uint32_t number : {0U, 1U, 1U, 0U, 2U, 3U}) {
    launch(number, true);
  }
  const std::vector<LaunchTime> all = times();
  ASSERT_EQ(all.size(), 3U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].number, i + 1);
    EXPECT_LE(all[i].begin, all[i].end);
    EXPECT_FALSE(all[i].is_side_by_side);
    EXPECT_FALSE(all[i].is_shared_out);
  }
  EXPECT_LE(all[0].end, all[1].begin) << "an untimed one lies between";
  EXPECT_EQ(all[1].end, all[2].begin);
  launch(0, true);
  EXPECT_TRUE(times().empty());
}

TEST_F(BatchClockTest, WhatNothingKeptApartMayHaveOverlapped) {
  for (const std::uint32_t number : {1U, 2U, 3U, 4U}) {
    launch(number, number != 3);
  }
  const std::vector<LaunchTime> all = times();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_FALSE(all[0].is_side_by_side);
  EXPECT_TRUE(all[1].is_side_by_side);
  EXPECT_TRUE(all[2].is_side_by_side);
  EXPECT_FALSE(all[3].is_side_by_side);
}

TEST_F(BatchClockTest, InALongBatchTheLastOnesShareTheTimeThatIsLeft) {
  constexpr std::uint32_t kLaunches = 3 * TimedBatch::kMostTimestamps;
  for (int round = 0; round < 2; ++round) {  // the timestamps are reused
    for (std::uint32_t number = 1; number <= kLaunches; ++number) {
      launch(number, true);
    }
    const std::vector<LaunchTime> all = times();
    ASSERT_EQ(all.size(), kLaunches);
    for (std::uint32_t i = 0; i < kLaunches; ++i) {
      EXPECT_EQ(all[i].number, i + 1);
      EXPECT_EQ(all[i].is_shared_out, i + 2 >= TimedBatch::kMostTimestamps) << i;
      EXPECT_TRUE(i == 0 || all[i - 1].end == all[i].begin) << i;
    }
  }
}

class WithoutAClockTest : public BatchClockTest {
 protected:
  WithoutAClockTest() : BatchClockTest({.hides_timestamps = true}) {}
};

TEST_F(WithoutAClockTest, ADeviceWithoutTimestampsKeepsNoTimes) {
  launch(1, true);
  EXPECT_TRUE(times().empty());
}

}  // namespace
}  // namespace hearth::vulkan
