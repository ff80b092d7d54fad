// Learning-rate schedules: by what a run multiplies its optimizer's learning rate, step by step.
// Plain data and pure functions; PlateauRate alone looks at how the run goes, so it has a state
// beside, Plateau. Threads: values.
// Invariant: a factor depends on schedule, step and number of steps alone (and the plateau's), so a
// run that is resumed goes on with the same rates.
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

/// Every schedule may begin with a warm-up of w steps: step s of these, counted from 0, has the
/// factor (s + 1) / (w + 1), and step w the schedule's first one.

/// The optimizer's own rate throughout.
struct ConstantRate {
  std::int64_t warmup_steps = 0;  ///< Steps that rise to the rate first.
};

/// Falls in a line from 1 to `end` at the run's last step.
struct LinearRate {
  double end = 0;                 ///< Factor of the last step.
  std::int64_t warmup_steps = 0;  ///< Steps that rise to the rate first.
};

/// Falls along half a cosine from 1 to `end` at the run's last step.
/// Paper: Loshchilov, Hutter, SGDR, arXiv:1608.03983, equation 5, without restarts.
struct CosineRate {
  double end = 0;                 ///< Factor of the last step.
  std::int64_t warmup_steps = 0;  ///< Steps that rise to the rate first.
};

/// Rises along half a cosine from `start` to 1 in a part of the run, and falls so to `end`.
/// Paper: Smith, Topin, Super-Convergence, arXiv:1708.07120.
struct OneCycleRate {
  double rising = 0.3;            ///< The part of the steps in which it rises.
  double start = 0.04;            ///< Factor of the first step.
  double end = 4e-6;              ///< Factor of the last step.
  std::int64_t warmup_steps = 0;  ///< Steps that rise to the rate first.
};

/// Multiplied by `factor` after each `every` steps: 1, then factor, then factor² …
struct StepRate {
  std::int64_t every = 1000;      ///< Steps, behind the warm-up.
  double factor = 0.1;            ///< Factor of the rate then.
  double end = 0;                 ///< It falls no further than to this.
  std::int64_t warmup_steps = 0;  ///< Steps that rise to the rate first.
};

/// Multiplied by `factor` after each step.
struct ExponentialRate {
  double factor = 0.999;          ///< Factor of the rate after each step.
  double end = 0;                 ///< It falls no further than to this.
  std::int64_t warmup_steps = 0;  ///< Steps that rise to the rate first.
};

/// A function of the program's own. A run that is resumed is given it again: it must be the same
/// one, and depend on the step alone.
struct FunctionRate {
  /// What multiplies the rate in a step, counted from 0 behind the warm-up: 0 or more, and finite.
  std::function<double(std::int64_t step)> factor;
  std::string name = "own function";  ///< In the report, and where a run goes on with another one.
  std::int64_t warmup_steps = 0;      ///< Steps that rise to the rate first.
};

/// Multiplied by `factor` whenever the figure that a run watches has not become better for
/// `patience` epochs.
struct PlateauRate {
  double factor = 0.1;            ///< Factor of the rate then.
  std::int64_t patience = 5;      ///< Epochs without a better figure.
  double min_change = 1e-4;       ///< By how much a figure must be better to count.
  double end = 0;                 ///< It falls no further than to this.
  std::int64_t warmup_steps = 0;  ///< Steps that rise to the rate first.
};

using LearningRateSchedule = std::variant<ConstantRate,
                                          LinearRate,
                                          CosineRate,
                                          OneCycleRate,
                                          PlateauRate,
                                          StepRate,
                                          ExponentialRate,
                                          FunctionRate>;

/// Errors: ArgumentError, in the name of `op`, naming the setting that makes no sense.
void require_sound(const LearningRateSchedule& schedule,
                   std::string_view op,
                   SourceLoc loc = SourceLoc::current());

/// What step `step`, counted from 0, of a run of `step_count` steps multiplies the rate by; from
/// the last step on, what that has. A plateau's share is not in it.
/// Errors: ArgumentError when a FunctionRate gives what is no factor; what its function throws.
[[nodiscard]] double rate_factor(const LearningRateSchedule& schedule,
                                 std::int64_t step,
                                 std::int64_t step_count,
                                 SourceLoc loc = SourceLoc::current());

/// A PlateauRate on its way: part of a training state.
class Plateau final {
 public:
  Plateau(const PlateauRate& settings, Goal goal);

  /// Takes the figure of an epoch. Whether the factor has fallen.
  bool observe(double value);
  [[nodiscard]] double factor() const noexcept { return factor_; }

 private:
  PlateauRate settings_;
  double factor_ = 1;
  BestValue best_;
};

}  // namespace hearth
