#include <hearth/runtime/base/continuation_runner.hpp>

namespace hearth {

ContinuationRunner::ContinuationRunner(Executor& executor)
    : queue_(make_intrusive<Queue>(executor)) {}

ContinuationRunner::~ContinuationRunner() {
  queue_->close();
}

ContinuationRunner::Queue::Queue(Executor& executor) : executor_(executor) {}

void ContinuationRunner::Queue::start() {
  const MutexLock lock(mutex_);
  if (thread_ || is_closed_) {
    return;
  }
  thread_ = executor_.spawn({.name = "continuations"}, [this] {
    while (auto task = tasks_.pop(Deadline::never())) {
      (*task)();
    }
  });
}

void ContinuationRunner::Queue::post(UniqueFunction<void()> task) {
  // Refused only after close(); then the task dies here, and what it promised is cancelled.
  static_cast<void>(tasks_.push(std::move(task)));
}

void ContinuationRunner::Queue::close() {
  std::unique_ptr<Joinable> thread;
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
    thread = std::move(thread_);
  }
  tasks_.close();
  if (thread) {
    thread->join();
  }
}

}  // namespace hearth
