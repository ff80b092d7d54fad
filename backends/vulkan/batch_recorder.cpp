#include "batch_recorder.hpp"

#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/sync.hpp>

#include "backends/vulkan/pipelines/pipeline_compiler.hpp"

namespace hearth::vulkan {
namespace {

/// Limit of the wait for an idle thread to end.
constexpr std::chrono::seconds kLongestEnd{10};

VkPipelineStageFlags stage_of(bool is_kernels) noexcept {
  return is_kernels ? VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT : VK_PIPELINE_STAGE_TRANSFER_BIT;
}

// Lets the host read the batch's writes once its value is reached.
void barrier_for_host(const VulkanDevice& device, VkCommandBuffer commands, bool is_kernels) {
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = is_kernels ? VK_ACCESS_SHADER_WRITE_BIT : VK_ACCESS_TRANSFER_WRITE_BIT;
  memory.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  device.api().vkCmdPipelineBarrier(commands,
                                    stage_of(is_kernels),
                                    VK_PIPELINE_STAGE_HOST_BIT,
                                    0,
                                    1,
                                    &memory,
                                    0,
                                    nullptr,
                                    0,
                                    nullptr);
}

}  // namespace

void record_barrier(const VulkanDevice& device, VkCommandBuffer commands, bool is_kernels) {
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = is_kernels ? VK_ACCESS_SHADER_WRITE_BIT : VK_ACCESS_TRANSFER_WRITE_BIT;
  memory.dstAccessMask = is_kernels ? VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT
                                    : VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  device.api().vkCmdPipelineBarrier(
      commands, stage_of(is_kernels), stage_of(is_kernels), 0, 1, &memory, 0, nullptr, 0, nullptr);
}

// ---- state of owner and thread ----

/// Shared ownership: a thread that does not return from the driver keeps the state alive.
struct BatchRecorder::State {
  explicit State(Target its_target) : target(std::move(its_target)) {}

  void record_dispatches(Batch& batch) const;
  [[nodiscard]] Status submit(Batch& batch) const;
  /// Records and submits the batch, unless an earlier one failed. Publishes the outcome.
  void take(Batch& batch) noexcept;
  void fail(Error error) noexcept;

  const Target target;
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> submitted{0};
  std::atomic<bool> has_failed{false};
  mutable hearth::detail::Mutex mutex;
  Error failure HEARTH_GUARDED_BY(mutex);
};

void BatchRecorder::State::record_dispatches(Batch& batch) const {
  const DeviceApi& api = target.device->api();
  for (; batch.recorded < batch.dispatches.size(); ++batch.recorded) {
    const Dispatch& each = batch.dispatches[batch.recorded];
    BatchClock::next(
        *target.device, batch.commands, batch.queries, each.timed_as, each.is_behind_barrier);
    if (each.is_behind_barrier) {
      record_barrier(*target.device, batch.commands, target.is_kernels);
    }
    if (each.kernel != batch.bound) {
      api.vkCmdBindPipeline(
          batch.commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_of(each.kernel));
      batch.bound = each.kernel;
    }
    if (each.parameter_bytes > 0) {
      api.vkCmdPushConstants(batch.commands,
                             target.layout,
                             VK_SHADER_STAGE_COMPUTE_BIT,
                             0,
                             each.parameter_bytes,
                             each.parameters.data());
    }
    api.vkCmdDispatch(batch.commands, each.grid.x, each.grid.y, each.grid.z);
  }
}

// Phases: dispatches; the barrier for the host; the queue.
Status BatchRecorder::State::submit(Batch& batch) const {
  const VulkanDevice& device = *target.device;
  const DeviceApi& api = device.api();
  const bool is_kernels = target.is_kernels;
  record_dispatches(batch);
  barrier_for_host(device, batch.commands, is_kernels);
  BatchClock::end(device, batch.commands, batch.queries);
  VkResult result = api.vkEndCommandBuffer(batch.commands);
  if (result != VK_SUCCESS) {
    return device.abandon("vkEndCommandBuffer", result);
  }
  std::vector<VkSemaphore> semaphores;
  std::vector<std::uint64_t> values;
  for (const SemaphoreValue& wait : batch.waits) {
    semaphores.push_back(wait.semaphore);
    values.push_back(wait.value);
  }
  const std::vector<VkPipelineStageFlags> stages(semaphores.size(), stage_of(is_kernels));
  VkTimelineSemaphoreSubmitInfo timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  timeline.waitSemaphoreValueCount = static_cast<std::uint32_t>(values.size());
  timeline.pWaitSemaphoreValues = values.data();
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &batch.value;
  VkSubmitInfo work{};
  work.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  work.pNext = &timeline;
  work.waitSemaphoreCount = static_cast<std::uint32_t>(semaphores.size());
  work.pWaitSemaphores = semaphores.data();
  work.pWaitDstStageMask = stages.data();
  work.commandBufferCount = 1;
  work.pCommandBuffers = &batch.commands;
  work.signalSemaphoreCount = 1;
  work.pSignalSemaphores = &target.semaphore;
  result = batch.hangs ? VK_SUCCESS : api.vkQueueSubmit(target.queue, 1, &work, VK_NULL_HANDLE);
  if (result != VK_SUCCESS) {
    return device.abandon("vkQueueSubmit", result);
  }
  return {};
}

void BatchRecorder::State::take(Batch& batch) noexcept {
  const std::uint64_t value = batch.value;
  if (!has_failed.load(std::memory_order_acquire)) {  // partner: fail
    Status status;
    try {
      status = submit(batch);
    } catch (const std::exception&) {  // no memory for the lists
      status = target.device->abandon("recording a batch", VK_ERROR_OUT_OF_HOST_MEMORY);
    }
    if (status.has_value()) {
      submitted.store(value, std::memory_order_release);  // partner: submitted()
    } else {
      fail(status.error());
    }
  }
  done.store(value, std::memory_order_release);  // partner: done()
}

// Keeps the first failure.
void BatchRecorder::State::fail(Error error) noexcept {
  const hearth::detail::MutexLock lock(mutex);
  if (!has_failed.load(std::memory_order_relaxed)) {
    failure = std::move(error);
    has_failed.store(true, std::memory_order_release);  // partner: has_failed()
  }
}

/// A batch, or a promise that is kept when its turn comes.
struct BatchRecorder::Job {
  Batch* batch = nullptr;
  std::optional<Promise<void>> reached = {};
};

struct BatchRecorder::Thread {
  using Jobs = hearth::detail::Mailbox<Job>;

