// Copies between the host and the device. Where the host sees the device's memory it copies by
// itself, at once or when what it needs has ended; else with the copy queue, through two rings of
// host memory where the host's bytes are not pinned. Threads: upload() and download() owner only;
// settle() and needs_of() any. Invariants: (1) a download has ended when its bytes are in the
// caller's memory, not before; (2) the memory of a call that has failed is touched no more.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/sync.hpp>

#include "command_stream.hpp"
#include "device_pages.hpp"
#include "pinned_memory.hpp"

namespace hearth::vulkan {

/// How far the timelines of ops, uploads and downloads have to be.
using Needs = std::array<std::uint64_t, 3>;

class Transfers final {
 public:
  /// Errors: out_of_memory; what Vulkan refuses.
  [[nodiscard]] static Result<std::unique_ptr<Transfers>> make(
      std::shared_ptr<const VulkanDevice> device,
      const CommandStream& ops,
      const DevicePages& pages);
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  ~Transfers() = default;

  [[nodiscard]] const CommandStream& uploads() const noexcept { return *uploads_; }
  [[nodiscard]] const CommandStream& downloads() const noexcept { return *downloads_; }

  /// As Backend's.
  [[nodiscard]] HostBytes host_bytes(std::size_t size);
  [[nodiscard]] std::int64_t pinned_bytes() const noexcept;
  std::int64_t trim() noexcept;
  /// As Backend's. Requires that all of `after` was flushed.
  [[nodiscard]] Result<TimelinePoint> upload(std::byte* to,
                                             std::span<const std::byte> from,
                                             std::span<const TimelinePoint> after);
  [[nodiscard]] Result<TimelinePoint> download(std::span<std::byte> to,
                                               const std::byte* from,
                                               std::span<const TimelinePoint> after);
  /// As Backend's newest_copy().
  [[nodiscard]] TimelinePoint newest(std::uint8_t stream) const noexcept;

  /// Copies out what has come down, and says up to which download all have ended.
  ///
  /// Errors: device_lost.
  [[nodiscard]] Result<std::uint64_t> settle() HEARTH_EXCLUDES(mutex_);
  /// Downloads up to this one need the device's bytes no more, where the host reads those by
  /// itself. Blocks. Errors: device_lost.
  [[nodiscard]] Status bring_down(std::uint64_t value) HEARTH_EXCLUDES(mutex_);
  /// What the timelines of the queues must reach before download `value` can end.
  [[nodiscard]] Needs needs_of(std::uint64_t value) HEARTH_EXCLUDES(mutex_);
  /// How far the timelines of the queues are.
  [[nodiscard]] Result<Needs> reached() const;

 private:
  struct Download {
    std::uint64_t value = 0;
    Needs needs = {};
    const std::byte* from = nullptr;
    std::span<std::byte> to;
    std::uint64_t ring_end = 0;  ///< Of the ring, when it has been copied out; 0: not from there.
  };

  Transfers(std::shared_ptr<const VulkanDevice> device,
            const CommandStream& ops,
            const DevicePages& pages) noexcept
      : device_(std::move(device)), ops_(ops), pages_(pages) {}
  [[nodiscard]] Result<bool> have_ended(std::span<const TimelinePoint> points);
  [[nodiscard]] Status wait_for(CommandStream& stream, std::span<const TimelinePoint> after);
  [[nodiscard]] Status stage_up(const PageBytes& to,
                                std::span<const std::byte> from,
                                std::span<const TimelinePoint> after);
  [[nodiscard]] Result<std::uint64_t> bring_to(const PinnedMemory::Place& to,
                                               std::size_t size,
                                               const PageBytes& from,
                                               std::span<const TimelinePoint> after);
  [[nodiscard]] Result<std::uint64_t> stage_down(std::span<std::byte> to,
                                                 const PageBytes& from,
                                                 std::span<const TimelinePoint> after);
  void add(Download download) HEARTH_EXCLUDES(mutex_);
  /// The bytes of the downloads after this one are nobody's any more.
  void forget_targets(std::uint64_t behind) HEARTH_EXCLUDES(mutex_);

  std::shared_ptr<const VulkanDevice> device_;
  const CommandStream& ops_;
  const DevicePages& pages_;
  std::unique_ptr<CommandStream> uploads_;
  std::unique_ptr<CommandStream> downloads_;
  std::shared_ptr<PinnedMemory> pinned_;  ///< Null where memory is unified.
  Buffer up_;    ///< Ring of bytes on their way to the device; empty where memory is unified.
  Buffer down_;  ///< And from there.
  /// Where each batch of uploads ends in the ring; positions only grow.
  struct RingPiece {
    std::uint64_t value;
    std::uint64_t end;
  };
  std::deque<RingPiece> up_pieces_;
  std::uint64_t up_begin_ = 0;
  std::uint64_t up_end_ = 0;
  std::uint64_t down_end_ = 0;
  std::uint64_t issued_downloads_ = 0;

  Mutex mutex_;
  std::deque<Download> pending_ HEARTH_GUARDED_BY(mutex_);
  std::uint64_t ended_downloads_ HEARTH_GUARDED_BY(mutex_) = 0;
  std::uint64_t down_begin_ HEARTH_GUARDED_BY(mutex_) = 0;
};

}  // namespace hearth::vulkan
