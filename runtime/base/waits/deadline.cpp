#include <hearth/runtime/base/deadline.hpp>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/thread_context.hpp>

#include <algorithm>

namespace hearth {

Deadline Deadline::at(TimePoint time) noexcept {
  const detail::Clock& clock = detail::current_context().clock();
  return time == TimePoint::max() ? never() : Deadline(time - clock.standstill(clock.now()));
}

Deadline Deadline::in(std::chrono::nanoseconds duration) noexcept {
  const detail::Clock& clock = detail::current_context().clock();
  const TimePoint now = clock.now();
  const TimePoint counted = now - clock.standstill(now);
  return duration >= TimePoint::max() - now ? never() : Deadline(counted + duration);
}

Deadline::TimePoint Deadline::time() const noexcept {
  const detail::Clock& clock = detail::current_context().clock();
  return is_never() ? time_ : time_ + clock.standstill(clock.now());
}

std::chrono::nanoseconds Deadline::left() const noexcept {
  return left(detail::current_context().clock());
}

std::chrono::nanoseconds Deadline::left(const detail::Clock& clock) const noexcept {
  if (is_never()) {
    return std::chrono::nanoseconds::max();
  }
  const TimePoint now = clock.now();
  return std::max(time_ + clock.standstill(now) - now, std::chrono::nanoseconds::zero());
}

bool Deadline::has_passed() const noexcept {
  if (is_never()) {
    return false;
  }
  const detail::Clock& clock = detail::current_context().clock();
  const TimePoint now = clock.now();
  return now >= time_ && now - clock.standstill(now) >= time_;
}

}  // namespace hearth
