// Host memory that the device's copies reach directly: buffers of cached host memory, sized by
// powers of two. Freed buffers are kept for reuse until trim(): of each size as many as were in use
// at once. Handed-out memory may outlive the backend. Threads: any.
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

#include "backends/gpu/launches/batch.hpp"
#include "backends/vulkan/device/vulkan_device.hpp"

namespace hearth::vulkan {

class PinnedMemory final : public std::enable_shared_from_this<PinnedMemory> {
 public:
  explicit PinnedMemory(std::shared_ptr<const VulkanDevice> device) noexcept
      : device_(std::move(device)) {}
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() = default;

  /// Pinned bytes, or ordinary memory if Vulkan has no more; copies of ordinary memory take longer.
  [[nodiscard]] HostBytes take(std::size_t size) HEARTH_EXCLUDES(mutex_);
  /// Empty for bytes that take() did not return.
  [[nodiscard]] std::optional<gpu::CopyPlace> find(std::span<const std::byte> bytes) const
      HEARTH_EXCLUDES(mutex_);
  /// Bytes in use, and bytes kept for reuse.
  [[nodiscard]] std::int64_t size_bytes() const noexcept HEARTH_EXCLUDES(mutex_);
  /// Frees the unused buffers, and returns their bytes.
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
