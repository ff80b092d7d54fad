// Timeline: how far a device (or another owner of ordered work) has come, as a number that only
// rises. All waiting for work is on (timeline, value) with a deadline; errors of single ops do not
// touch it. Threads: advance() by the owner only, everything else by any. Invariants: (1) the value
// never falls; (2) a timeline fails at most once, and only by device loss or close; (3) a value
// that was reached stays reached after a failure.
#pragma once

#include <atomic>
#include <cstdint>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/base/wait_list.hpp>

namespace hearth {

class Timeline final : public RefCounted<Timeline> {
 public:
  Timeline() = default;
  ~Timeline() = default;

  [[nodiscard]] std::uint64_t value() const noexcept;
  [[nodiscard]] bool has_reached(std::uint64_t value) const noexcept;
  /// Success until fail().
  [[nodiscard]] Status status() const HEARTH_EXCLUDES(mutex_);

  /// Raises the value and wakes the threads that waited for it.
  /// Threads: owner only.
  /// Cost: a store and an exchange while nobody waits.
  void advance(std::uint64_t value) noexcept HEARTH_EXCLUDES(mutex_);
  /// Ends the timeline: waiters for values not yet reached get this error, now and later. The first
  /// call counts.
  void fail(ErrorRef error) noexcept HEARTH_EXCLUDES(mutex_);

  /// Waits until the value is reached.
  ///
  /// Errors: that of fail(); deadline_exceeded.
  [[nodiscard]] Status wait(std::uint64_t value, Deadline deadline) HEARTH_EXCLUDES(mutex_);

 private:
  class Waiter;
  void wake_reached() noexcept HEARTH_EXCLUDES(mutex_);

  std::atomic<std::uint64_t> value_{0};
  std::atomic<std::uint32_t> has_waiters_{0};
  mutable Mutex mutex_;
  ErrorRef error_ HEARTH_GUARDED_BY(mutex_);
  WaitList waiters_ HEARTH_GUARDED_BY(mutex_);
};

using TimelineRef = IntrusivePtr<Timeline>;

}  // namespace hearth
