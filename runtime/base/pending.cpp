#include <hearth/runtime/base/pending.hpp>

#include <exception>

namespace hearth {

PendingStateBase::~PendingStateBase() {
  if (options_.helper.release != nullptr) {
    options_.helper.release(options_.helper.object);
  }
}

namespace {
struct Unpark {
  IntrusivePtr<Parker> parker;
  void operator()() const noexcept { parker->unpark(); }
};
}  // namespace

bool PendingStateBase::wait(Deadline deadline, const std::stop_token& stop) {
  schedule_point();
  if (is_ready()) {
    return true;
  }
  if (options_.helper.help != nullptr) {
    // A stop, too, shall be noticed at once.
    const Deadline helps_until = stop.stop_possible() ? Deadline::in(Duration::zero()) : deadline;
    options_.helper.help(options_.helper.object, *this, helps_until);
    if (is_ready()) {
      return true;
    }
  }
  const Watchdog::Wait watched(
      options_.helper.watchdog.get(), subject(), options_.helper.whom, deadline);
  // Counted, as every waker's parker is: a stop may come from another thread after this one has left.
  std::optional<std::stop_callback<Unpark>> on_stop;
  if (stop.stop_possible()) {
    on_stop.emplace(stop, Unpark{IntrusivePtr<Parker>(&current_context().parker())});
  }
  WaitNode node;
  for (Wake wake = Wake::unparked;;) {
    {
      const MutexLock lock(mutex_);
      if (is_ready() || wake == Wake::deadline || stop.stop_requested()) {
        waiters_.remove(node);
        return is_ready();
      }
      waiters_.add(node);
    }
    wake = current_context().parker().park(deadline);
  }
}

Status PendingStateBase::wait_status(Deadline deadline, const std::stop_token& stop) {
  if (!wait(deadline, stop)) {
    if (stop.stop_requested()) {
      return Error{.code = ErrorCode::cancelled,
                   .text = "the wait for " + subject() + " was given up on request",
                   .device = std::string(options_.helper.whom),
                   .location = options_.location};
    }
    return Error{.code = ErrorCode::deadline_exceeded,
                 .text = "the deadline passed while waiting for " + subject(),
                 .device = std::string(options_.helper.whom),
                 .location = options_.location,
                 .report = watchdog() ? watchdog()->report(subject()) : ""};
  }
  return error_;
}

void PendingStateBase::on_ready(IntrusivePtr<ContinuationRunner::Queue> queue,
                                UniqueFunction<void()> task) {
  queue->start();
  {
    const MutexLock lock(mutex_);
    if (!is_ready()) {
      HEARTH_ASSERT(!task_, "a Pending got two continuations");
      queue_ = std::move(queue);
      task_ = std::move(task);
      return;
    }
  }
  queue->post(std::move(task));
}

void PendingStateBase::complete() noexcept {
  IntrusivePtr<ContinuationRunner::Queue> queue;
  UniqueFunction<void()> task;
  for (bool is_first = true;; is_first = false) {
    IntrusivePtr<Parker> parker;
    {
      const MutexLock lock(mutex_);
      if (is_first) {
        // Partner: the load in is_ready(). Under the lock, so that nobody registers after it
        // unseen.
        is_ready_.store(true, std::memory_order_release);
        queue = std::move(queue_);
        task = std::move(task_);
      }
      parker = waiters_.take_first();
    }
    if (!parker) {
      break;
    }
    parker->unpark();
  }
  if (task) {
    queue->post(std::move(task));
  }
}

void PendingStateBase::complete_with_error(ErrorRef error) noexcept {
  HEARTH_ASSERT(error != nullptr, "a promise was given no error");
  error_ = std::move(error);
  complete();
}

void PendingStateBase::cancel() noexcept {
  complete_with_error(std::make_shared<const Error>(Error{
      .code = ErrorCode::cancelled, .text = subject() + " was given up before it was there"}));
}

void detail::throw_empty_pending() {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "Pending: it is empty: never filled, moved from, or already read"});
}

ErrorRef detail::error_of_current_exception() {
  std::string what = "something that is no std::exception";
  try {
    throw;
  } catch (const Exception& exception) {
    return exception.shared_error();
  } catch (const std::exception& exception) {
    what = exception.what();
  } catch (...) {
  }
  return std::make_shared<const Error>(
      Error{.code = ErrorCode::worker_failed, .text = "a continuation threw: " + what});
}

}  // namespace hearth
