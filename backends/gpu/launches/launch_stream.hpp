// Batches of launches, or of copies, for one queue. Each reaches a value of the queue's timeline at
// its end. A batch is filled while it is open; flush() runs it. Owned by the backend. Threads:
// owner only, except settle() and functions that state otherwise. Invariants: (1) batches run and
// end in order; (2) a batch's objects and parameters are reused only after its end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include <hearth/runtime/base/deadline.hpp>

#include "backends/gpu/encoder/parameter_block.hpp"
#include "batch_recorder.hpp"
#include "hazard_tracker.hpp"
#include "queue.hpp"

namespace hearth::gpu {

struct StreamTerms {
  RecorderThread recorder = {};
  /// Limit of a wait for batches that a thread records.
  std::chrono::nanoseconds wait_limit = kDefaultWait;
};

class LaunchStream final {
 public:
  explicit LaunchStream(std::shared_ptr<Queue> queue, StreamTerms terms = {});
  ~LaunchStream();
  LaunchStream(const LaunchStream&) = delete;
  LaunchStream& operator=(const LaunchStream&) = delete;

  /// Threads: any.
  [[nodiscard]] const Queue& queue() const noexcept { return *queue_; }
  /// The value of the open batch, or of the next one.
  [[nodiscard]] std::uint64_t open_value() const noexcept { return submitted_ + 1; }
  [[nodiscard]] std::uint64_t submitted() const noexcept { return submitted_; }
  [[nodiscard]] bool has_open() const noexcept { return open_ != nullptr; }
  [[nodiscard]] std::uint32_t open_count() const noexcept { return open_count_; }
  /// The value up to which batches have ended. Errors: device_lost.
  [[nodiscard]] Result<std::uint64_t> completed() const { return queue_->completed(); }

  /// Makes the next batch wait for a value of another queue. Requires that no batch is open.
  void wait_for(const Queue& queue, std::uint64_t value);
  /// Begins a launch that touches these bytes, and orders it behind the launches that it depends
  /// on.
  [[nodiscard]] Status begin_launch(std::span<const ByteSpan> reads,
                                    std::span<const ByteSpan> writes);
  /// Adds bytes that the current launch touches from its next dispatch on.
  [[nodiscard]] Status also_touches(std::span<const ByteSpan> reads,
                                    std::span<const ByteSpan> writes);
  /// Adds a dispatch. Dispatches between two barriers run in any order. A launch whose parameters
  /// overflow the ring continues in the next batch, and open_value() rises.
  [[nodiscard]] Status dispatch(KernelHandle kernel, const ParameterBlock& parameters, Grid grid);
  /// Adds a call of a library, with the parameters of Dispatch::call.
  [[nodiscard]] Status dispatch(const LibraryCall& call, const ParameterBlock& parameters);
  /// Makes earlier writes visible to the launch's later dispatches.
  void barrier();
  [[nodiscard]] Status copy(CopyPlace from, CopyPlace to, std::int64_t size_bytes);
  /// Selects the thread that records the open batch, and the next one's dispatches. `here`: the
  /// owner, for a caller that waits for them. `beside`: a recorder thread, if there is one.
  enum class Recording : std::uint8_t { here, beside };
  /// Submits the open batch, behind batches that a thread still records.
  /// Errors: device_lost, if the driver refuses this batch or an earlier one.
  [[nodiscard]] Status flush(Recording recording = Recording::here);
  /// Waits until the queue has all flushed batches, as long as one progresses within the limit.
  /// Threads: any. Errors: deadline_exceeded; device_lost.
  [[nodiscard]] Status settle(std::chrono::nanoseconds limit) { return recorder_->settle(limit); }
  /// True if the queue has all flushed batches, or will never have them. Threads: any.
  [[nodiscard]] bool is_settled() const noexcept { return recorder_->is_idle(); }
  /// True if a batch could not be submitted; its value and later ones are never reached. Complete
  /// only after is_settled(). Threads: any.
  [[nodiscard]] bool has_failed() const noexcept { return recorder_->has_failed(); }
  /// The first error. Requires has_failed(). Threads: any.
  [[nodiscard]] Error failure() const { return recorder_->failure(); }
  /// The last value that the queue will reach. Threads: any.
  [[nodiscard]] std::uint64_t in_queue() const noexcept { return recorder_->submitted(); }
  /// Ends the recorder thread, before this stream is abandoned with memory that a hung queue may
  /// touch.
  void abandon() noexcept { recorder_->abandon(); }

  /// For tests: later submissions never run, as on a hung queue.
  void hang() noexcept { hangs_ = true; }
  /// For tests: runs the dispatches between two barriers in an order drawn from a seed. A device
  /// that runs them one by one then reveals a missing barrier. The shuffle includes a next batch
  /// that begins without a barrier. A batch that no caller waits for yet is held back until the
  /// next flush().
  void shuffle(std::uint64_t seed) {
    shuffle_.emplace(seed);
    is_beside_ = true;
  }
  [[nodiscard]] bool is_shuffled() const noexcept { return shuffle_.has_value(); }
  /// Times later dispatches as the launch with this number; 0: no timing.
  void time_as(std::uint32_t number) noexcept { timed_as_ = number; }
  /// Times of launches whose batches have ended since the last call.
  [[nodiscard]] std::vector<LaunchTime> take_times();

 private:
  /// State of the current launch when a batch begins: `continues` if it has dispatched a part.
  enum class LaunchState : std::uint8_t { none, continues };
  [[nodiscard]] Status open_batch(LaunchState launch = LaunchState::none);
  [[nodiscard]] Status continue_in_next_batch();
  [[nodiscard]] Result<std::unique_ptr<Batch>> take_batch();
  [[nodiscard]] Dispatch& add_dispatch(std::span<const std::byte> parameters);
  /// Recycles batches that have ended.
  [[nodiscard]] Status retire();
  /// Copies the parameters into the ring. The address is valid until the open batch has ended.
  [[nodiscard]] Result<std::uint64_t> store(std::span<const std::byte> parameters);
  [[nodiscard]] Status wait_for_oldest();
  /// Discards a batch that will not run.
  void drop(std::unique_ptr<Batch> batch);
  /// Records the batch here, or hands it to the recorder's thread.
  [[nodiscard]] Status pass_on(Batch& batch, Recording recording);
  [[nodiscard]] Status pass_on_held();
  void mix_dispatches();

  const std::shared_ptr<Queue> queue_;
  const ParameterRing ring_;
  const StreamTerms terms_;
  std::uint64_t submitted_ = 0;
  std::unique_ptr<BatchRecorder> recorder_;  ///< Ends before the batches, which its thread holds.
  std::unique_ptr<Batch> open_;
  std::uint32_t open_count_ = 0;
  /// The thread records the batch's dispatches, at its end. Set when the last batch was long: no
  /// caller waits for the next one.
  bool is_beside_ = false;
  bool has_barrier_ = false;  ///< A barrier stands behind the last dispatch of the open batch.
  std::vector<QueueValue> waits_;
  std::uint32_t timed_as_ = 0;
  std::deque<std::unique_ptr<Batch>> running_;
  std::vector<std::unique_ptr<Batch>> free_;
  HazardTracker hazards_;
  bool hangs_ = false;
  std::optional<std::mt19937_64> shuffle_;
  Batch* held_ = nullptr;  ///< Last batch of running_, while dispatches are shuffled.
  /// Positions in the ring only grow; the place is the position modulo the size.
  std::uint64_t ring_begin_ = 0;
  std::uint64_t ring_end_ = 0;
};

}  // namespace hearth::gpu
