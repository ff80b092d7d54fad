#include <hearth/runtime/base/pending.hpp>

#include <hearth/runtime/base/fiber_mark.hpp>
#include <hearth/runtime/base/host_kernel_scope.hpp>
#include <hearth/runtime/base/progress_limit.hpp>

#include <algorithm>
#include <exception>

#include <fmt/format.h>

namespace hearth::detail {

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

std::string PendingStateBase::subject() const {
  switch (options_.then_count) {
    case 0:
      return options_.subject;
    case 1:
      return options_.subject + ", then";
    default:
      return options_.subject + ", then (" + std::to_string(options_.then_count) + " times)";
  }
}

PendingOptions PendingStateBase::options_of_then() const {
  const PendingHelper& mine = options_.helper;
  PendingOptions options{.subject = options_.subject,
                         .helper = {.watchdog = mine.watchdog, .limit = mine.limit},
                         .location = options_.location,
                         .then_count = options_.then_count + 1};
  if (mine.retain != nullptr) {
    mine.retain(mine.object);
    options.helper = mine;
    options.helper.help = nullptr;  // the runner takes the last step
  }
  return options;
}

std::uint64_t PendingStateBase::progress() const noexcept {
  return options_.helper.progress != nullptr ? options_.helper.progress(options_.helper.object) : 0;
}

bool PendingStateBase::is_ready_with_help(Deadline deadline, const std::stop_token& stop) {
  if (options_.helper.object != nullptr || !options_.helper.awaited_name.empty()) {
    require_no_host_kernel(options_.subject);
  }
  require_no_fibers(options_.subject);
  if (options_.helper.help != nullptr) {
    // A stop request ends the wait at once, so the helper gets no time then.
    const Deadline helps_until =
        stop.stop_possible() ? Deadline::in(std::chrono::nanoseconds::zero()) : deadline;
    Watchdog* const watchdog = options_.helper.watchdog.get();
    const bool is_traced = watchdog != nullptr && watchdog->trace().is_on();
    const TimePoint begin = is_traced ? current_context().clock().now() : TimePoint();
    options_.helper.help(options_.helper.object, *this, helps_until);
    if (is_traced) [[unlikely]] {
      trace_wait(watchdog->trace(), begin, subject(), options_.location);
    }
  }
  return is_ready();
}

bool PendingStateBase::wait(Deadline deadline, const std::stop_token& stop) {
  schedule_point();
  if (is_ready() || is_ready_with_help(deadline, stop)) {
    return true;
  }
  const std::string subject = this->subject();
  const Watchdog::Wait watched(
      options_.helper.watchdog.get(), subject, options_.helper.awaited_name, deadline);
  return park_until(deadline, stop);
}

bool PendingStateBase::wait_by_default(const std::stop_token& stop) {
  schedule_point();
  const Deadline end = options_.helper.work_ends;
  // The helper continues as long as there is work, which means progress, so no other deadline is
  // needed. Avoids a clock read, which costs a twentieth of a round trip.
  if (is_ready() || is_ready_with_help(end, stop)) {
    return true;
  }
  ProgressLimit limit(options_.helper.limit, progress());
  const std::string subject = this->subject();
  Watchdog::Wait watched(options_.helper.watchdog.get(),
                         subject,
                         options_.helper.awaited_name,
                         std::min(limit.deadline(), end));
  while (!park_until(std::min(limit.next_check(), end), stop)) {
    if (stop.stop_requested() || end.has_passed() || limit.has_expired(progress())) {
      return is_ready();
    }
    watched.renew(std::min(limit.deadline(), end));
  }
  return true;
}

bool PendingStateBase::park_until(Deadline deadline, const std::stop_token& stop) {
  // Reference-counted: a stop may arrive from another thread after this one has left.
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
  return wait(deadline, stop) ? read_status() : wait_error(stop);
}

Status PendingStateBase::wait_status_by_default(const std::stop_token& stop) {
  return wait_by_default(stop) ? read_status() : wait_error(stop);
}

Status PendingStateBase::peek_status(Deadline deadline) {
  return wait(deadline) ? Status(error_) : wait_error({});
}

Status PendingStateBase::peek_status_by_default() {
  return wait_by_default() ? Status(error_) : wait_error({});
}

Status PendingStateBase::read_status() const {
  if (error_) {
    mark_read(*error_);
  }
  return error_;
}

Error PendingStateBase::wait_error(const std::stop_token& stop) const {
  Error error{.code = ErrorCode::deadline_exceeded,
              .text = "the deadline passed while waiting for " + subject(),
              .device = std::string(options_.helper.awaited_name),
              .location = options_.location};
  if (stop.stop_requested()) {
    error.code = ErrorCode::cancelled;
    error.text = "the wait for " + subject() + " was cancelled";
    return error;
  }
  if (options_.helper.observe != nullptr) {
    const std::string seen = options_.helper.observe(options_.helper.object);
    error.text += seen.empty() ? "" : fmt::format("; {}: {}", options_.helper.awaited_name, seen);
  }
  if (options_.helper.watchdog) {
    options_.helper.watchdog->attach_report(error, subject());
  }
  return error;
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
        // Partner: the load in is_ready(). Stored under the lock, so that no waiter registers after
        // it unnoticed.
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
  // For an op's error (which has a lane) the device has already decided whether it must be read.
  const IntrusivePtr<Watchdog>& watchdog = options_.helper.watchdog;
  const bool is_new = watchdog && error->stream == 0;
  error_ = is_new ? watchdog->failures().enter(std::move(error)) : std::move(error);
  complete();
}

void PendingStateBase::cancel() noexcept {
  complete_with_error(std::make_shared<const Error>(Error{
      .code = ErrorCode::cancelled, .text = subject() + " was abandoned before it had a result"}));
}

void throw_empty_pending() {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "Pending: it is empty: never filled, moved from, or already read"});
}

ErrorRef error_of_current_exception() {
  std::string what = "something that is no std::exception";
  try {
    throw;
  } catch (const Exception& exception) {
    mark_unread(exception.error());
    return exception.shared_error();
  } catch (const std::exception& exception) {
    what = exception.what();
  } catch (...) {
  }
  return std::make_shared<const Error>(
      Error{.code = ErrorCode::worker_failed, .text = "a continuation threw: " + what});
}

}  // namespace hearth::detail
