// OwnedThread: a thread for code that may not return (a user's function, a kernel). Its owner waits
// for it with a limit, then logs the thread and its activity, and abandons it.
// Owned by the code that spawns it. Threads: the owner's.
// Invariants: (1) whatever the body does, end() returns at its deadline; (2) an abandoned thread is
// logged once. So the body owns what it touches: it may outlive its owner.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/log.hpp>

namespace hearth::detail {

struct OwnedThreadOptions {
  std::string subject;  ///< Name in the log: "worker 1 on sim:1".
  /// Returns the thread's activity as seen from outside: "runs a function". Never waits. Threads:
  /// the owner's.
  std::function<std::string()> observe;
  std::chrono::nanoseconds limit = kDefaultWait;  ///< Limit of the destructor's wait.
  Log* log = nullptr;  ///< Outlives this; nullptr: the standard error stream.
};

class OwnedThread final {
 public:
  /// Errors: those of Executor::spawn.
  OwnedThread(Executor& executor,
              ThreadOptions thread,
              OwnedThreadOptions options,
              UniqueFunction<void()> body);
  OwnedThread(const OwnedThread&) = delete;
  OwnedThread& operator=(const OwnedThread&) = delete;
  ~OwnedThread();

  /// Waits until the body has returned and its captures are destroyed; abandons the thread at the
  /// deadline. Returns whether it ended. Further calls return at once.
  bool end(Deadline deadline);

 private:
  const OwnedThreadOptions options_;
  const std::unique_ptr<Joinable> thread_;
  bool is_detached_ = false;
};

}  // namespace hearth::detail
