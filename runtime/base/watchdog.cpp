#include <hearth/runtime/base/watchdog.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/pending.hpp>

namespace hearth {

Watchdog::Wait::Wait(Watchdog* watchdog,
                     std::string_view subject,
                     std::string_view whom,
                     Deadline deadline)
    : watchdog_(watchdog), subject_(subject), whom_(whom), deadline_(deadline) {
  if (watchdog_ == nullptr) {
    return;
  }
  thread_ = &current_context();
  const MutexLock lock(watchdog_->mutex_);
  previous_ = watchdog_->last_;
  (previous_ != nullptr ? previous_->next_ : watchdog_->first_) = this;
  watchdog_->last_ = this;
}

Watchdog::Wait::~Wait() {
  if (watchdog_ == nullptr) {
    return;
  }
  const MutexLock lock(watchdog_->mutex_);
  (previous_ != nullptr ? previous_->next_ : watchdog_->first_) = next_;
  (next_ != nullptr ? next_->previous_ : watchdog_->last_) = previous_;
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
    text += fmt::format("\n  thread {} (number {}) waits for {}{}{}: {}",
                        wait->thread_->name(),
                        wait->thread_->id().value,
                        wait->subject_,
                        wait->whom_.empty() ? "" : " of ",
                        wait->whom_,
                        time_left(wait->deadline_));
  }
  return text;
}

std::string Watchdog::report(std::string_view subject, const std::shared_ptr<const void>& myself) {
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
    if (!answers[i].wait_for(
            std::max(limit.time() - current_context().clock().now(), Duration::zero()))) {
      answer = "does not answer; " + witnesses[i]->observe();
    } else if (const Status status = answers[i].wait(); !status.has_value()) {
      answer = "has ended";
    } else {
      answer = std::move(answers[i]).get();
    }
    text += fmt::format("\n  {}: {}", witnesses[i]->name, answer);
  }
  return fmt::format("watchdog report: thread {} (number {}) gave up on {}; who waits for whom:{}",
                     current_context().name(),
                     current_context().id().value,
                     subject,
                     text.empty() ? "\n  nobody else waits here" : text);
}

std::string time_left(Deadline deadline) {
  if (deadline.is_never()) {
    return "for ever";
  }
  const std::chrono::duration<double> left =
      std::max(deadline.time() - current_context().clock().now(), Duration::zero());
  return fmt::format("{:.3f} s more", left.count());
}

}  // namespace hearth
