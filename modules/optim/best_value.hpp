// BestValue: the best value that a run has seen, and the number of values since. Used by early
// stopping, best checkpoints and the plateau schedule.
// A value, part of a training state. Threads: one at a time.
// Invariant: NaN is never the best.
#pragma once

#include <cstdint>
#include <optional>

namespace hearth {

/// Which of two figures is better.
enum class Goal : std::uint8_t {
  lowest,   ///< The lower, as for a loss.
  highest,  ///< The higher, as for an accuracy.
};

class BestValue final {
 public:
  /// A value becomes the best if it is better by more than `min_change`.
  ///
  /// Errors: ArgumentError when `min_change` is below 0 or not finite.
  explicit BestValue(Goal goal = Goal::lowest, double min_change = 0);

  /// Receives the next value. Returns whether it is the best so far.
  bool observe(double value);

  /// The best value; empty before the first one that is a number.
  [[nodiscard]] const std::optional<double>& best() const noexcept { return best_; }
  /// Number of values since the best.
  [[nodiscard]] std::int64_t misses() const noexcept { return misses_; }
  /// Resets the number of misses and keeps the best.
  void forget_misses() noexcept { misses_ = 0; }
  [[nodiscard]] Goal goal() const noexcept { return goal_; }

 private:
  Goal goal_;
  double min_change_;
  std::optional<double> best_;
  std::int64_t misses_ = 0;
};

}  // namespace hearth
