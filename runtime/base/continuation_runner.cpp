#include <hearth/runtime/base/continuation_runner.hpp>

#include <utility>

#include <fmt/format.h>

namespace hearth {

ContinuationRunner::ContinuationRunner(Executor& executor, ContinuationRunnerOptions options)
    : queue_(make_intrusive<Queue>(executor, options)) {}

ContinuationRunner::~ContinuationRunner() {
  queue_->close();
}

ContinuationRunner::Queue::Queue(Executor& executor, ContinuationRunnerOptions options)
    : executor_(executor), options_(options) {}

void ContinuationRunner::Queue::start() {
  const MutexLock lock(mutex_);
  if (thread_ || is_closed_) {
    return;
  }
  thread_ = std::make_unique<OwnedThread>(
      executor_,
      ThreadOptions{.name = "continuations"},
      OwnedThreadOptions{
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
  // Refused only after close(); then the task dies here, and what it promised is cancelled.
  static_cast<void>(tasks_.push(std::move(task)));
}

void ContinuationRunner::Queue::close() {
  std::unique_ptr<OwnedThread> thread;
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
    thread = std::move(thread_);
  }
  tasks_.close();
  if (thread && !thread->end(Deadline::in(options_.shutdown_limit))) {
    while (tasks_.try_pop()) {
      // Dies here: nobody shall run it any more.
    }
  }
}

}  // namespace hearth
