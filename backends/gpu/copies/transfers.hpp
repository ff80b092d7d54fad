// Copies between the host and the device, a piece at a time. If the host sees the device's memory,
// it copies by itself, at once or when its dependencies have ended. Else the copy queue copies,
// through two rings of host memory, or in one piece if the host's bytes are pinned. Threads:
// upload() and download() owner only; settle() and needs_of() any. Invariants: (1) a download has
// ended only when its bytes are in the caller's memory; (2) memory of a failed call, or of a
// forgotten target, is not touched again; (3) neither upload() nor download() waits for the device.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include <hearth/backends/backend.hpp>
#include <hearth/backends/gpu/staging_options.hpp>
#include <hearth/runtime/base/sync.hpp>

#include "backends/gpu/device/device_pages.hpp"
#include "backends/gpu/device/gpu_device.hpp"
#include "backends/gpu/launches/launch_stream.hpp"
#include "host_copier.hpp"
#include "pinned_memory.hpp"

namespace hearth::gpu {

/// Values that the timelines of ops, uploads and downloads have to reach.
using Needs = std::array<std::uint64_t, 3>;

class Transfers final {
 public:
  /// Errors: out_of_memory; those of the driver.
  [[nodiscard]] static Result<std::unique_ptr<Transfers>> make(
      std::shared_ptr<const GpuDevice> device,
      const LaunchStream& ops,
      const DevicePages& pages,
      const StagingOptions& staging = {});
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  ~Transfers() = default;

  [[nodiscard]] const LaunchStream& uploads() const noexcept { return *uploads_; }
  [[nodiscard]] const LaunchStream& downloads() const noexcept { return *downloads_; }

