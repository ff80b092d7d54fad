// Host memory that the device's copies reach by themselves: buffers of the host's cached memory, by
// powers of two, kept for the next who asks, until trim(): of each size as many as were held at
// once. What others hold of it may outlive the backend. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/sync.hpp>

#include "vulkan_device.hpp"

namespace hearth::vulkan {

class PinnedMemory final : public std::enable_shared_from_this<PinnedMemory> {
 public:
  /// Where bytes lie in a buffer.
  struct Place {
    VkBuffer buffer = VK_NULL_HANDLE;
    std::int64_t offset_bytes = 0;
  };

  explicit PinnedMemory(std::shared_ptr<const VulkanDevice> device) noexcept
      : device_(std::move(device)) {}
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() = default;

  /// Ordinary memory where Vulkan gives no more of this: copies take longer, as from any place.
  [[nodiscard]] HostBytes take(std::size_t size) HEARTH_EXCLUDES(mutex_);
  /// Empty for bytes that are not of here.
  [[nodiscard]] std::optional<Place> find(std::span<const std::byte> bytes) const
      HEARTH_EXCLUDES(mutex_);
  /// What is held, and what is kept for others.
  [[nodiscard]] std::int64_t size_bytes() const noexcept HEARTH_EXCLUDES(mutex_);
  /// What nobody holds goes back to the system; how many bytes that were.
  std::int64_t trim() noexcept HEARTH_EXCLUDES(mutex_);

 private:
  static constexpr std::uint32_t kLeastLog = 16;  ///< 64 KiB

  [[nodiscard]] std::int64_t free_bytes() const noexcept HEARTH_REQUIRES(mutex_);
  void give_back(const std::byte* first) noexcept HEARTH_EXCLUDES(mutex_);

  std::shared_ptr<const VulkanDevice> device_;
  mutable hearth::detail::Mutex mutex_;
  std::map<const std::byte*, Buffer> held_ HEARTH_GUARDED_BY(mutex_);   ///< By their first byte.
  std::array<std::vector<Buffer>, 64> free_ HEARTH_GUARDED_BY(mutex_);  ///< By their size's log2.
};

}  // namespace hearth::vulkan
