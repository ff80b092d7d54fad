// Commands for one queue in batches, each with the value of a timeline that it reaches at its end.
// A batch is gathered while it is open, and recorded and submitted at flush(). Owned by the
// backend; owner only, but for semaphore(), settle() and what is said there. Invariants: (1)
// batches run and end in order; (2) a batch's command buffer and parameters are used again only
// when it has ended.
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

#include "batch_recorder.hpp"
#include "hazard_tracker.hpp"

namespace hearth::vulkan {

class CommandStream final {
 public:
  enum class Work : std::uint8_t { kernels, uploads, downloads };

  /// Errors: what Vulkan refuses.
  [[nodiscard]] static Result<std::unique_ptr<CommandStream>> make(
      std::shared_ptr<const VulkanDevice> device,
      Work work,
      VkPipelineLayout layout,
      RecorderThread recorder = {});
  ~CommandStream();
  CommandStream(const CommandStream&) = delete;
  CommandStream& operator=(const CommandStream&) = delete;

  /// Threads: any.
  [[nodiscard]] VkSemaphore semaphore() const noexcept { return semaphore_; }
  /// The value of the batch that is open, or of the next.
  [[nodiscard]] std::uint64_t open_value() const noexcept { return submitted_ + 1; }
  [[nodiscard]] std::uint64_t submitted() const noexcept { return submitted_; }
  [[nodiscard]] bool has_open() const noexcept { return open_ != nullptr; }
  [[nodiscard]] std::uint32_t open_count() const noexcept { return open_count_; }
  /// The value up to which batches have ended. Errors: device_lost.
  [[nodiscard]] Result<std::uint64_t> completed() const;

  /// The open batch begins only behind this value of another timeline. Requires that nothing was
  /// recorded in it yet.
  void wait_for(VkSemaphore semaphore, std::uint64_t value);
  /// A launch comes that touches these bytes: orders it behind what it depends on.
  [[nodiscard]] Status begin_launch(std::span<const ByteSpan> reads,
                                    std::span<const ByteSpan> writes);
  /// The launch at hand touches these too, from its next dispatch on.
  [[nodiscard]] Status also_touches(std::span<const ByteSpan> reads,
                                    std::span<const ByteSpan> writes);
  /// Between two barriers dispatches run in any order. A launch whose parameters the ring cannot
  /// hold goes on in the next batch: open_value() rises.
  [[nodiscard]] Status dispatch(VkPipeline pipeline, const ParameterBlock& parameters, Grid grid);
  /// What the launch at hand dispatches behind it sees what was written before.
  void barrier();
  [[nodiscard]] Status copy(VkBuffer from,
                            std::int64_t from_offset_bytes,
                            VkBuffer to,
                            std::int64_t to_offset_bytes,
                            std::int64_t size_bytes);
  /// Who records the open batch, and the next one's dispatches: the owner, in time for who waits
  /// for them, or a thread beside it, where there is one.
  enum class Recording : std::uint8_t { here, beside };
  /// Submits the open batch; behind those that a thread still has, by that thread.
  /// Errors: device_lost, whatever Vulkan refuses it or one before it for.
  [[nodiscard]] Status flush(Recording recording = Recording::here);
  /// Waits until the queue has all batches that were flushed, unless none of them comes on within
  /// the limit. Threads: any. Errors: deadline_exceeded; device_lost.
  [[nodiscard]] Status settle(std::chrono::nanoseconds limit) { return recorder_->settle(limit); }
  /// Whether the queue has all of them, or never will. Threads: any.
  [[nodiscard]] bool is_settled() const noexcept { return recorder_->is_idle(); }
  /// Whether a batch could not be submitted: no value from there on comes. Threads: any; behind
  /// is_settled(), if that is asked, too.
  [[nodiscard]] bool has_failed() const noexcept { return recorder_->has_failed(); }
  /// Requires has_failed(). Threads: any.
  [[nodiscard]] Error failure() const { return recorder_->failure(); }
  /// The last value that the queue will reach. Threads: any.
  [[nodiscard]] std::uint64_t in_queue() const noexcept { return recorder_->submitted(); }
  /// Before this is left behind, with what a queue that hangs may still touch.
  void leave_behind() noexcept { recorder_->leave_behind(); }

