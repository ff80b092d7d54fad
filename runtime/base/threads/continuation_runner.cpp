#include <hearth/runtime/base/continuation_runner.hpp>

#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hearth {

ContinuationRunner::ContinuationRunner(detail::Executor& executor,
                                       ContinuationRunnerOptions options)
    : queue_(make_intrusive<Queue>(executor, options)) {}

ContinuationRunner::~ContinuationRunner() {
  queue_->close();
}

ContinuationRunner::Queue::Queue(detail::Executor& executor, ContinuationRunnerOptions options)
    : executor_(executor), options_(options) {}

void ContinuationRunner::Queue::start() {
  const detail::MutexLock lock(mutex_);
  if (thread_ || is_closed_) {
    return;
  }
  thread_ = std::make_unique<detail::OwnedThread>(
      executor_,
      detail::ThreadOptions{.name = "continuations"},
      detail::OwnedThreadOptions{
          .subject = "the thread of continuations",
          .observe = [this] { return fmt::format("runs one; {} more wait", tasks_.size()); },
          .limit = options_.shutdown_limit,
          .log = options_.log},
      [queue = IntrusivePtr<Queue>(this)] {
        while (auto task = queue->tasks_.pop(Deadline::never())) {
          (*task)();
        }
      });
}

void ContinuationRunner::Queue::post(UniqueFunction<void()> task) {
  // Fails only after close(). The task then dies here, which cancels its promise. Never push(): it
  // reads the clock and may yield, and the caller may be a token holder that fulfils a promise.
  if (tasks_.try_push(std::move(task)) != detail::MailboxPush::accepted) {
    drop(std::move(task));
  }
}

// Destroys a task, which cancels its promise. The promise's own continuation is then dropped from
// inside that destruction, so it is queued until the first task is destroyed.
void ContinuationRunner::Queue::drop(UniqueFunction<void()> task) {
  std::vector<UniqueFunction<void()>>*& dying = detail::current_context().tasks_to_destroy();
  if (dying != nullptr) {
    dying->push_back(std::move(task));
    return;
  }
  std::vector<UniqueFunction<void()>> tasks;
  dying = &tasks;
  for (tasks.push_back(std::move(task)); !tasks.empty();) {
    const UniqueFunction<void()> next = std::move(tasks.back());
    tasks.pop_back();
  }
  dying = nullptr;
}

void ContinuationRunner::Queue::close() {
  std::unique_ptr<detail::OwnedThread> thread;
  {
    const detail::MutexLock lock(mutex_);
    is_closed_ = true;
    thread = std::move(thread_);
  }
  tasks_.close();
  if (thread && !thread->end(Deadline::in(options_.shutdown_limit))) {
    while (auto task = tasks_.try_pop()) {
      drop(std::move(*task));
    }
  }
}

}  // namespace hearth