  /// Implements Backend::host_bytes().
  [[nodiscard]] HostBytes host_bytes(std::size_t size);
  [[nodiscard]] std::int64_t pinned_bytes() const noexcept;
  std::int64_t trim() noexcept;
  /// Implements Backend::upload(). Requires that all of `after` was flushed.
  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        std::span<const TimelinePoint> after);
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          std::span<const TimelinePoint> after);
  void forget_target(std::span<std::byte> target) noexcept HEARTH_EXCLUDES(mutex_);
  /// Implements Backend::newest_copy().
  [[nodiscard]] TimelinePoint newest(std::uint8_t stream) const noexcept;

  /// Copies out the bytes that have arrived. Returns the value up to which all downloads have
  /// ended.
  ///
  /// Errors: device_lost.
  [[nodiscard]] Result<std::uint64_t> settle() HEARTH_EXCLUDES(mutex_) {
    return settle(std::numeric_limits<std::size_t>::max());
  }
  /// Copies out at most one piece, for an owner that has other work.
  [[nodiscard]] Result<std::uint64_t> settle_piece() HEARTH_EXCLUDES(mutex_) {
    return settle(piece_bytes_);
  }
  /// Completes downloads up to this one as far as they read device memory, if the host reads it by
  /// itself. Blocks. Errors: device_lost.
  [[nodiscard]] Status bring_down(std::uint64_t value) HEARTH_EXCLUDES(mutex_);
  /// Timeline values that download `value` needs before it can end.
  [[nodiscard]] Needs needs_of(std::uint64_t value) HEARTH_EXCLUDES(mutex_);
  /// Current values of the queues' timelines.
  [[nodiscard]] Result<Needs> reached() const;

 private:
  struct Download {
    std::uint64_t value = 0;
    Needs needs = {};
    const std::byte* from = nullptr;
    std::span<std::byte> to;
    /// Position of the ring that its end frees; 0: it does not use the ring.
    std::uint64_t ring_end = 0;
  };

  Transfers(std::shared_ptr<const GpuDevice> device,
            const LaunchStream& ops,
            const DevicePages& pages,
            const StagingOptions& staging)
      : device_(std::move(device)),
        ops_(ops),
        pages_(pages),
        ring_bytes_(static_cast<std::uint64_t>(staging.ring_bytes)),
        piece_bytes_(static_cast<std::size_t>(staging.piece_bytes)),
        copier_(staging.threads) {}
  /// The first of these points that has not ended.
  [[nodiscard]] Result<std::optional<TimelinePoint>> first_open(
      std::span<const TimelinePoint> points);
  [[nodiscard]] Status wait_for(LaunchStream& stream, std::span<const TimelinePoint> after);
  [[nodiscard]] Result<CopyPart> write_by_host(std::byte* to,
                                               std::span<const std::byte> from,
                                               std::span<const TimelinePoint> after);
  [[nodiscard]] CopyPart read_by_host(std::span<std::byte> to,
                                      const std::byte* from,
                                      std::span<const TimelinePoint> after);
  [[nodiscard]] Result<CopyPart> bring_from(const CopyPlace& from,
                                            std::size_t size,
                                            const PageBytes& to,
                                            std::span<const TimelinePoint> after);
  [[nodiscard]] Result<CopyPart> bring_to(const CopyPlace& to,
                                          std::size_t size,
                                          const PageBytes& from,
                                          std::span<const TimelinePoint> after);
  [[nodiscard]] Result<CopyPart> stage_up(std::span<const std::byte> from,
                                          const PageBytes& to,
                                          std::span<const TimelinePoint> after);
  [[nodiscard]] Result<CopyPart> stage_down(std::span<std::byte> to,
                                            const PageBytes& from,
                                            std::span<const TimelinePoint> after);
  /// True if the ring has room up to this position; queries the device's progress if necessary.
  [[nodiscard]] Result<bool> has_room_up(std::uint64_t end);
  [[nodiscard]] Result<bool> has_room_down(std::uint64_t end) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t piece_begin(std::uint64_t end, std::uint64_t size) const noexcept;
  /// Adds a download.
  CopyPart add(Download download, std::size_t size) HEARTH_EXCLUDES(mutex_);
  /// Stops after `most_bytes`.
  [[nodiscard]] Result<std::uint64_t> settle(std::size_t most_bytes) HEARTH_EXCLUDES(mutex_);
  /// Copies out the next download, if `reached` covers its needs and bytes are left.
  [[nodiscard]] bool settle_next(const Needs& reached, std::size_t& bytes_left)
      HEARTH_EXCLUDES(mutex_);
  /// The download whose end frees room in the ring.
  [[nodiscard]] std::uint64_t oldest_in_ring() HEARTH_EXCLUDES(mutex_);

  std::shared_ptr<const GpuDevice> device_;
  const LaunchStream& ops_;
  const DevicePages& pages_;
  const std::uint64_t ring_bytes_;
  const std::size_t piece_bytes_;
  HostCopier copier_;
  std::unique_ptr<LaunchStream> uploads_;
  std::unique_ptr<LaunchStream> downloads_;
  std::shared_ptr<PinnedMemory> pinned_;  ///< Null where memory is unified.
  std::unique_ptr<MemoryPiece> up_;    ///< Ring of bytes for uploads; null where memory is unified.
  std::unique_ptr<MemoryPiece> down_;  ///< Ring of bytes for downloads.
  /// End of each batch of uploads in the ring; positions only grow.
  struct RingPiece {
    std::uint64_t value;
    std::uint64_t end;
  };
  std::deque<RingPiece> up_pieces_;
  std::uint64_t up_begin_ = 0;
  std::uint64_t up_end_ = 0;
  std::uint64_t down_end_ = 0;
  std::uint64_t issued_downloads_ = 0;

  hearth::detail::Mutex mutex_;
  std::deque<Download> pending_ HEARTH_GUARDED_BY(mutex_);
  std::uint64_t ended_downloads_ HEARTH_GUARDED_BY(mutex_) = 0;
  std::uint64_t down_begin_ HEARTH_GUARDED_BY(mutex_) = 0;
};

}  // namespace hearth::gpu
