// Deadline: the point in time at which a wait ends without result, or never.
// A value. Threads: any; functions that depend on the present read the calling thread's clock.
// Invariant: time in which no thread of the process could run (a suspended machine, a stopped
// process) does not count. The deadline moves back by that time.
#pragma once

#include <chrono>
#include <compare>

namespace hearth {

namespace detail {
class Clock;
}  // namespace detail

/// Default limit of a user's wait.
inline constexpr std::chrono::nanoseconds kDefaultWait = std::chrono::seconds(60);

class Deadline {
 public:
  /// Time of the steady clock, in nanoseconds.
  using TimePoint = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

  [[nodiscard]] static constexpr Deadline never() noexcept { return Deadline(TimePoint::max()); }
  [[nodiscard]] static Deadline at(TimePoint time) noexcept;
  /// Returns the deadline after this duration, by the calling thread's clock. A duration too long
  /// to add means never.
  [[nodiscard]] static Deadline in(std::chrono::nanoseconds duration) noexcept;

  [[nodiscard]] constexpr bool is_never() const noexcept { return time_ == TimePoint::max(); }
  /// Returns when the deadline passes if the process is never suspended until then.
  [[nodiscard]] TimePoint time() const noexcept;
  /// Returns the remaining time: zero once the deadline has passed, nanoseconds::max() for never.
  [[nodiscard]] std::chrono::nanoseconds left() const noexcept;
  /// Returns the remaining time by another thread's clock; for the library.
  [[nodiscard]] std::chrono::nanoseconds left(const detail::Clock& clock) const noexcept;
  /// Returns whether the calling thread's clock has reached the deadline.
  [[nodiscard]] bool has_passed() const noexcept;

  /// Earlier is less; never is greatest.
  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm on any defaulted <=>
  friend constexpr auto operator<=>(const Deadline&, const Deadline&) noexcept = default;

 private:
  constexpr explicit Deadline(TimePoint time) noexcept : time_(time) {}

  TimePoint time_;  ///< Without the standstills before it.
};

}  // namespace hearth
