// From a batch that is a list to the driver's commands, and into its queue: at once by the owner,
// or by a thread while the owner goes on with the next batch. A dispatch with its barrier takes the
// host 1.0 to 1.5 us in NVIDIA's driver, two thirds of all that a small launch takes. Owned by a
// command stream. Threads: owner only, but for what is said there.
// Invariants: (1) batches are submitted in their order; (2) behind one that failed none is; (3) a
// batch that was handed over is the thread's until done() has reached its value; (4) while the
// thread has any the owner submits nothing, here or elsewhere: queues may be one, and Vulkan lets
// one thread at a time submit to it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <hearth/backends/codegen/glsl_prelude.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/owned_thread.hpp>

#include "batch_clock.hpp"
#include "kernel_encoder.hpp"
#include "vulkan_device.hpp"

namespace hearth::vulkan {

struct Dispatch {
  VkPipeline pipeline;
  Grid grid;
  bool is_behind_barrier;  ///< It sees what those before it have written.
  std::uint32_t timed_as;  ///< Launch::timed_as.
  std::uint32_t parameter_bytes;
  std::array<std::byte, kPushBytes> parameters;
};

struct SemaphoreValue {
  VkSemaphore semaphore;
  std::uint64_t value;
};

/// Commands that begin and end together. What is no dispatch is in `commands` from the start.
struct Batch {
  VkCommandPool pool = VK_NULL_HANDLE;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  std::uint64_t value = 0;           ///< Of the timeline, at its end.
  std::uint64_t parameters_end = 0;  ///< Of the ring, when it has ended.
  BatchQueries queries = {};
  std::vector<SemaphoreValue> waits;
  std::vector<Dispatch> dispatches;
  std::size_t recorded = 0;  ///< So many of them are in `commands`.
  VkPipeline bound = VK_NULL_HANDLE;
  bool hangs = false;  ///< It never runs, for tests.
};

/// Who may record beside the owner.
struct RecorderThread {
  hearth::detail::Executor* executor = nullptr;  ///< Null: nobody. Outlives the recorder.
  hearth::detail::Log* log = nullptr;            ///< Of a thread that does not come back.
  std::function<void()> before_each = {};        ///< Of its batches, on the thread, for tests.
};

class BatchRecorder final {
 public:
  struct Target {
    std::shared_ptr<const VulkanDevice> device;
    VkQueue queue;
    VkSemaphore semaphore;    ///< Its timeline.
    VkPipelineLayout layout;  ///< Of kernels.
    bool is_kernels;          ///< Or copies.
  };

  BatchRecorder(Target target, RecorderThread thread);
  BatchRecorder(const BatchRecorder&) = delete;
  BatchRecorder& operator=(const BatchRecorder&) = delete;
  /// Waits for the thread, which has nothing left to do.
  ~BatchRecorder();

  /// Records what the owner's batch has so far, which then need not be done at its end.
  void record_dispatches(Batch& batch) const;
  /// Records and submits it. Requires is_idle().
  /// Errors: device_lost, whatever Vulkan refuses it or one before it for.
  [[nodiscard]] Status record(Batch& batch);
  /// The thread does so; it starts with the first one. False: none could be started.
  [[nodiscard]] bool hand_over(Batch& batch);
  /// Whether nothing that was handed over is unfinished. Threads: any.
  [[nodiscard]] bool is_idle() const noexcept {
    return done() >= handed_over_.load(std::memory_order_acquire);  // partner: hand_over
  }
  /// Up to this value batches are the owner's again, whether or not they were submitted. Threads:
  /// any.
  [[nodiscard]] std::uint64_t done() const noexcept;
  /// The last value that the queue will reach. Threads: any.
  [[nodiscard]] std::uint64_t submitted() const noexcept;
  /// Whether a batch failed: the device counts as lost. Threads: any; ask for is_idle() first, if
  /// what was handed over is to be in the answer.
  [[nodiscard]] bool has_failed() const noexcept;
  /// Requires has_failed(). Threads: any.
  [[nodiscard]] Error failure() const;
  /// Waits until the queue has all that was handed over, unless no batch comes on within the limit;
  /// and not again while none does. Threads: any.
  /// Errors: deadline_exceeded; failure().
  [[nodiscard]] Status settle(std::chrono::nanoseconds limit);
  /// Before what the thread uses is left behind: ends it, or leaves it behind, too. Then only what
  /// is const may be called, and settle() where is_idle().
  void leave_behind() noexcept;

 private:
  struct State;
  struct Job;
  struct Thread;

  const std::shared_ptr<State> state_;
  RecorderThread terms_;
  std::unique_ptr<Thread> thread_;
  std::atomic<std::uint64_t> handed_over_{0};
  std::atomic<bool> hangs_{false};  ///< The last settle() was too long.
};

/// What is recorded behind it sees what was written before it; for kernels, or for copies.
void record_barrier(const VulkanDevice& device, VkCommandBuffer commands, bool is_kernels);

}  // namespace hearth::vulkan
