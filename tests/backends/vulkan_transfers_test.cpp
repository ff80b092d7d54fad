// Copies through the staging rings that fail in their middle: what has begun goes on beside a
// caller who has been told of the failure.
#include "backends/vulkan/physical_list.hpp"
#include "backends/vulkan/transfers.hpp"
#include "tests/support/environment_variable.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

namespace hearth::vulkan {
namespace {

using namespace std::chrono_literals;

// More than the ring: the fifth piece waits for the first, which waits for an op.
constexpr std::int64_t kBytes = std::int64_t{80} << 20;
constexpr std::uint64_t kPiecesOfARing = 4;
constexpr TimelinePoint kLateOp{.value = 1, .stream = kOpStream};

class VulkanTransfers : public ::testing::Test {
 public:
  VulkanTransfers() {
    const PhysicalList list = list_physical().value();
    signal_ = reinterpret_cast<PFN_vkSignalSemaphore>(  // NOLINT: Vulkan hands functions out so
        list.instance->function("vkSignalSemaphore"));
    device_ =
        VulkanDevice::open("vulkan:0", list.instance, list.devices.front(), {.wait_limit = 20ms})
            .value();
    pages_ = std::make_unique<DevicePages>(device_);
    ops_ = CommandStream::make(device_, CommandStream::Work::kernels, VK_NULL_HANDLE).value();
    transfers_ = Transfers::make(device_, *ops_, *pages_).value();
    page_ = pages_->allocate_page(kBytes).value();
  }
  VulkanTransfers(const VulkanTransfers&) = delete;
  VulkanTransfers& operator=(const VulkanTransfers&) = delete;
  ~VulkanTransfers() override {
    static_cast<void>(device_->api().vkDeviceWaitIdle(device_->handle()));
  }

 protected:
  /// The op comes after all, and then everything that waited for it.
  void let_go_on() {
    VkSemaphoreSignalInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
    info.semaphore = ops_->semaphore();
    info.value = kLateOp.value;
    ASSERT_EQ(signal_(device_->handle(), &info), VK_SUCCESS);
    ASSERT_EQ(device_->api().vkDeviceWaitIdle(device_->handle()), VK_SUCCESS);
  }

  std::shared_ptr<const VulkanDevice> device_;
  std::unique_ptr<DevicePages> pages_;
  std::unique_ptr<CommandStream> ops_;
  std::unique_ptr<Transfers> transfers_;
  Page page_;

 private:
  hearth::testing::EnvironmentVariable shuffle_{"HEARTH_VULKAN_SHUFFLE", "7"};  // as a card
  PFN_vkSignalSemaphore signal_ = nullptr;
};

TEST_F(VulkanTransfers, ADownloadThatFailedWritesIntoNobodysMemory) {
  std::vector<std::byte> target(kBytes, std::byte{0x5a});
  const auto failed = transfers_->download(target, page_.data, {&kLateOp, 1});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::deadline_exceeded);
  const std::uint64_t begun = transfers_->newest(kDownloadStream).value;
  EXPECT_EQ(begun, kPiecesOfARing);
  EXPECT_EQ(transfers_->settle().value(), 0U) << "they have not ended";
  let_go_on();
  EXPECT_EQ(transfers_->settle().value(), begun);
  const auto is_untouched = [](std::byte each) { return each == std::byte{0x5a}; };
  EXPECT_TRUE(std::ranges::all_of(target, is_untouched));
}

TEST_F(VulkanTransfers, AReadBehindOneThatFailedHasItsBytesAndTheWholeRing) {
  const std::vector<std::byte> values(kBytes, std::byte{7});
  ASSERT_TRUE(transfers_->upload(page_.data, values, {}).has_value());
  ASSERT_EQ(device_->api().vkDeviceWaitIdle(device_->handle()), VK_SUCCESS);
  std::vector<std::byte> target(kBytes);
  ASSERT_FALSE(transfers_->download(target, page_.data, {&kLateOp, 1}).has_value());
  let_go_on();
  const auto point = transfers_->download(target, page_.data, {&kLateOp, 1});
  ASSERT_TRUE(point.has_value());
  ASSERT_EQ(device_->api().vkDeviceWaitIdle(device_->handle()), VK_SUCCESS);
  EXPECT_EQ(transfers_->settle().value(), point.value().value);
  EXPECT_EQ(target, values);
}

TEST_F(VulkanTransfers, AnUploadThatFailedSaysHowFarItHasBegun) {
  const std::vector<std::byte> values(kBytes, std::byte{7});
  ASSERT_FALSE(transfers_->upload(page_.data, values, {&kLateOp, 1}).has_value());
  const TimelinePoint begun = transfers_->newest(kUploadStream);
  EXPECT_EQ(begun.value, kPiecesOfARing);
  EXPECT_LT(transfers_->reached().value()[kUploadStream], begun.value);
  let_go_on();
  EXPECT_EQ(transfers_->reached().value()[kUploadStream], begun.value);
}

}  // namespace
}  // namespace hearth::vulkan
