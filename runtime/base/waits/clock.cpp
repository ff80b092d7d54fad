#include <hearth/runtime/base/clock.hpp>

#include <hearth/runtime/base/standstill.hpp>

namespace hearth::detail {

TimePoint SteadyClock::now() const noexcept {
  return std::chrono::steady_clock::now();
}

std::chrono::nanoseconds SteadyClock::standstill(TimePoint now) const noexcept {
  return process_standstill().sum(now);
}

}  // namespace hearth::detail
