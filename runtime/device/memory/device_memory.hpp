// Options of a device's actor, and the backend and memory that the actor creates from them. Private
// to runtime. Created and replaced by the actor; touched by the token holder only.
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
class Picks;

struct DeviceActorOptions {
  std::int64_t budget_bytes = 0;
  MemoryPooling pooling = MemoryPooling::default_pooling;
  /// Creates the memory strategy; replaces `pooling` when set.
  std::function<std::unique_ptr<MemoryStrategy>(PageProvider&, std::int64_t)> make_memory = {};
  /// Waits for an asynchronous device; nullptr for an inline one.
  std::shared_ptr<CompletionWaiter> waiter = {};
  Fusion fusion = Fusion::off;
  std::shared_ptr<Picks> picks = {};  ///< nullptr: kernels follow their backend's rules.
  /// Opens the device's backend again for a restart.
  std::function<Result<std::unique_ptr<Backend>>()> reopen = {};
};

/// The backend and its memory. Loans that outlive the actor hold it, so that lent bytes stay mapped
/// until they are returned.
struct DeviceMemory {
  /// Errors: ArgumentError if make_memory returns null; any exception of make_memory.
  DeviceMemory(std::unique_ptr<Backend> with, const DeviceActorOptions& options);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  /// Host bytes that an abandoned device may still access: they outlive its backend.
  std::vector<std::variant<std::unique_ptr<UploadTicket>, std::unique_ptr<ReadTicket>>> kept;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<MemoryStrategy> strategy;
  /// Scratch memory of the backend's kernels, taken from the strategy.
  std::unique_ptr<DeviceScratch> scratch;
};

}  // namespace hearth
