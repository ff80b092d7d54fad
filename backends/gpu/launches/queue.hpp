// A queue of a device: runs batches in order, and counts those that have ended. Each kind of GPU
// device implements it. Threads: owner only, unless a function states otherwise.
// Invariant: batches end in order; each sets the timeline to its value at its end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/result.hpp>

#include "backends/gpu/encoder/device_bytes.hpp"
#include "batch.hpp"

namespace hearth::gpu {

/// Memory of parameters that are too long to lie in a batch.
struct ParameterRing {
  DeviceBytes bytes = {};
  std::int64_t size_bytes = 0;
};

class Queue {
 public:
  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  virtual ~Queue() = default;

  /// Name of the device, for messages. Threads: any.
  [[nodiscard]] virtual const std::string& device_name() const noexcept = 0;
  /// The ring, which the queue owns; queues of copies have none.
  [[nodiscard]] virtual ParameterRing parameter_ring() const noexcept { return {}; }
  /// Errors: those of the driver.
  [[nodiscard]] virtual Result<std::unique_ptr<BatchObjects>> make_objects() = 0;
  /// Begins an empty batch, whose objects are new or were used by an ended batch.
  /// Errors: those of the driver; the batch may begin again.
  [[nodiscard]] virtual Status begin(Batch& batch) = 0;
  /// Records the dispatches so far, ahead of run(). Threads: the owner of the batch.
  virtual void record(Batch& batch) = 0;
  /// Records what is left, and submits the batch. Threads: the owner of the batch.
  /// Errors: device_lost, for this and all later batches.
  [[nodiscard]] virtual Status run(Batch& batch) = 0;
  /// The value up to which batches have ended. Threads: any. Errors: device_lost.
  [[nodiscard]] virtual Result<std::uint64_t> completed() const = 0;
  /// Waits, up to the device's limit, on the thread of an owner that cannot go on before.
  /// Errors: deadline_exceeded; device_lost.
  [[nodiscard]] virtual Status wait_until(std::uint64_t value) const = 0;
  /// Marks the device as lost, because the host has no memory for `call`. Threads: any.
  [[nodiscard]] virtual Error abandon(std::string_view call) const = 0;

  /// Begins to time the dispatches of an open batch.
  virtual void time(Batch& batch) = 0;
  /// Reads the times of a batch that has ended.
  virtual void read_times(Batch& batch) = 0;
  /// Drops the times of a batch that does not run.
  virtual void forget_times(Batch& batch) noexcept = 0;
  /// The times read since the last call.
  [[nodiscard]] virtual std::vector<LaunchTime> take_times() = 0;
};

}  // namespace hearth::gpu
