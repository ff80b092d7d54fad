// The parts of a Vulkan backend, and the steps that its calls share: recording a loss, encoding a
// launch as dispatches, waiting for submitted work. Threads: as VulkanBackend; note() and its
// callees: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <hearth/backends/vulkan/vulkan_backend.hpp>

#include "backends/gpu/encoder/error_cells.hpp"
#include "backends/gpu/launches/batch_length.hpp"
#include "backends/gpu/launches/guards.hpp"
#include "backends/gpu/launches/launch_encoder.hpp"
#include "backends/gpu/launches/launch_stream.hpp"
#include "backends/gpu/store/kernel_store.hpp"
#include "backends/vulkan/pipelines/pipeline_compiler.hpp"
#include "device_pages.hpp"
#include "own_scratch.hpp"
#include "transfers.hpp"

namespace hearth::vulkan {

inline constexpr ErrorCell kMostCells = 16384;
/// Limit of the wait for submitted work when a device closes.
inline constexpr std::chrono::seconds kLongestRest{2};

struct VulkanBackend::Parts final : gpu::LeftBehind::Thing {
  VulkanOptions options;
  gpu::LeftBehind::Owner owner;  ///< Lifetime of the executor; empty without one.
  std::shared_ptr<const VulkanDevice> device;
  BackendInfo info;
  const KernelFacts facts = facts_of_rows();
  std::shared_ptr<PipelineCompiler> compiler;
  std::unique_ptr<gpu::KernelStore> shaders;
  std::unique_ptr<DevicePages> pages;
  std::unique_ptr<gpu::LaunchStream> ops;
  gpu::BatchLength length;
  std::unique_ptr<Transfers> transfers;
  std::unique_ptr<OwnScratch> scratch;  ///< Used until use_scratch().
  std::unique_ptr<gpu::LaunchEncoder> encoder;
  Buffer guard_words;
  gpu::Guards guards;
  bool has_guard_kernel = false;  ///< The guard kernel is made, even before a launch needs it.
  Buffer cells;
  /// A thread has seen the loss first, and queries the driver for the cause.
  std::atomic<bool> is_losing{false};
  std::atomic<bool> is_lost{false};
  bool has_rested = false;
  /// Submitted work has not ended in time: memory that the queue may touch is kept.
  bool hangs = false;
  std::string why_lost;       ///< The driver's description of the loss; written before is_lost.
  std::uint64_t submits = 0;  ///< Number of launches, for planned faults.
  std::uint64_t known_ops = 0;
  std::vector<gpu::ByteSpan> reads;  ///< Bytes that the current launch reads.
  std::vector<gpu::ByteSpan> writes;

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
  [[nodiscard]] Status note(Status status) {
    if (status.has_value() || status.error().code != ErrorCode::device_lost ||
        is_losing.exchange(true, std::memory_order_acq_rel)) {
      return status;
    }
    if (device->is_given_up() && !comes_to_rest(longest_rest())) {
      pages->keep_all();  // running work may still touch memory that is freed from here on
    }
    why_lost = device->is_given_up() ? status.error().text : device->fault_text();
    is_lost.store(true, std::memory_order_release);  // partner: has_lost
    if (device->is_given_up() || why_lost.empty()) {
      return status;
    }
    Error error = status.error();
    error.text = fmt::format("{}: {}", error.text, why_lost);
    return error;
  }
  /// True if a driver in software has left a loop early; the device then counts as lost.
  [[nodiscard]] bool has_left_a_loop() {
    if (!compiler->has_left_a_loop()) [[likely]] {
      return false;
    }
    if (!is_losing.exchange(true, std::memory_order_acq_rel)) {
      why_lost =
          "a kernel needed more steps than this driver in software lets loops take (65,535), and "
          "what it has computed is wrong; the same op runs on cpu:0, on a GPU, or in smaller "
          "pieces";
      is_lost.store(true, std::memory_order_release);  // partner: has_lost
    }
    return true;
  }
  [[nodiscard]] Result<CopyPart> noted(Result<CopyPart> part) {
    static_cast<void>(note(part.status()));
    return part;
  }
  /// Records the loss of a fault plan, of which the driver has no description.
  [[nodiscard]] Status lose(Error error) {
    is_losing.store(true, std::memory_order_release);
    is_lost.store(true, std::memory_order_release);  // partner: has_lost
    return error;
  }
  /// At most half of the wait limit: a restart of the device waits for this one.
  [[nodiscard]] std::chrono::nanoseconds longest_rest() const noexcept {
    return std::min<std::chrono::nanoseconds>(kLongestRest, options.wait_limit / 2);
  }
  [[nodiscard]] bool has_ended() noexcept override {
    return options.faults.lost_at_call == 0 && ops->is_settled() &&
           comes_to_rest(std::chrono::nanoseconds(0));
  }
  [[nodiscard]] std::int64_t size_bytes() const noexcept override {
    return pages->allocated_bytes();
  }
  /// Waits up to `within`. Returns true if all submitted work has ended, or can never end.
  [[nodiscard]] bool comes_to_rest(std::chrono::nanoseconds within);
  [[nodiscard]] bool has_lost() const noexcept { return is_lost.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t cell_address(ErrorCell cell) const noexcept {
    return cells.address() + sizeof(gpu::ErrorCellWords) * std::uint64_t{cell};
  }
  [[nodiscard]] Status flush();
  [[nodiscard]] Status begin_copy();
  [[nodiscard]] Status accept(const Launch& launch);
  [[nodiscard]] Status wait_before(std::span<const TimelinePoint> after) const;
  void clear(ErrorCell cell, OpKind kind);
  [[nodiscard]] Status encode(const Launch& launch);
  [[nodiscard]] Status encode_nothing(const KernelCall& call, gpu::LaunchTerms terms);
  [[nodiscard]] bool has_ended(const TimelinePoint& point,
                               const Needs& reached,
                               std::uint64_t downloads) const noexcept {
    return point.value <= (point.stream == kDownloadStream ? downloads : reached[point.stream]);
  }
};

}  // namespace hearth::vulkan
