// ContinuationRunner: the thread that runs `then` continuations, so that the thread that fulfils a
// result never runs user code. Owned by a Runtime. Its thread starts with the first continuation.
// Threads: post() from any; construction and destruction by the owner. Invariant: continuations run
// one at a time, in the order in which they were posted.
#pragma once

#include <cstddef>
#include <memory>

#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/owned_thread.hpp>

namespace hearth {

struct ContinuationRunnerOptions {
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;  ///< How long the destructor waits.
  detail::Log* log =
      nullptr;  ///< Hears of a thread that is left behind; nullptr: the standard error stream.
};

class ContinuationRunner final {
 public:
  /// The executor and the log outlive the runner.
  explicit ContinuationRunner(detail::Executor& executor, ContinuationRunnerOptions options = {});
  ContinuationRunner(const ContinuationRunner&) = delete;
  ContinuationRunner& operator=(const ContinuationRunner&) = delete;
  /// Runs what was posted, then ends the thread. At the limit a continuation that does not return
  /// is left behind with its thread, so it owns what it touches; those behind it are dropped, and
  /// their results become `cancelled`.
  ~ContinuationRunner();

  /// Where continuations are handed in. Results keep it, so that one that is fulfilled after the
  /// runner's end is dropped rather than run (its own result becomes `cancelled`).
  class Queue final : public RefCounted<Queue> {
   public:
    Queue(detail::Executor& executor, ContinuationRunnerOptions options);
    /// Makes sure that the thread runs. Errors: those of Executor::spawn.
    void start() HEARTH_EXCLUDES(mutex_);
    /// Never waits for room and never runs `task` on the calling thread. start() has been called
    /// before. Once the runner has ended, the task dies, which may cancel the next one's wait, and
    /// so on: one after the other, however many there are.
    void post(UniqueFunction<void()> task);
    /// Refuses later tasks and waits until the thread has run the earlier ones, or the limit is
    /// over.
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
