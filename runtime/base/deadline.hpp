// Deadline: the point in time at which a wait gives up, or never.
// A value. Threads: any; what it says of now is by the clock of the thread that asks. Invariant:
// time in which nobody of the process could run (a machine that sleeps, a stopped process) counts
// for no deadline: it moves back by as much.
#pragma once

#include <chrono>
#include <compare>

namespace hearth {

namespace detail {
class Clock;
}  // namespace detail

/// How long a user's wait lasts when nothing else is said.
inline constexpr std::chrono::nanoseconds kDefaultWait = std::chrono::seconds(60);

class Deadline {
 public:
  /// The steady clock's, in nanoseconds.
  using TimePoint = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

  [[nodiscard]] static constexpr Deadline never() noexcept { return Deadline(TimePoint::max()); }
  [[nodiscard]] static Deadline at(TimePoint time) noexcept;
  /// That long from now on the current thread's clock. Durations too long to add mean never.
  [[nodiscard]] static Deadline in(std::chrono::nanoseconds duration) noexcept;

  [[nodiscard]] constexpr bool is_never() const noexcept { return time_ == TimePoint::max(); }
  /// When it passes, if everybody can run until then.
  [[nodiscard]] TimePoint time() const noexcept;
  /// How long until then; zero once it has passed, nanoseconds::max() for never.
  [[nodiscard]] std::chrono::nanoseconds left() const noexcept;
  /// The same by another thread's clock: for the library.
  [[nodiscard]] std::chrono::nanoseconds left(const detail::Clock& clock) const noexcept;
  /// Whether the current thread's clock has reached it.
  [[nodiscard]] bool has_passed() const noexcept;

  /// Earlier is less; never is greatest.
  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm on any defaulted <=>
  friend constexpr auto operator<=>(const Deadline&, const Deadline&) noexcept = default;

 private:
  constexpr explicit Deadline(TimePoint time) noexcept : time_(time) {}

  TimePoint time_;  ///< Without the standstills before it.
};

}  // namespace hearth
