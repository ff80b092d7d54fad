// Batches that a thread records: their order, and the cost of a batch that the driver refuses
// there. All other tests of Vulkan devices cover the contents of batches: with
// HEARTH_VULKAN_SHUFFLE the thread records every batch.
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include "backends/gpu/launches/launch_stream.hpp"
#include "backends/vulkan/device/physical_list.hpp"
#include "backends/vulkan/queue/vulkan_queue.hpp"

namespace hearth::vulkan {
namespace {

using namespace gpu;

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Recording = LaunchStream::Recording;

class BatchRecorderTest : public ::testing::Test {
 protected:
  std::unique_ptr<LaunchStream> stream(const VulkanDeviceOptions& options,
                                       bool has_thread = true,
                                       std::function<void()> before_each = {}) {
    const PhysicalList list = list_physical().value();
    device_ = VulkanDevice::open("vulkan:0", list.instance, list.devices.front(), options).value();
    return std::make_unique<LaunchStream>(
        VulkanQueue::make(device_, QueueWork::kernels).value(),
        StreamTerms{.recorder = {.executor = has_thread ? &executor_ : nullptr,
                                 .before_each = std::move(before_each)}});
  }
  /// Adds one batch without dispatches.
  static Status add(LaunchStream& to, Recording recording) {
    HEARTH_TRY_STATUS(to.begin_launch({}, {}));
    return to.flush(recording);
  }

  hearth::ThreadExecutor executor_;
  std::shared_ptr<const VulkanDevice> device_;
};

TEST_F(BatchRecorderTest, BatchesReachTheQueueInTheirOrder) {
  const std::unique_ptr<LaunchStream> all = stream({});
  for (std::uint64_t i = 1; i <= 300; ++i) {
    ASSERT_TRUE(add(*all, i % 7 == 0 ? Recording::here : Recording::beside).has_value());
    ASSERT_EQ(all->submitted(), i);
    ASSERT_LE(all->in_queue(), i);
    if (i % 50 == 0) {
      ASSERT_TRUE(all->settle(20s).has_value());
      ASSERT_TRUE(all->is_settled());
      ASSERT_EQ(all->in_queue(), i);
      ASSERT_TRUE(all->queue().wait_until(i).has_value());
      ASSERT_EQ(all->completed().value(), i);
    }
  }
}

TEST_F(BatchRecorderTest, WithoutAThreadTheOwnerRecords) {
  const std::unique_ptr<LaunchStream> all = stream({}, false);
  for (std::uint64_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(add(*all, Recording::beside).has_value());
    ASSERT_TRUE(all->is_settled());
    ASSERT_EQ(all->in_queue(), i);
  }
  EXPECT_TRUE(all->queue().wait_until(20).has_value());
}

// Call k is the end of a batch or its submission, alternately. Later batches are not submitted. The
// owner receives the error with the next batch or from a query.
TEST_F(BatchRecorderTest, ABatchThatIsRefusedIsTheLastOne) {
  for (std::uint64_t call = 1; call <= 12; ++call) {
    SCOPED_TRACE("call " + std::to_string(call));
    const std::unique_ptr<LaunchStream> all = stream({.refused_at_call = call});
    Status status;
    for (int i = 0; i < 20 && status.has_value(); ++i) {
      status = add(*all, Recording::beside);
    }
    const Status settled = all->settle(20s);
    ASSERT_FALSE(settled.has_value());
    EXPECT_EQ(settled.error().code, ErrorCode::device_lost);
    EXPECT_THAT(settled.error().text,
                HasSubstr(call % 2 == 1 ? "vkEndCommandBuffer" : "vkQueueSubmit"));
    EXPECT_TRUE(all->has_failed());
    EXPECT_TRUE(device_->is_abandoned());
    EXPECT_EQ(all->in_queue(), (call - 1) / 2);
    EXPECT_FALSE(add(*all, Recording::here).has_value());
    EXPECT_FALSE(all->flush().has_value());
    if (all->in_queue() > 0) {
      EXPECT_TRUE(all->queue().wait_until(all->in_queue()).has_value());
    }
  }
}

// While the owner adds the next batch, recorded by itself or not, the thread's batch is refused at
// any moment.
TEST_F(BatchRecorderTest, NothingIsSubmittedBehindABatchThatIsRefused) {
  for (int round = 0; round < 200; ++round) {
    const std::unique_ptr<LaunchStream> all = stream({.refused_at_call = 2});
    static_cast<void>(add(*all, Recording::beside));
    for (int wait = 0; wait < round * 20; ++wait) {
      ASSERT_LE(all->submitted(), 1U);
    }
    static_cast<void>(add(*all, Recording::here));
    ASSERT_FALSE(all->settle(20s).has_value());
    ASSERT_EQ(all->in_queue(), 0U);
    ASSERT_EQ(all->completed().value(), 0U);
  }
}

// Each waiter gets an error within the limit, and later waiters at once; the owner may go on
// adding.
TEST_F(BatchRecorderTest, ADriverThatDoesNotComeBackKeepsNobodyForLong) {
  Promise<void> release;
  const auto comes = std::make_shared<Pending<void>>(release.pending());
  const std::unique_ptr<LaunchStream> all =
      stream({}, true, [comes] { static_cast<void>(comes->wait()); });
  ASSERT_TRUE(add(*all, Recording::beside).has_value());
  for (const auto limit : std::array<std::chrono::nanoseconds, 2>{50ms, 1h}) {
    const Status status = all->settle(limit);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(status.error().device, "vulkan:0");
    EXPECT_THAT(status.error().text, HasSubstr("does not return from recording commands"));
  }
  ASSERT_TRUE(add(*all, Recording::here).has_value()) << "behind the one that the thread has";
  EXPECT_FALSE(all->is_settled());
  EXPECT_EQ(all->in_queue(), 0U);
  release.set_value();
  const Deadline soon = Deadline::in(20s);
  while (!all->is_settled() && !soon.has_passed()) {
  }
  ASSERT_TRUE(all->settle(20s).has_value());
  EXPECT_EQ(all->in_queue(), 2U);
  EXPECT_TRUE(all->queue().wait_until(2).has_value());
}

}  // namespace
}  // namespace hearth::vulkan
