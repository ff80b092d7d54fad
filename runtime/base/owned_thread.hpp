// OwnedThread: a thread that runs code which may not come back (a user's function, a kernel), and
// how its owner ends it: waits for a while, then says who hangs in what, and leaves the thread
// behind. Owned by the code that spawns it. Threads: the owner's. Invariants: (1) whatever the body
// does, end() returns at its deadline; (2) a thread that is left behind is named in the log, once.
// So the body owns what it touches: it may go on without its owner.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/log.hpp>

namespace hearth::detail {

struct OwnedThreadOptions {
  std::string subject;  ///< How the log calls it: "worker 1 on sim:1".
  /// What it is at, as seen from outside: "runs a function". Never waits. Threads: the owner's.
  std::function<std::string()> observe;
  std::chrono::nanoseconds limit = kDefaultWait;  ///< How long the destructor waits for it.
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

  /// Waits until the body has returned and what it owned is gone; at the deadline leaves the thread
  /// behind. Whether it ended. Further calls return at once.
  bool end(Deadline deadline);

 private:
  const OwnedThreadOptions options_;
  const std::unique_ptr<Joinable> thread_;
  bool is_left_behind_ = false;
};

}  // namespace hearth::detail
