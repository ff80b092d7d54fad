#include <hearth/runtime/base/watchdog.hpp>

#include <new>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <hearth/runtime/base/pending.hpp>

namespace hearth::detail {
namespace {

std::string describe(const ThreadContext& thread) {
  return fmt::format("thread {} (number {})", thread.name(), thread.id().value);
}

}  // namespace

void trace_wait(Trace& trace,
                TimePoint begin,
                std::string_view subject,
                SourceLoc location) noexcept {
  std::string_view name;
  try {
    name = trace.keep(subject);
  } catch (const std::bad_alloc&) {
    name = "wait";  // no memory for the subject's name; the event still records the time
  }
  trace.add({.name = name,
             .device = {},
             .begin = begin,
             .end = current_context().clock().now(),
             .location = location,
             .track = TraceTrack::waits});
}

Watchdog::Wait::Wait(Watchdog* watchdog,
                     std::string_view subject,
                     std::string_view awaited_name,
                     Deadline deadline)
    : watchdog_(watchdog), subject_(subject), awaited_name_(awaited_name), deadline_(deadline) {
  if (watchdog_ == nullptr) {
    return;
  }
  thread_ = &current_context();
  if (watchdog_->trace_.is_on()) [[unlikely]] {
    traced_from_ = thread_->clock().now();
  }
  const MutexLock lock(watchdog_->mutex_);
  previous_ = watchdog_->last_;
  (previous_ != nullptr ? previous_->next_ : watchdog_->first_) = this;
  watchdog_->last_ = this;
}

Watchdog::Wait::~Wait() {
  if (watchdog_ == nullptr) {
    return;
  }
  if (traced_from_) [[unlikely]] {
    trace_wait(watchdog_->trace_, *traced_from_, subject_, {});
  }
  const MutexLock lock(watchdog_->mutex_);
  (previous_ != nullptr ? previous_->next_ : watchdog_->first_) = next_;
  (next_ != nullptr ? next_->previous_ : watchdog_->last_) = previous_;
}

void Watchdog::Wait::renew(Deadline deadline) {
  if (watchdog_ == nullptr) {
    return;
  }
  const MutexLock lock(watchdog_->mutex_);
  deadline_ = deadline;
}

std::shared_ptr<const void> Watchdog::watch(Witness witness) {
  auto kept = std::make_shared<Witness>(std::move(witness));
  const MutexLock lock(mutex_);
  std::erase_if(witnesses_, [](const auto& each) { return each.expired(); });
  witnesses_.push_back(kept);
  return kept;
}

std::string Watchdog::waits() {
  std::string text;
  const MutexLock lock(mutex_);
  for (const Wait* wait = first_; wait != nullptr; wait = wait->next_) {
    text += fmt::format("\n  {} waits for {}{}{}: {}",
                        describe(*wait->thread_),
                        wait->subject_,
                        wait->awaited_name_.empty() ? "" : " of ",
                        wait->awaited_name_,
                        time_left(wait->deadline_));
  }
  return text;
}

void Watchdog::attach_report(Error& error, std::string subject) {
  if (makes_reports_) {
    error.report = Report(report(subject));
    return;
  }
  error.report = Report(
      [watchdog = IntrusivePtr<Watchdog>(this),
       waiter = describe(current_context()),
       subject = std::move(subject)] { return watchdog->report_of(waiter, subject, nullptr); });
}

std::string Watchdog::report(std::string_view subject, const std::shared_ptr<const void>& myself) {
  return report_of(describe(current_context()), subject, myself);
}

std::string Watchdog::report_of(const std::string& waiter,
                                std::string_view subject,
                                const std::shared_ptr<const void>& myself) {
  std::string text = waits();
  std::vector<std::shared_ptr<Witness>> witnesses;
  {
    const MutexLock lock(mutex_);
    for (const std::weak_ptr<Witness>& each : witnesses_) {
      if (std::shared_ptr<Witness> witness = each.lock(); witness && witness != myself) {
        witnesses.push_back(std::move(witness));
      }
    }
  }
  std::vector<Pending<std::string>> answers;
  for (const std::shared_ptr<Witness>& witness : witnesses) {
    Promise<std::string> promise;
    answers.push_back(promise.pending());
    witness->ask(std::move(promise));
  }
  const Deadline limit = Deadline::in(kAnswerLimit);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    std::string answer;
    if (!PendingAccess::is_ready_by(answers[i], limit)) {
      answer = fmt::format("{}; no answer within {}", witnesses[i]->observe(), kAnswerLimit);
    } else if (const Status status = answers[i].wait(); !status.has_value()) {
      answer = "has ended";
    } else {
      answer = std::move(answers[i]).get();
    }
    text += fmt::format("\n  {}: {}", witnesses[i]->name, answer);
  }
  return fmt::format("watchdog report: {} stopped waiting for {}; open waits:{}",
                     waiter,
                     subject,
                     text.empty() ? "\n  none" : text);
}

std::string time_left(Deadline deadline) {
  if (deadline.is_never()) {
    return "for ever";
  }
  const std::chrono::duration<double> left = deadline.left();
  return fmt::format("{:.3f} s more", left.count());
}

}  // namespace hearth::detail
