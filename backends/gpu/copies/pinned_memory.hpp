// Host memory that the device's copies reach directly: pieces of cached host memory, sized by
// powers of two. Freed pieces are kept for reuse until trim(): of each size as many as were in use
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

#include "backends/gpu/device/gpu_device.hpp"

namespace hearth::gpu {

class PinnedMemory final : public std::enable_shared_from_this<PinnedMemory> {
 public:
  PinnedMemory() = default;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() = default;

  /// Pinned bytes, or ordinary memory if the driver has no more; copies of ordinary memory take
  /// longer.
  [[nodiscard]] HostBytes take(const GpuDevice& device, std::size_t size) HEARTH_EXCLUDES(mutex_);
  /// Empty for bytes that take() did not return.
  [[nodiscard]] std::optional<CopyPlace> find(std::span<const std::byte> bytes) const
      HEARTH_EXCLUDES(mutex_);
  /// Bytes in use, and bytes kept for reuse.
  [[nodiscard]] std::int64_t size_bytes() const noexcept HEARTH_EXCLUDES(mutex_);
  /// Frees the unused pieces, and returns their bytes.
  std::int64_t trim() noexcept HEARTH_EXCLUDES(mutex_);

 private:
  using Pieces = std::vector<std::unique_ptr<MemoryPiece>>;

  static constexpr std::uint32_t kLeastLog = 16;  ///< 64 KiB

  [[nodiscard]] std::int64_t free_bytes() const noexcept HEARTH_REQUIRES(mutex_);
  void release(const std::byte* first) noexcept HEARTH_EXCLUDES(mutex_);

  mutable hearth::detail::Mutex mutex_;
  /// By their first byte.
  std::map<const std::byte*, std::unique_ptr<MemoryPiece>> held_ HEARTH_GUARDED_BY(mutex_);
  std::array<Pieces, 64> free_ HEARTH_GUARDED_BY(mutex_);  ///< By their size's log2.
};

}  // namespace hearth::gpu
