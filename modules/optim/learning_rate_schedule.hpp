// Learning-rate schedules: the factor of an optimizer's learning rate in each step of a run. Plain
// data and pure functions. PlateauRate also depends on results, so it has a state, Plateau.
// Threads: values.
// Invariant: a factor depends on the schedule, the step, the number of steps and the plateau's
// state only. A resumed run therefore continues with the same rates.
#pragma once

#include <hearth/modules/best_value.hpp>

#include <hearth/runtime/base/source_loc.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace hearth {

/// Every schedule may begin with a warm-up of w steps. Step s of these, counted from 0, has the
/// factor (s + 1) / (w + 1). Step w has the schedule's first factor.

/// Keeps the optimizer's own rate.
struct ConstantRate {
  std::int64_t warmup_steps = 0;  ///< Steps of the linear warm-up.
};

/// Falls linearly from 1 to `end` at the run's last step.
struct LinearRate {
  double end = 0;                 ///< Factor of the last step.
  std::int64_t warmup_steps = 0;  ///< Steps of the linear warm-up.
};

/// Falls along half a cosine from 1 to `end` at the run's last step.
///
/// Paper: Loshchilov, Hutter, SGDR, arXiv:1608.03983, equation 5, without restarts.
struct CosineRate {
  double end = 0;                 ///< Factor of the last step.
  std::int64_t warmup_steps = 0;  ///< Steps of the linear warm-up.
};

/// Rises along half a cosine from `start` to 1, then falls along half a cosine to `end`.
///
/// Paper: Smith, Topin, Super-Convergence, arXiv:1708.07120.
struct OneCycleRate {
  double rising = 0.3;            ///< Share of the steps in which the rate rises.
  double start = 0.04;            ///< Factor of the first step.
  double end = 4e-6;              ///< Factor of the last step.
  std::int64_t warmup_steps = 0;  ///< Steps of the linear warm-up.
};

/// Multiplies the rate by `factor` after every `every` steps: 1, factor, factor² …
struct StepRate {
  std::int64_t every = 1000;      ///< Steps between two changes, counted after the warm-up.
  double factor = 0.1;            ///< Multiplies the rate at each change.
  double end = 0;                 ///< Lower bound of the rate's total factor.
  std::int64_t warmup_steps = 0;  ///< Steps of the linear warm-up.
};

/// Multiplies the rate by `factor` after each step.
struct ExponentialRate {
  double factor = 0.999;          ///< Multiplies the rate after each step.
  double end = 0;                 ///< Lower bound of the rate's total factor.
  std::int64_t warmup_steps = 0;  ///< Steps of the linear warm-up.
};

/// A user-defined schedule. A resumed run must be given the same function, and the function must
/// depend on the step only.
struct FunctionRate {
  /// Returns the factor of a step, counted from 0 after the warm-up: finite, and 0 or more.
  std::function<double(std::int64_t step)> factor;
  /// Name in the report, and in the error when a resumed run has another schedule.
  std::string name = "own function";
  std::int64_t warmup_steps = 0;  ///< Steps of the linear warm-up.
};

/// Multiplies the rate by `factor` when the watched metric has not improved for `patience` epochs.
struct PlateauRate {
  double factor = 0.1;            ///< Multiplies the rate at each change.
  std::int64_t patience = 5;      ///< Epochs without improvement before a change.
  double min_change = 1e-4;       ///< Smallest change of the metric that counts as an improvement.
  double end = 0;                 ///< Lower bound of the rate's total factor.
  std::int64_t warmup_steps = 0;  ///< Steps of the linear warm-up.
};

using LearningRateSchedule = std::variant<ConstantRate,
                                          LinearRate,
                                          CosineRate,
                                          OneCycleRate,
                                          PlateauRate,
                                          StepRate,
                                          ExponentialRate,
                                          FunctionRate>;

/// Validates a schedule.
///
/// Errors: ArgumentError, in the name of `op`, naming the setting that is out of range.
void require_sound(const LearningRateSchedule& schedule,
                   std::string_view op,
                   SourceLoc loc = SourceLoc::current());

/// Returns the factor of step `step`, counted from 0, in a run of `step_count` steps. Later steps
/// have the factor of the last one. Excludes the factor of a Plateau.
///
/// Errors: ArgumentError when a FunctionRate returns a negative or non-finite factor; whatever its
/// function throws.
[[nodiscard]] double rate_factor(const LearningRateSchedule& schedule,
                                 std::int64_t step,
                                 std::int64_t step_count,
                                 SourceLoc loc = SourceLoc::current());

/// State of a PlateauRate, part of a training state.
class Plateau final {
 public:
  Plateau(const PlateauRate& settings, Goal goal);

  /// Receives the metric of an epoch. Returns whether the factor has fallen.
  bool observe(double value);
  [[nodiscard]] double factor() const noexcept { return factor_; }

 private:
  PlateauRate settings_;
  double factor_ = 1;
  BestValue best_;
};

}  // namespace hearth
