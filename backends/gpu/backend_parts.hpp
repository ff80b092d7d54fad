// The parts of a GPU backend, and the steps that its calls share: recording a loss, encoding a
// launch as dispatches, waiting for submitted work. Threads: as GpuBackend; observe() and its
// callees: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/copies/transfers.hpp"
#include "backends/gpu/device/device_pages.hpp"
#include "backends/gpu/device/own_scratch.hpp"
#include "backends/gpu/encoder/error_cells.hpp"
#include "backends/gpu/launches/batch_length.hpp"
#include "backends/gpu/launches/guards.hpp"
#include "backends/gpu/launches/launch_encoder.hpp"
#include "backends/gpu/launches/launch_stream.hpp"
#include "backends/gpu/store/kernel_store.hpp"
#include "gpu_backend.hpp"

namespace hearth::gpu {

inline constexpr ErrorCell kMostCells = 16384;
/// Limit of the wait for submitted work when a device closes.
inline constexpr std::chrono::seconds kDrainLimit{2};

struct GpuBackend::Parts final : AbandonedObjects::Object {
  GpuOptions options;
  AbandonedObjects::Owner owner;  ///< Lifetime of the executor; empty without one.
  std::shared_ptr<const GpuDevice> device;
  BackendInfo info;
  const KernelFacts facts = facts_of_rows();
  std::unique_ptr<KernelStore> kernels;
  std::unique_ptr<DevicePages> pages;
  std::unique_ptr<LaunchStream> ops;
  BatchLength length;
  std::unique_ptr<Transfers> transfers;
  std::unique_ptr<OwnScratch> scratch;  ///< Used until use_scratch().
  std::unique_ptr<LaunchEncoder> encoder;
  std::unique_ptr<MemoryPiece> guard_words;
  Guards guards;
  bool has_guard_kernel = false;  ///< The guard kernel is made, even before a launch needs it.
  std::unique_ptr<MemoryPiece> cells;
  /// A thread has seen the loss first, and queries the driver for the cause.
  std::atomic<bool> is_losing{false};
  std::atomic<bool> is_lost{false};
  bool has_drained = false;
  /// Submitted work has not ended in time: memory that the queue may touch is kept.
  bool hangs = false;
  /// The driver's description of the loss, else the first error; written before is_lost.
  std::string why_lost;
  std::uint64_t submits = 0;  ///< Number of launches, for planned faults.
  std::uint64_t known_ops = 0;
  std::vector<ByteSpan> reads;  ///< Bytes that the current launch reads.
  std::vector<ByteSpan> writes;

  /// Makes all parts, for a device and options that are set.
  /// Errors: out_of_memory; those of the device.
  [[nodiscard]] Status open();
  void open_kernels();
  [[nodiscard]] Status open_queues();
  /// Facts of the rows of the kernel table.
  [[nodiscard]] static KernelFacts facts_of_rows() noexcept;
  [[nodiscard]] Error lost() const {
    return {.code = ErrorCode::device_lost,
            .text = fmt::format(
                "{}: the device is lost{}{}", info.name, why_lost.empty() ? "" : ": ", why_lost),
            .device = info.name};
  }
  /// Records a loss, with the driver's description. Returns the status unchanged if it is no loss,
  /// or if another thread recorded the loss first.
  [[nodiscard]] Status observe(Status status) {
    if (status.has_value() || status.error().code != ErrorCode::device_lost ||
        is_losing.exchange(true, std::memory_order_acq_rel)) {
      return status;
    }
    if (device->is_abandoned() && !drains_within(drain_limit())) {
      pages->keep_all();  // running work may still touch memory that is freed from here on
    }
    const std::string fault = device->is_abandoned() ? std::string() : device->fault_text();
    why_lost = fault.empty() ? status.error().text : fault;
    is_lost.store(true, std::memory_order_release);  // partner: has_lost
    if (fault.empty()) {
      return status;
    }
    Error error = status.error();
    error.text = fmt::format("{}: {}", error.text, fault);
    return error;
  }
  /// True if the device reports wrong results (GpuDevice::flaw); it then counts as lost.
  [[nodiscard]] bool has_flaw() {
    const std::string_view flaw = device->flaw();
    if (flaw.empty()) [[likely]] {
      return false;
    }
    if (!is_losing.exchange(true, std::memory_order_acq_rel)) {
      why_lost = flaw;
      is_lost.store(true, std::memory_order_release);  // partner: has_lost
    }
    return true;
  }
  [[nodiscard]] Result<CopyPart> observed(Result<CopyPart> part) {
    static_cast<void>(observe(part.status()));
    return part;
  }
  /// Records the loss of a fault plan, of which the driver has no description.
  [[nodiscard]] Status lose(Error error) {
    is_losing.store(true, std::memory_order_release);
    is_lost.store(true, std::memory_order_release);  // partner: has_lost
    return error;
  }
  /// At most half of the wait limit: a restart of the device waits for this one.
  [[nodiscard]] std::chrono::nanoseconds drain_limit() const noexcept {
    return std::min<std::chrono::nanoseconds>(kDrainLimit, options.wait_limit / 2);
  }
  [[nodiscard]] bool has_ended() noexcept override {
    return options.faults.lost_at_call == 0 && ops->is_settled() &&
           drains_within(std::chrono::nanoseconds(0));
  }
  [[nodiscard]] std::int64_t size_bytes() const noexcept override {
    return pages->allocated_bytes();
  }
  /// Waits up to `within`. Returns true if all submitted work has ended, or can never end.
  [[nodiscard]] bool drains_within(std::chrono::nanoseconds within);
  [[nodiscard]] bool has_lost() const noexcept { return is_lost.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t cell_address(ErrorCell cell) const noexcept {
    return cells->address() + sizeof(ErrorCellWords) * std::uint64_t{cell};
  }
  [[nodiscard]] Status flush();
  [[nodiscard]] Status begin_copy();
  [[nodiscard]] Status accept(const Launch& launch);
  [[nodiscard]] Status wait_before(std::span<const TimelinePoint> after) const;
  void clear(ErrorCell cell, OpKind kind);
  [[nodiscard]] Status encode(const Launch& launch);
  [[nodiscard]] Status encode_nothing(const KernelCall& call, LaunchTerms terms);
  /// One look at points: whether one has ended, else the values that they wait for.
  struct Look {
    bool has_ended = false;
    std::vector<QueueValue> missing = {};
  };
  /// Copies out all downloads that have arrived. Threads: any. Errors: device_lost.
  [[nodiscard]] Result<Look> look(std::span<const TimelinePoint> points) const;
  /// A value that this point, which has not ended, waits for; none if it has come meanwhile.
  [[nodiscard]] std::optional<QueueValue> first_missing(const TimelinePoint& point,
                                                        const Needs& reached) const;
  [[nodiscard]] bool has_ended(const TimelinePoint& point,
                               const Needs& reached,
                               std::uint64_t downloads) const noexcept {
    return point.value <= (point.stream == kDownloadStream ? downloads : reached[point.stream]);
  }
};

}  // namespace hearth::gpu
