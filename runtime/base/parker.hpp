// A Parker is where one thread sleeps and how the others wake it. Everything in the library that
// blocks, blocks here. Owned by its ThreadContext; shared (counted) with the threads that must wake
// the thread, so that a late unpark is harmless. Threads: park() by the owning thread only;
// unpark() by any. Invariants: (1) an unpark is never lost: it ends the park under way or the next
// one; (2) several unparks before a park count as one, and a token may be left over from an earlier
// wait, so a waiter always checks its condition again.
#pragma once

#include <cstdint>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/park_word.hpp>

namespace hearth::detail {

enum class Wake : std::uint8_t {
  unparked,  ///< Someone called unpark().
  deadline,  ///< The deadline passed first.
};

/// A thread that an executor runs as one of many on a single OS thread. Implemented by
/// ManualExecutor.
class LogicalThread {
 public:
  LogicalThread() = default;
  LogicalThread(const LogicalThread&) = delete;
  LogicalThread& operator=(const LogicalThread&) = delete;
  virtual ~LogicalThread() = default;

  /// Lets others run until make_ready() or the deadline.
  virtual void suspend(Deadline deadline) = 0;
  /// Puts a suspended thread back among those that can run.
  virtual void make_ready() noexcept = 0;
  /// Lets others run, staying ready.
  virtual void yield() = 0;
  /// Like yield() when the executor preempts at locks, else nothing.
  virtual void reach_lock() = 0;
};

class Parker final : public RefCounted<Parker> {
 public:
  Parker() noexcept = default;
  explicit Parker(LogicalThread& logical_thread) noexcept : logical_thread_(&logical_thread) {}

  /// Sleeps until someone unparks this thread or the deadline passes.
  /// Threads: owner only, holding no Mutex.
  /// Cost: about 10 ns when a token is there, else a futex wait.
  Wake park(Deadline deadline);

  /// Wakes the thread, or lets its next park return at once.
  /// Threads: any; under the manual executor only its own logical threads.
  /// Cost: one exchange; a system call only when the thread really sleeps.
  void unpark() noexcept;

  /// The logical thread ends without being woken again; later unparks do nothing.
  void abandon() noexcept;

 private:
  void wait_on_futex(Deadline deadline) noexcept;

  ParkWord<StdAtomics> state_;
  LogicalThread* logical_thread_ = nullptr;
};

}  // namespace hearth::detail
