// Copies through the staging rings in parts. A full ring reports when it has room. Parts that have
// begun continue after the caller abandons its copy. All bytes arrive.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "backends/gpu/copies/host_copier.hpp"
#include "backends/gpu/copies/transfers.hpp"
#include "backends/vulkan/device/physical_list.hpp"
#include "backends/vulkan/queue/vulkan_queue.hpp"
#include "backends/vulkan/vulkan_gpu.hpp"
#include "tests/support/environment_variable.hpp"

namespace hearth::vulkan {
namespace {

using namespace gpu;

using namespace std::chrono_literals;

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kPiecesOfARing = 4;
// More than the ring: the fifth piece has no room before the first has ended, and that piece waits
// for an op.
constexpr std::int64_t kBytes = 5 * std::int64_t{kPiece};
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
    const std::shared_ptr<const GpuDevice> gpu = VulkanGpu::make(device_).value();
    pages_ = std::make_unique<DevicePages>(gpu);
    ops_ = std::make_unique<LaunchStream>(gpu->make_queue(QueueWork::kernels).value());
    transfers_ = Transfers::make(
                     gpu,
                     *ops_,
                     *pages_,
                     {.ring_bytes = kPiecesOfARing * kPiece, .piece_bytes = kPiece, .threads = 2})
                     .value();
    page_ = pages_->allocate_page(kBytes).value();
  }
  VulkanTransfers(const VulkanTransfers&) = delete;
  VulkanTransfers& operator=(const VulkanTransfers&) = delete;
  ~VulkanTransfers() override { idle(); }

 protected:
  void idle() const { static_cast<void>(device_->api().vkDeviceWaitIdle(device_->handle())); }
  /// Signals the op and then all work that waits for it.
  void let_go_on() {
    VkSemaphoreSignalInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
    info.semaphore = semaphore_of(ops_->queue());
    info.value = kLateOp.value;
    ASSERT_EQ(signal_(device_->handle(), &info), VK_SUCCESS);
    idle();
  }
  /// Submits parts behind the late op until the ring is full; returns the last answer.
  CopyPart fill_up(std::span<const std::byte> values, std::size_t& done) const {
    CopyPart part{.size_bytes = 1};
    for (done = 0; done < values.size() && part.size_bytes > 0; done += part.size_bytes) {
      part = transfers_->upload(page_.data + done, values.subspan(done), {&kLateOp, 1}).value();
      EXPECT_LE(part.size_bytes, kPiece);
    }
    return part;
  }
  CopyPart fill_down(std::span<std::byte> target, std::size_t& done) const {
    CopyPart part{.size_bytes = 1};
    for (done = 0; done < target.size() && part.size_bytes > 0; done += part.size_bytes) {
      part = transfers_->download(target.subspan(done), page_.data + done, {&kLateOp, 1}).value();
      EXPECT_LE(part.size_bytes, kPiece);
    }
    return part;
  }
  /// Copies all parts; when there is no room, waits for the device to finish.
  void up(std::size_t at, std::span<const std::byte> values) const {
    while (!values.empty()) {
      const CopyPart part = transfers_->upload(page_.data + at, values, {}).value();
      at += part.size_bytes;
      values = values.subspan(part.size_bytes);
      if (part.size_bytes == 0) {
        idle();
      }
    }
    idle();
  }
  void down(std::size_t at, std::span<std::byte> target) const {
    TimelinePoint last;
    while (!target.empty()) {
      const CopyPart part = transfers_->download(target, page_.data + at, {}).value();
      at += part.size_bytes;
      target = target.subspan(part.size_bytes);
      last = part.point;
      if (part.size_bytes == 0) {
        idle();
      }
    }
    idle();
    EXPECT_EQ(transfers_->settle().value(), last.value);
  }

  std::shared_ptr<const VulkanDevice> device_;
  std::unique_ptr<DevicePages> pages_;
  std::unique_ptr<LaunchStream> ops_;
  std::unique_ptr<Transfers> transfers_;
  Page page_;

 private:
  hearth::testing::EnvironmentVariable shuffle_{"HEARTH_VULKAN_SHUFFLE", "7"};  // as a card
  PFN_vkSignalSemaphore signal_ = nullptr;
};

TEST_F(VulkanTransfers, ATargetThatIsForgottenIsTouchedNoMore) {
  std::vector<std::byte> target(kBytes, std::byte{0x5a});
  std::size_t done = 0;
  const CopyPart refused = fill_down(target, done);
  EXPECT_EQ(done, kPiecesOfARing * kPiece);
  EXPECT_EQ(refused.point, (TimelinePoint{.value = 1, .stream = kDownloadStream}));
  EXPECT_EQ(transfers_->newest(kDownloadStream).value, kPiecesOfARing);
  EXPECT_EQ(transfers_->settle().value(), 0U) << "they have not ended";
  transfers_->forget_target(target);
  let_go_on();
  EXPECT_EQ(transfers_->settle().value(), kPiecesOfARing);
  EXPECT_TRUE(std::ranges::all_of(target, [](std::byte each) { return each == std::byte{0x5a}; }));
}

