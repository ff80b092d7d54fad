// A Parker is where one thread sleeps and where other threads wake it. All blocking in the library
// goes through a Parker.
// Owned by its ThreadContext. Shared (counted) with the threads that must wake the thread, so that
// a late unpark is harmless. Threads: park() by the owning thread only; unpark() by any.
// Invariants: (1) an unpark is never lost: it ends the current park or the next one; (2) several
// unparks before a park count as one, and a token may remain from an earlier wait, so a waiter
// always rechecks its condition.
#pragma once

#include <cstdint>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/park_word.hpp>

namespace hearth::detail {

enum class Wake : std::uint8_t {
  unparked,  ///< unpark() was called.
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
  /// Makes a suspended thread runnable again.
  virtual void make_ready() noexcept = 0;
  /// Lets others run, staying ready.
  virtual void yield() = 0;
  /// Yields if the executor preempts at locks; otherwise does nothing.
  virtual void reach_lock() = 0;
};

class Parker final : public RefCounted<Parker> {
 public:
  Parker() noexcept = default;
  explicit Parker(LogicalThread& logical_thread) noexcept : logical_thread_(&logical_thread) {}

  /// Sleeps until unpark() or the deadline.
  ///
  /// Threads: owner only, holding no Mutex.
  /// Cost: about 10 ns if a token is present, else a futex wait.
  Wake park(Deadline deadline);

  /// Wakes the thread, or makes its next park return at once.
  ///
  /// Threads: any; under the manual executor only its own logical threads.
  /// Cost: one exchange; a system call only if the thread sleeps.
  void unpark() noexcept;

  /// Ends the logical thread's parking without a wake; later unparks do nothing.
  void abandon() noexcept;

 private:
  void wait_on_futex(Deadline deadline) noexcept;

  ParkWord<StdAtomics> state_;
  LogicalThread* logical_thread_ = nullptr;
};

}  // namespace hearth::detail
