// A GPU as the backend sees it: facts, memory, queues, waits for them, losses. Each kind of GPU
// device implements it once. Shared by the parts of a backend.
// Threads: owner only, unless a function states otherwise.
// Invariants: (1) facts never change; (2) no function but wait() and drain() waits for the device.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <hearth/runtime/base/result.hpp>

#include "backends/gpu/encoder/device_limits.hpp"
#include "backends/gpu/encoder/library_product.hpp"
#include "backends/gpu/launches/left_behind.hpp"
#include "backends/gpu/launches/queue.hpp"
#include "backends/gpu/store/kernel_compiler.hpp"
#include "memory_piece.hpp"

namespace hearth::gpu {

struct DeviceFacts {
  std::string name;         ///< "vulkan:0", for messages.
  std::string card;         ///< "NVIDIA H200"
  std::string description;  ///< Card, driver and what it offers.
  std::string fingerprint;  ///< Card and driver version, the key of stored measurements.
  DeviceLimits limits = {};
  std::int64_t memory_bytes = 0;         ///< Memory of MemoryPlace::device for this process.
  std::int64_t largest_piece_bytes = 0;  ///< Limit of one piece of memory.
  bool is_unified = false;               ///< The host sees MemoryPlace::device, at full speed.
};

/// Work of a queue. Queues of different work may run at once.
enum class QueueWork : std::uint8_t { kernels, uploads, downloads };

/// The end of a wait for values of several queues.
enum class WaitFor : std::uint8_t { any, all };

class GpuDevice {
 public:
  GpuDevice() = default;
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;
  virtual ~GpuDevice() = default;

  /// Threads: any.
  [[nodiscard]] virtual const DeviceFacts& facts() const noexcept = 0;
  /// The compiler of the device's kernels, one object.
  [[nodiscard]] virtual std::shared_ptr<KernelCompiler> compiler() const = 0;
  /// The library of the device's maker for products; null: none.
  [[nodiscard]] virtual ProductLibrary* products() const noexcept { return nullptr; }
  /// Errors: those of the driver.
  [[nodiscard]] virtual Result<std::shared_ptr<Queue>> make_queue(QueueWork work) const = 0;
  /// Errors: out_of_memory; those of the driver. Threads: any.
  [[nodiscard]] virtual Result<std::unique_ptr<MemoryPiece>> make_memory(
      std::int64_t size_bytes, MemoryPlace place) const = 0;
  /// Waits until queues of this device reach values. Returns false after `limit`. Threads: any.
  /// Errors: device_lost.
  [[nodiscard]] virtual Result<bool> wait(std::span<const QueueValue> values,
                                          WaitFor how,
                                          std::chrono::nanoseconds limit) const = 0;
  /// Waits without limit for all work, after a loss that only a fault plan caused.
  virtual void drain() const noexcept = 0;

  /// True if the device is lost only for this program: Queue::abandon(). Threads: any.
  [[nodiscard]] virtual bool is_abandoned() const noexcept = 0;
  /// The driver's description of a loss; empty if it has none. Requires that the device is lost.
  /// Threads: any, one at a time.
  [[nodiscard]] virtual std::string fault_text() const = 0;
  /// The reason why results are wrong although no call failed; empty if none is known. The device
  /// then counts as lost. Called for each look at the queues, so it is cheap. Threads: any.
  [[nodiscard]] virtual std::string_view flaw() const noexcept = 0;
  /// The abandoned objects of devices of this kind, which outlive the device.
  [[nodiscard]] virtual AbandonedObjects& abandoned_objects() const noexcept = 0;
};

}  // namespace hearth::gpu