TEST_F(VulkanTransfers, AReadBehindOneThatIsForgottenHasItsBytesAndTheWholeRing) {
  const std::vector<std::byte> values(kBytes, std::byte{7});
  up(0, values);
  std::vector<std::byte> given_up(kBytes);
  std::size_t done = 0;
  static_cast<void>(fill_down(given_up, done));
  transfers_->forget_target(given_up);
  let_go_on();
  std::vector<std::byte> target(kBytes);
  static_cast<void>(fill_down(target, done));
  EXPECT_GE(done, kPiecesOfARing * kPiece) << "what was given up has left";
  down(0, target);
  EXPECT_EQ(target, values);
  EXPECT_EQ(given_up, std::vector<std::byte>(kBytes));
}

TEST_F(VulkanTransfers, ARingThatIsFullSaysWhenThereIsRoom) {
  std::vector<std::byte> values(kBytes, std::byte{7});
  std::size_t done = 0;
  const CopyPart refused = fill_up(values, done);
  EXPECT_EQ(done, kPiecesOfARing * kPiece);
  EXPECT_EQ(refused.size_bytes, 0U);
  EXPECT_EQ(refused.point, (TimelinePoint{.value = 1, .stream = kUploadStream}));
  EXPECT_EQ(transfers_->newest(kUploadStream).value, kPiecesOfARing);
  EXPECT_LT(transfers_->reached().value()[kUploadStream], kPiecesOfARing);
  const std::span left = std::span(values).subspan(done);
  EXPECT_EQ(transfers_->upload(page_.data + done, left, {}).value().size_bytes, 0U);
  std::ranges::fill(std::span(values).first(done), std::byte{9});  // their bytes are copied already
  let_go_on();
  EXPECT_EQ(transfers_->upload(page_.data + done, left, {}).value().size_bytes, kPiece);
  idle();
  std::vector<std::byte> target(kBytes);
  down(0, target);
  EXPECT_EQ(target, std::vector<std::byte>(kBytes, std::byte{7}));
}

TEST_F(VulkanTransfers, PartsOfAnySizeComeWhole) {
  std::mt19937 random(3);
  std::vector<std::byte> there(kBytes);
  up(0, there);
  for (int round = 0; round < 60; ++round) {
    const auto at = static_cast<std::size_t>(random() % (kBytes - 1));
    const std::size_t most = round % 3 == 0 ? 300 : static_cast<std::size_t>(kBytes) - at;
    const std::size_t size = 1 + random() % std::min<std::size_t>(most, kBytes - at);
    std::vector<std::byte> values(size);
    std::ranges::generate(values, [&] { return static_cast<std::byte>(random()); });
    up(at, values);
    std::ranges::copy(values, there.begin() + static_cast<std::ptrdiff_t>(at));
    const std::size_t begin = at - random() % (at + 1);
    std::vector<std::byte> got(at - begin + size);
    down(begin, got);
    ASSERT_TRUE(std::ranges::equal(got, std::span(there).subspan(begin, got.size())))
        << "round " << round << ", seed 3";
  }
}

TEST(HostCopier, CopiesEachByteOnce) {
  constexpr std::size_t kMargin = 64;
  for (const int threads : {1, 2}) {
    HostCopier copier(threads);
    for (const std::size_t size :
         {0UL, 1UL, kPiece - 1, 2 * kPiece - 1, 2 * kPiece, 5 * kPiece + 3}) {
      std::vector<std::byte> from(size);
      std::mt19937 random(static_cast<std::uint32_t>(size));
      std::ranges::generate(from, [&] { return static_cast<std::byte>(random()); });
      std::vector<std::byte> to(size + 2 * kMargin, std::byte{0x5a});
      copier.copy(to.data() + kMargin, from);
      EXPECT_TRUE(std::ranges::equal(std::span(to).subspan(kMargin, size), from)) << size;
      const auto is_margin = [](std::byte each) { return each == std::byte{0x5a}; };
      EXPECT_TRUE(std::ranges::all_of(std::span(to).first(kMargin), is_margin));
      EXPECT_TRUE(std::ranges::all_of(std::span(to).last(kMargin), is_margin));
    }
  }
}

}  // namespace
}  // namespace hearth::vulkan
