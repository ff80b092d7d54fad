#include "batch_recorder.hpp"

#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/sync.hpp>

namespace hearth::gpu {
namespace {

/// Limit of the wait for an idle thread to end.
constexpr std::chrono::seconds kLongestEnd{10};

}  // namespace

// ---- state of owner and thread ----

/// Shared ownership: a thread that does not return from the driver keeps the state alive.
struct BatchRecorder::State {
  explicit State(std::shared_ptr<Queue> its_queue) : queue(std::move(its_queue)) {}

  /// Records and submits the batch, unless an earlier one failed. Publishes the outcome.
  void take(Batch& batch) noexcept;
  void fail(Error error) noexcept;

  const std::shared_ptr<Queue> queue;
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> submitted{0};
  std::atomic<bool> has_failed{false};
  mutable hearth::detail::Mutex mutex;
  Error failure HEARTH_GUARDED_BY(mutex);
};

void BatchRecorder::State::take(Batch& batch) noexcept {
  const std::uint64_t value = batch.value;
  if (!has_failed.load(std::memory_order_acquire)) {  // partner: fail
    Status status;
    try {
      status = queue->run(batch);
    } catch (const std::exception&) {  // no memory for the lists
      status = queue->abandon("recording a batch");
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
                       fmt::format("the thread that records for {}", state->queue->device_name()),
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

BatchRecorder::BatchRecorder(std::shared_ptr<Queue> queue, RecorderThread thread)
    : state_(std::make_shared<State>(std::move(queue))), terms_(std::move(thread)) {}

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
    state_->fail(state_->queue->abandon("handing over a batch"));
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
                                       state_->queue->device_name()),
                   .device = state_->queue->device_name()};
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

}  // namespace hearth::gpu
