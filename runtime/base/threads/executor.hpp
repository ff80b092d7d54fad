// The executor seam: every thread of the library (actors, workers, loaders, continuations) is
// spawned here. A Runtime receives one: ThreadExecutor in programs, ManualExecutor in tests that
// step the system.
// Threads: spawn() from any thread of that executor, and from outside. Invariant: a body runs with
// a ThreadContext of its own, whose attachments are destroyed before join() returns.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/base/unique_function.hpp>

namespace hearth::detail {

struct ThreadOptions {
  std::string name;             ///< For logs, debuggers and deadlock reports.
  std::vector<int> cores = {};  ///< Cores that the thread may run on; empty = any.
};

/// A spawned thread. The destructor joins, unless it was detached.
class Joinable {
 public:
  Joinable() = default;
  Joinable(const Joinable&) = delete;
  Joinable& operator=(const Joinable&) = delete;
  virtual ~Joinable() = default;

  /// Waits until the body has returned, or until the deadline. Returns whether the body has
  /// returned. Further calls return at once when it has.
  [[nodiscard]] virtual bool join(Deadline deadline) = 0;
  /// Waits without limit, for bodies that are sure to return; OwnedThread is for all others.
  void join() { static_cast<void>(join(Deadline::never())); }
  /// Detaches the thread, for threads that do not return. The thread is never joined, and all that
  /// it uses must outlive it.
  virtual void detach() = 0;
};

class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  /// Starts a thread. The body must not throw.
  ///
  /// Errors: OutOfMemory if the system has no thread, or no memory for its stack.
  [[nodiscard]] virtual std::unique_ptr<Joinable> spawn(ThreadOptions options,
                                                        UniqueFunction<void()> body) = 0;
  /// Returns whether threads are stepped one at a time: then kernels run serially and time is
  /// virtual.
  [[nodiscard]] virtual bool is_manual() const noexcept = 0;
  [[nodiscard]] virtual Clock& clock() noexcept = 0;

  /// Expires with the executor. For objects that may be used after it and must detect that.
  [[nodiscard]] std::weak_ptr<const void> life() const noexcept { return life_; }

 private:
  const std::shared_ptr<const void> life_ = std::make_shared<char>();
};

}  // namespace hearth::detail