  /// From here on nothing that is submitted ever runs: a queue that hangs, for tests.
  void hang() noexcept { hangs_ = true; }
  /// From here on the dispatches between two barriers run in an order that is drawn from a seed, so
  /// that a device which runs one after the other shows where a barrier is missing. That includes
  /// neighbouring batches of which the second has none at its begin: one that nobody waits for yet
  /// is held back until the next flush().
  void shuffle(std::uint64_t seed) {
    shuffle_.emplace(seed);
    is_beside_ = true;
  }
  /// Where shaders leave word that a loop was left (LoopWatch), before anything is recorded.
  void watch_loops(std::uint64_t word) noexcept { loop_word_ = word; }
  [[nodiscard]] bool is_shuffled() const noexcept { return shuffle_.has_value(); }
  /// What is dispatched from here on is timed as the launch with this number; 0: it is not timed.
  void time_as(std::uint32_t number) noexcept { timed_as_ = number; }
  /// Of the launches in batches that have ended since the last call.
  [[nodiscard]] std::vector<LaunchTime> take_times();

 private:
  CommandStream(std::shared_ptr<const VulkanDevice> device,
                Work work,
                VkPipelineLayout layout) noexcept
      : device_(std::move(device)), work_(work), layout_(layout), clock_(*device_) {}
  /// Whether a launch has dispatched a part when a batch begins.
  enum class LaunchAtHand : std::uint8_t { none, goes_on };
  [[nodiscard]] Status open_batch(LaunchAtHand launch = LaunchAtHand::none);
  [[nodiscard]] Status go_on_in_next_batch();
  [[nodiscard]] Result<std::unique_ptr<Batch>> take_batch();
  /// Takes back the batches that have ended.
  [[nodiscard]] Status retire();
  /// The address of a copy of the parameters, good until the open batch has ended.
  [[nodiscard]] Result<std::uint64_t> store(std::span<const std::byte> parameters);
  [[nodiscard]] Status wait_for_oldest();
  /// The batch will not run.
  void drop(std::unique_ptr<Batch> batch);
  /// To the recorder: by its thread, or here.
  [[nodiscard]] Status pass_on(Batch& batch, Recording recording);
  [[nodiscard]] Status pass_on_held();
  void mix_dispatches();

  std::shared_ptr<const VulkanDevice> device_;
  Work work_;
  VkPipelineLayout layout_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  std::uint64_t submitted_ = 0;
  std::unique_ptr<BatchRecorder> recorder_;
  std::unique_ptr<Batch> open_;
  std::uint32_t open_count_ = 0;
  /// Its dispatches are recorded at its end, by the thread: the last one was long, so what comes is
  /// not waited for.
  bool is_beside_ = false;
  bool has_barrier_ = false;  ///< Behind the last dispatch of the open batch.
  std::vector<SemaphoreValue> waits_;
  BatchClock clock_;
  std::uint32_t timed_as_ = 0;
  std::deque<std::unique_ptr<Batch>> running_;
  std::vector<std::unique_ptr<Batch>> free_;
  HazardTracker hazards_;
  bool hangs_ = false;
  std::optional<std::mt19937_64> shuffle_;
  Batch* held_ = nullptr;         ///< The last of running_, where dispatches are shuffled.
  std::uint64_t loop_word_ = 0;   ///< 0: nowhere.
  Buffer ring_;                   ///< Of parameters too long for push constants.
  std::uint64_t ring_begin_ = 0;  ///< Positions only grow; modulo the size they are places.
  std::uint64_t ring_end_ = 0;
};

}  // namespace hearth::vulkan
