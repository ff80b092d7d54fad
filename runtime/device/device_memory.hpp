// What a device's actor is opened with, and the backend and memory that it gets from that.
// Private to runtime. Made and replaced by the actor; the token holder's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <hearth/backends/backend.hpp>
#include <hearth/memory/make_memory_strategy.hpp>
#include <hearth/runtime/device.hpp>

#include "device_scratch.hpp"

namespace hearth {

struct DeviceActorOptions {
  std::int64_t budget_bytes = 0;
  MemoryPooling pooling = MemoryPooling::default_pooling;
  /// Instead of `pooling`, when set.
  std::function<std::unique_ptr<MemoryStrategy>(PageProvider&, std::int64_t)> make_memory = {};
  /// Opens the device's backend once more, for a restart.
  std::function<Result<std::unique_ptr<Backend>>()> reopen = {};
};

/// The backend and its memory. Loans that outlive the actor keep it, so that lent bytes stay mapped
/// until they are given back.
struct DeviceMemory {
  /// Errors: ArgumentError when make_memory gives nothing; what it throws.
  DeviceMemory(std::unique_ptr<Backend> with, const DeviceActorOptions& options);

  std::unique_ptr<Backend> backend;
  std::unique_ptr<MemoryStrategy> strategy;
  std::unique_ptr<DeviceScratch> scratch;  ///< The backend's kernels take it from the strategy.
};

}  // namespace hearth
