// ContinuationRunner: the thread that runs `then` continuations, so that the thread that fulfils a
// result never runs user code.
// Owned by a Runtime. Its thread starts with the first continuation. Threads: post() from any;
// construction and destruction by the owner. Invariant: continuations run one at a time, in the
// order in which they were posted.
#pragma once

#include <cstddef>
#include <memory>

#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/owned_thread.hpp>

namespace hearth {

struct ContinuationRunnerOptions {
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;  ///< Limit of the destructor's wait.
  detail::Log* log =
      nullptr;  ///< Receives a line about an abandoned thread; nullptr: the standard error stream.
};

class ContinuationRunner final {
 public:
  /// Lifetime: the executor and the log outlive the runner.
  explicit ContinuationRunner(detail::Executor& executor, ContinuationRunnerOptions options = {});
  ContinuationRunner(const ContinuationRunner&) = delete;
  ContinuationRunner& operator=(const ContinuationRunner&) = delete;
  /// Runs the posted continuations, then ends the thread. At the limit, a continuation that does
  /// not return is abandoned with its thread, so it must own what it touches. The continuations
  /// behind it are dropped, and their results become `cancelled`.
  ~ContinuationRunner();

  /// Queue of the continuations. Results keep it, so a result that is fulfilled after the runner's
  /// end finds it closed: its continuation is dropped and becomes `cancelled`.
  class Queue final : public RefCounted<Queue> {
   public:
    Queue(detail::Executor& executor, ContinuationRunnerOptions options);
    /// Starts the thread if necessary.
    ///
    /// Errors: those of Executor::spawn.
    void start() HEARTH_EXCLUDES(mutex_);
    /// Appends a task. Never waits for room and never runs `task` on the calling thread. Requires
    /// an earlier start(). After the runner's end the task is destroyed, which may cancel further
    /// continuations in a chain. These are destroyed in sequence, without recursion.
    void post(UniqueFunction<void()> task);
    /// Closes the queue and waits until the thread has run the earlier tasks, or until the limit.
    void close() HEARTH_EXCLUDES(mutex_);

   private:
    static void drop(UniqueFunction<void()> task);

    detail::Executor& executor_;
    const ContinuationRunnerOptions options_;
    detail::Mailbox<UniqueFunction<void()>> tasks_;
    detail::Mutex mutex_;
    std::unique_ptr<detail::OwnedThread> thread_ HEARTH_GUARDED_BY(mutex_);
    bool is_closed_ HEARTH_GUARDED_BY(mutex_) = false;
  };

  [[nodiscard]] const IntrusivePtr<Queue>& queue() const noexcept { return queue_; }

 private:
  IntrusivePtr<Queue> queue_;
};

}  // namespace hearth
