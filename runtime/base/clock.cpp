#include <hearth/runtime/base/clock.hpp>

namespace hearth {

TimePoint SteadyClock::now() const noexcept {
  return std::chrono::steady_clock::now();
}

}  // namespace hearth
