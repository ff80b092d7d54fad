// Runs batches on a queue: records a batch, which is a list, as commands of the driver, and submits
// it. The owner does so at once, or a thread does while the owner fills the next batch. A dispatch
// with its barrier takes the host 1.0 to 1.5 us in NVIDIA's driver, two thirds of the cost of a
// small launch. Owned by a launch stream. Threads: owner only, unless a function states otherwise.
// Invariants: (1) batches are submitted in order; (2) no batch is submitted behind a failed one;
// (3) a batch that was handed over belongs to the thread until done() reaches its value; (4) while
// the thread holds a batch, the owner submits nothing on any queue. Several queues may be one, and
// a driver may let one thread at a time submit to a queue.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/owned_thread.hpp>

#include "queue.hpp"

namespace hearth::gpu {

/// The thread that may record beside the owner.
struct RecorderThread {
  hearth::detail::Executor* executor = nullptr;  ///< Null: no thread. Outlives the recorder.
  hearth::detail::Log* log = nullptr;      ///< Receives a line when the thread does not return.
  std::function<void()> before_each = {};  ///< Runs before each batch, on the thread, for tests.
};

class BatchRecorder final {
 public:
  BatchRecorder(std::shared_ptr<Queue> queue, RecorderThread thread);
  BatchRecorder(const BatchRecorder&) = delete;
  BatchRecorder& operator=(const BatchRecorder&) = delete;
  /// Waits for the thread, which has no jobs left.
  ~BatchRecorder();

  /// Records and submits the batch. Requires is_idle().
  /// Errors: device_lost, if the driver refuses this batch or an earlier one.
  [[nodiscard]] Status record(Batch& batch);
  /// Passes the batch to the thread, which starts with the first batch. Returns false if no thread
  /// could be started.
  [[nodiscard]] bool hand_over(Batch& batch);
  /// True if every batch that was handed over is finished. Threads: any.
  [[nodiscard]] bool is_idle() const noexcept {
    return done() >= handed_over_.load(std::memory_order_acquire);  // partner: hand_over
  }
  /// The value up to which batches belong to the owner again, submitted or not. Threads: any.
  [[nodiscard]] std::uint64_t done() const noexcept;
  /// The last value that the queue will reach. Threads: any.
  [[nodiscard]] std::uint64_t submitted() const noexcept;
  /// True if a batch failed; the device then counts as lost. Covers batches that were handed over
  /// only after is_idle(). Threads: any.
  [[nodiscard]] bool has_failed() const noexcept;
  /// The first error. Requires has_failed(). Threads: any.
  [[nodiscard]] Error failure() const;
  /// Waits until the queue has every batch that was handed over. Fails if no batch progresses
  /// within the limit; further calls then do not wait until one does. Threads: any.
  /// Errors: deadline_exceeded; failure().
  [[nodiscard]] Status settle(std::chrono::nanoseconds limit);
  /// Ends the thread, or abandons it with the objects that it uses. Afterwards only const functions
  /// may be called, and settle() where is_idle().
  void abandon() noexcept;

 private:
  struct State;
  struct Job;
  struct Thread;

  const std::shared_ptr<State> state_;
  RecorderThread terms_;
  std::unique_ptr<Thread> thread_;
  std::atomic<std::uint64_t> handed_over_{0};
  std::atomic<bool> hangs_{false};  ///< The last settle() exceeded its limit.
};

}  // namespace hearth::gpu
