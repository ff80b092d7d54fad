// What a device's actor is opened with, and the backend and memory that it gets from that.
// Private to runtime. Made and replaced by the actor; the token holder's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/memory/make_memory_strategy.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/fusion.hpp>

#include "device_scratch.hpp"
#include "runtime/client/tickets.hpp"

namespace hearth {

class CompletionWaiter;

struct DeviceActorOptions {
  std::int64_t budget_bytes = 0;
  MemoryPooling pooling = MemoryPooling::default_pooling;
  /// Instead of `pooling`, when set.
  std::function<std::unique_ptr<MemoryStrategy>(PageProvider&, std::int64_t)> make_memory = {};
  /// Waits for an asynchronous device; nullptr for an inline one.
  std::shared_ptr<CompletionWaiter> waiter = {};
  Fusion fusion = Fusion::off;
  /// Opens the device's backend once more, for a restart.
  std::function<Result<std::unique_ptr<Backend>>()> reopen = {};
};

/// The backend and its memory. Loans that outlive the actor keep it, so that lent bytes stay mapped
/// until they are given back.
struct DeviceMemory {
  /// Errors: ArgumentError when make_memory gives nothing; what it throws.
  DeviceMemory(std::unique_ptr<Backend> with, const DeviceActorOptions& options);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  /// Host bytes that a device which was given up may still touch: they outlive its backend.
  std::vector<std::variant<std::unique_ptr<UploadTicket>, std::unique_ptr<ReadTicket>>> kept;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<MemoryStrategy> strategy;
  std::unique_ptr<DeviceScratch> scratch;  ///< The backend's kernels take it from the strategy.
};

}  // namespace hearth
