// The budget of trials: a token bucket that earns a share of the time that passes.
// Owned by a device actor, never shared: no locks. The caller passes the time.
// Invariant: over any span, trials take at most `share` of it plus one burst and one trial.
#pragma once

#include <algorithm>
#include <chrono>

#include <hearth/runtime/base/clock.hpp>

namespace hearth::detail {

struct TuneBudgetOptions {
  double share = 0.02;  ///< Share of wall time.
  /// Most time that is saved up: a device that was idle for hours does not tune for minutes.
  std::chrono::nanoseconds burst = std::chrono::milliseconds(20);
};

class TuneBudget final {
 public:
  TuneBudget(TuneBudgetOptions options, TimePoint now)
      : options_(options), saved_(options.burst), counted_to_(now) {}

  /// Returns whether a trial may begin. A trial may overdraw the budget: the next one waits longer.
  [[nodiscard]] bool may_begin(TimePoint now) noexcept {
    earn(now);
    return saved_.count() > 0;
  }
  /// Takes the time of a trial that ended.
  void spend(std::chrono::nanoseconds time) noexcept { saved_ -= time; }
  /// Returns when the next trial may begin: `now` or later. An idle actor sleeps until then.
  [[nodiscard]] TimePoint ready_at(TimePoint now) noexcept {
    earn(now);
    if (saved_.count() > 0) {
      return now;
    }
    const double wait = static_cast<double>(1 - saved_.count()) / options_.share;
    return now + std::chrono::nanoseconds(static_cast<std::int64_t>(wait) + 1);
  }

 private:
  void earn(TimePoint now) noexcept {
    const auto earned = static_cast<double>((now - counted_to_).count()) * options_.share;
    // Whole nanoseconds only: the rest of the time is counted at the next call.
    if (earned >= 1) {
      saved_ = std::min(saved_ + std::chrono::nanoseconds(static_cast<std::int64_t>(earned)),
                        options_.burst);
      counted_to_ = now;
    }
  }

  TuneBudgetOptions options_;
  std::chrono::nanoseconds saved_;
  TimePoint counted_to_;
};

}  // namespace hearth::detail
