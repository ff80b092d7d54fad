// BestValue: the best of the values that a run has had, and for how long there was no better one:
// what early stopping, the best checkpoint and a plateau's learning rate go by.
// A value, part of a training state. Threads: one at a time.
// Invariant: a value that is NaN is never the best.
#pragma once

#include <cstdint>
#include <optional>

namespace hearth {

/// Which of two figures is the better one.
enum class Goal : std::uint8_t {
  lowest,   ///< Of a loss.
  highest,  ///< Of an accuracy.
};

class BestValue final {
 public:
  /// A value must be better than the best by more than `min_change` to take its place.
  /// Errors: ArgumentError when `min_change` is below 0 or not finite.
  explicit BestValue(Goal goal = Goal::lowest, double min_change = 0);

  /// Takes the next value. Whether it is the best so far.
  bool observe(double value);

  /// None before the first value that is a number.
  [[nodiscard]] const std::optional<double>& best() const noexcept { return best_; }
  /// How many values came since the best.
  [[nodiscard]] std::int64_t misses() const noexcept { return misses_; }
  /// Begins to count misses anew; the best stays.
  void forget_misses() noexcept { misses_ = 0; }
  [[nodiscard]] Goal goal() const noexcept { return goal_; }

 private:
  Goal goal_;
  double min_change_;
  std::optional<double> best_;
  std::int64_t misses_ = 0;
};

}  // namespace hearth
