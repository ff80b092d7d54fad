// What a Vulkan backend is made of, and what its calls have in common: what a loss is, how a launch
// becomes dispatches, when all has come to rest. Threads: as VulkanBackend; note() and what it
// calls: any.
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

#include "batch_length.hpp"
#include "command_stream.hpp"
#include "device_pages.hpp"
#include "error_cells.hpp"
#include "guards.hpp"
#include "launch_encoder.hpp"
#include "shader_store.hpp"
#include "transfers.hpp"

namespace hearth::vulkan {

inline constexpr ErrorCell kMostCells = 16384;
/// How long the end of a device waits for what was submitted.
inline constexpr std::chrono::seconds kLongestRest{2};

struct VulkanBackend::Parts final : LeftBehind::Thing {
  VulkanOptions options;
  LeftBehind::Owner owner;  ///< The executor's life; empty without one.
  std::shared_ptr<const VulkanDevice> device;
  BackendInfo info;
  std::unique_ptr<ShaderStore> shaders;
  std::unique_ptr<DevicePages> pages;
  std::unique_ptr<CommandStream> ops;
  BatchLength length;
  std::unique_ptr<Transfers> transfers;
  std::unique_ptr<LaunchEncoder> encoder;
  Guards guards;
  bool has_guard_kernel = false;  ///< Made, whether or not the host knows too late what failed.
  Buffer cells;
  std::atomic<bool> is_losing{false};  ///< Somebody saw the loss first, and asks the driver why.
  std::atomic<bool> is_lost{false};
  bool has_rested = false;
  bool hangs = false;         ///< It did not come to rest: what the queue may touch stays.
  std::string why_lost;       ///< What the driver said; written before is_lost.
  std::uint64_t submits = 0;  ///< Launches, for planned faults.
  std::uint64_t known_ops = 0;
  std::vector<ByteSpan> reads;  ///< Of the launch at hand.
  std::vector<ByteSpan> writes;

  [[nodiscard]] Error lost() const {
    return {.code = ErrorCode::device_lost,
            .text = fmt::format(
                "{}: the device is lost{}{}", info.name, why_lost.empty() ? "" : ": ", why_lost),
            .device = info.name};
  }
  /// Remembers a loss, with what the driver says of it.
  [[nodiscard]] Status note(Status status) {
    if (status.has_value() || status.error().code != ErrorCode::device_lost ||
        is_losing.exchange(true, std::memory_order_acq_rel)) {
      return status;
    }
    if (device->is_given_up() && !comes_to_rest(longest_rest())) {
      pages->keep_all();  // what still runs may touch what goes back from here on
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
  /// Whether a driver in software has left a loop early: then the device counts as lost.
  [[nodiscard]] bool has_left_a_loop() {
    if (!shaders->has_left_a_loop()) [[likely]] {
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
  /// A loss of a fault plan: the driver knows nothing of it.
  [[nodiscard]] Status lose(Error error) {
    is_losing.store(true, std::memory_order_release);
    is_lost.store(true, std::memory_order_release);  // partner: has_lost
    return error;
  }
  /// Half of what others wait for at most: who restarts a device waits for that.
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
  /// Whether all that was submitted ends within this time, or has no end any more.
  [[nodiscard]] bool comes_to_rest(std::chrono::nanoseconds within);
  [[nodiscard]] bool has_lost() const noexcept { return is_lost.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t cell_address(ErrorCell cell) const noexcept {
    return cells.address() + sizeof(ErrorCellWords) * std::uint64_t{cell};
  }
  [[nodiscard]] Status flush();
  [[nodiscard]] Status begin_copy();
  [[nodiscard]] Status accept(const Launch& launch);
  [[nodiscard]] Status wait_before(std::span<const TimelinePoint> after) const;
  void clear(ErrorCell cell, OpKind kind);
  [[nodiscard]] Status encode(const Launch& launch);
  [[nodiscard]] Status encode_nothing(const KernelCall& call, LaunchTerms terms);
  [[nodiscard]] bool has_ended(const TimelinePoint& point,
                               const Needs& reached,
                               std::uint64_t downloads) const noexcept {
    return point.value <= (point.stream == kDownloadStream ? downloads : reached[point.stream]);
  }
};

}  // namespace hearth::vulkan