  Thread(const std::shared_ptr<State>& state, const RecorderThread& terms)
      : thread(*terms.executor,
               hearth::detail::ThreadOptions{.name = "record"},
               hearth::detail::OwnedThreadOptions{
                   .subject =
                       fmt::format("the thread that records for {}", state->target.device->name()),
                   .observe = [] { return std::string("is in the driver"); },
                   .limit = kLongestEnd,
                   .log = terms.log},
               [state, all = jobs, before_each = terms.before_each] {
                 while (std::optional<Job> job = all->pop(Deadline::never())) {
                   if (job->batch != nullptr) {
                     if (before_each) {
                       before_each();
                     }
                     state->take(*job->batch);
                   }
                   if (job->reached) {
                     job->reached->set_value();
                   }
                 }
               }) {}

  const std::shared_ptr<Jobs> jobs = std::make_shared<Jobs>();
  hearth::detail::OwnedThread thread;
};

// ---- owner side ----

BatchRecorder::BatchRecorder(Target target, RecorderThread thread)
    : state_(std::make_shared<State>(std::move(target))), terms_(std::move(thread)) {}

BatchRecorder::~BatchRecorder() {
  if (thread_ != nullptr) {
    thread_->jobs->close();
    thread_->thread.end(Deadline::in(kLongestEnd));
  }
}

std::uint64_t BatchRecorder::done() const noexcept {
  return state_->done.load(std::memory_order_acquire);  // partner: take
}

std::uint64_t BatchRecorder::submitted() const noexcept {
  return state_->submitted.load(std::memory_order_acquire);  // partner: take
}

bool BatchRecorder::has_failed() const noexcept {
  return state_->has_failed.load(std::memory_order_acquire);  // partner: fail
}

Error BatchRecorder::failure() const {
  const hearth::detail::MutexLock lock(state_->mutex);
  return state_->failure;
}

void BatchRecorder::record_dispatches(Batch& batch) const {
  state_->record_dispatches(batch);
}

Status BatchRecorder::record(Batch& batch) {
  state_->take(batch);
  return has_failed() ? Status(failure()) : Status();
}

// If the system gives no thread, the owner records this and all later batches.
bool BatchRecorder::hand_over(Batch& batch) {
  if (terms_.executor == nullptr || terms_.executor->is_manual()) {
    return false;
  }
  if (thread_ == nullptr) {
    try {
      thread_ = std::make_unique<Thread>(state_, terms_);
    } catch (const std::exception&) {
      terms_.executor = nullptr;
      return false;
    }
  }
  const std::uint64_t value = batch.value;
  try {
    // the mailbox is unbounded
    static_cast<void>(thread_->jobs->push({.batch = &batch, .reached = {}}));
  } catch (const std::exception&) {
    state_->fail(
        state_->target.device->abandon("handing over a batch", VK_ERROR_OUT_OF_HOST_MEMORY));
    return true;
  }
  // Publishes thread_ too, which settle() reads on another thread.
  handed_over_.store(value, std::memory_order_release);  // partner: is_idle
  return true;
}

Status BatchRecorder::settle(std::chrono::nanoseconds limit) {
  while (!is_idle()) {
    const std::uint64_t before = done();
    Promise<void> reached{PendingOptions{.subject = "batches that are being recorded"}};
    const Pending<void> all = reached.pending();
    static_cast<void>(thread_->jobs->push({.batch = nullptr, .reached = std::move(reached)}));
    const bool hung = hangs_.load(std::memory_order_acquire);  // partner: below
    const Deadline deadline = Deadline::in(hung ? std::chrono::nanoseconds(0) : limit);
    if (all.wait({.deadline = deadline}).has_value()) {
      break;
    }
    if (done() == before) {
      hangs_.store(true, std::memory_order_release);  // partner: the next wait
      return Error{.code = ErrorCode::deadline_exceeded,
                   .text = fmt::format("{}: its driver does not return from recording commands",
                                       state_->target.device->name()),
                   .device = state_->target.device->name()};
    }
  }
  hangs_.store(false, std::memory_order_release);  // partner: the next wait
  return has_failed() ? Status(failure()) : Status();
}

// An idle thread needs a moment to end; a busy one gets no time.
void BatchRecorder::abandon() noexcept {
  if (thread_ != nullptr) {
    thread_->jobs->close();
    thread_->thread.end(is_idle() ? Deadline::in(kLongestEnd)
                                  : Deadline::in(std::chrono::nanoseconds(0)));
  }
}

}  // namespace hearth::vulkan
