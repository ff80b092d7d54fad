#include <hearth/modules/learning_rate_schedule.hpp>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <type_traits>

namespace hearth {
namespace {

// Half a cosine from `from` at 0 to `to` at 1.
double along_cosine(double from, double to, double progress) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

double shape_of(const ConstantRate&, std::int64_t, std::int64_t) {
  return 1;
}
double shape_of(const PlateauRate&, std::int64_t, std::int64_t) {
  return 1;
}
double shape_of(const LinearRate& how, std::int64_t step, std::int64_t last) {
  const double progress = last > 0 ? static_cast<double>(step) / static_cast<double>(last) : 0;
  return 1 + (how.end - 1) * progress;
}
double shape_of(const CosineRate& how, std::int64_t step, std::int64_t last) {
  const double progress = last > 0 ? static_cast<double>(step) / static_cast<double>(last) : 0;
  return along_cosine(1, how.end, progress);
}
double shape_of(const StepRate& how, std::int64_t step, std::int64_t /*last*/) {
  const std::int64_t falls = step / how.every;
  return std::max(std::pow(how.factor, static_cast<double>(falls)), how.end);
}
double shape_of(const ExponentialRate& how, std::int64_t step, std::int64_t /*last*/) {
  return std::max(std::pow(how.factor, static_cast<double>(step)), how.end);
}
double shape_of(const FunctionRate& how, std::int64_t step, std::int64_t /*last*/) {
  return how.factor(step);
}
double shape_of(const OneCycleRate& how, std::int64_t step, std::int64_t last) {
  const auto at = static_cast<double>(step);
  const auto end = static_cast<double>(last);
  // Position of the peak; the highest step is rounded down.
  const double top = how.rising * (end + 1) - 1;
  if (at <= top) {
    return top > 0 ? along_cosine(how.start, 1, at / top) : 1;
  }
  const double begin = std::max(top, 0.0);
  return end > begin ? along_cosine(1, how.end, (at - begin) / (end - begin)) : 1;
}

// Validation of the settings that all schedules have, and of their own.
struct Checks {
  std::string_view op;
  SourceLoc loc;

  void require(bool is_right, std::string_view setting, double value, std::string_view rule) const {
    if (!is_right) {
      throw_error(Error{
          .code = ErrorCode::invalid_argument,
          .text =
              fmt::format("{}: {} of the schedule is {}, but must be {}", op, setting, value, rule),
          .op = std::string(op),
          .location = loc});
    }
  }
  void require_share(std::string_view setting, double value) const {
    require(value >= 0 && value <= 1, setting, value, "in 0 to 1");
  }
};

}  // namespace

void require_sound(const LearningRateSchedule& schedule, std::string_view op, SourceLoc loc) {
  const Checks checks{op, loc};
  std::visit(
      [&]<class Kind>(const Kind& how) {
        checks.require(how.warmup_steps >= 0,
                       "warmup_steps",
                       static_cast<double>(how.warmup_steps),
                       "0 or more");
        if constexpr (requires { how.end; }) {
          checks.require_share("end", how.end);
        }
        if constexpr (std::is_same_v<Kind, OneCycleRate>) {
          checks.require_share("rising", how.rising);
          checks.require_share("start", how.start);
        }
        if constexpr (std::is_same_v<Kind, StepRate>) {
          checks.require(how.every >= 1, "every", static_cast<double>(how.every), "1 or more");
        }
        if constexpr (std::is_same_v<Kind, StepRate> || std::is_same_v<Kind, ExponentialRate>) {
          checks.require(
              how.factor > 0 && how.factor <= 1, "factor", how.factor, "in 0 to 1, above 0");
        }
        if constexpr (std::is_same_v<Kind, FunctionRate>) {
          if (!how.factor) {
            throw_error(
                Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: the schedule's FunctionRate has no function", op),
                      .op = std::string(op),
                      .location = loc});
          }
        }
        if constexpr (std::is_same_v<Kind, PlateauRate>) {
          checks.require(how.factor > 0 && how.factor < 1, "factor", how.factor, "between 0 and 1");
          checks.require(
              how.patience >= 1, "patience", static_cast<double>(how.patience), "1 or more");
          checks.require(how.min_change >= 0 && std::isfinite(how.min_change),
                         "min_change",
                         how.min_change,
                         "0 or more and finite");
        }
      },
      schedule);
}

double rate_factor(const LearningRateSchedule& schedule,
                   std::int64_t step,
                   std::int64_t step_count,
                   SourceLoc loc) {
  const detail::FloatEnvironment environment;
  return detail::pinned(std::visit(
      [&]<class Kind>(const Kind& how) {
        const std::int64_t warmup = how.warmup_steps;
        if (step < warmup) {
          return static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
        }
        const std::int64_t last = std::max<std::int64_t>(step_count - 1 - warmup, 0);
        const double factor = shape_of(how, std::min(step - warmup, last), last);
        if (std::is_same_v<Kind, FunctionRate> && !(factor >= 0 && std::isfinite(factor))) {
          throw_error(Error{
              .code = ErrorCode::invalid_argument,
              .text = fmt::format("the schedule's function gave {} for step {}, but a factor is 0 "
                                  "or more and finite",
                                  factor,
                                  step),
              .op = "rate_factor",
              .location = loc});
        }
        return factor;
      },
      schedule));
}

Plateau::Plateau(const PlateauRate& settings, Goal goal)
    : settings_(settings), best_(goal, settings.min_change) {}

bool Plateau::observe(double value) {
  const detail::FloatEnvironment environment;
  if (best_.observe(value) || best_.misses() < settings_.patience) {
    return false;
  }
  best_.forget_misses();
  const double before = factor_;
  factor_ = std::max(factor_ * settings_.factor, settings_.end);
  return factor_ != before;
}

}  // namespace hearth
