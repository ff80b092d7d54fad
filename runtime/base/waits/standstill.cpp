#include <hearth/runtime/base/standstill.hpp>

#include <algorithm>

namespace hearth {

std::chrono::nanoseconds Standstill::sum(detail::TimePoint now) noexcept {
  std::uint64_t counted = counted_.load(std::memory_order_acquire);  // partner: the exchange below
  for (;;) {
    const std::uint64_t more = count(counted, now);
    if (more == counted ||
        counted_.compare_exchange_weak(
            counted, more, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return std::chrono::milliseconds(more >> kUntilBits);
    }
  }
}

// Every current sleeper began to sleep no later than `last` and was due to read the clock kBeat
// later. If that is long ago, no thread could run since then.
std::uint64_t Standstill::count(std::uint64_t counted, detail::TimePoint now) const noexcept {
  if (sleepers_.load(std::memory_order_acquire) <= 0) {  // partner: begin_sleep
    return counted;
  }
  const std::chrono::nanoseconds last(
      last_sleep_.load(std::memory_order_acquire));  // partner: begin_sleep
  const std::chrono::nanoseconds until =
      static_cast<std::int64_t>(counted & kUntilMask) * kUntilUnit;
  const std::chrono::nanoseconds stood = now.time_since_epoch() - std::max(last + kBeat, until);
  if (stood <= kTolerance) {
    return counted;
  }
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(stood).count();
  const auto all = (counted >> kUntilBits) + static_cast<std::uint64_t>(milliseconds);
  const auto units = static_cast<std::uint64_t>(now.time_since_epoch() / kUntilUnit) + 1;
  return (std::min(all, ~std::uint64_t{0} >> kUntilBits) << kUntilBits) | (units & kUntilMask);
}

// A thread may be delayed between its clock read and this call: then a later sleeper counts.
void Standstill::begin_sleep(detail::TimePoint now) noexcept {
  const std::int64_t mine = now.time_since_epoch().count();
  std::int64_t last = last_sleep_.load(std::memory_order_acquire);  // partner: the exchange below
  while (last < mine && !last_sleep_.compare_exchange_weak(
                            last, mine, std::memory_order_acq_rel, std::memory_order_acquire)) {
  }
  sleepers_.fetch_add(1, std::memory_order_acq_rel);  // partner: count
}

// Counts before it leaves: without a sleeper the standstill would go unnoticed.
void Standstill::end_sleep(detail::TimePoint now) noexcept {
  static_cast<void>(sum(now));
  sleepers_.fetch_sub(1, std::memory_order_acq_rel);
}

Standstill& process_standstill() noexcept {
  static constinit Standstill standstill;
  return standstill;
}

}  // namespace hearth
