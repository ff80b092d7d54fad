// TrainingHistory: the figures of a run, epoch by epoch: what its live line, its metrics.csv and
// its report show, and part of its training state.
// Plain data. Threads: values. Invariant: each epoch has a figure for each metric.
#pragma once

#include <hearth/modules/best_value.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hearth {

/// Figures of steps, thinned out: when there are too many points, neighbours become their mean. One
/// that is not finite leaves a gap.
class StepCurve final {
 public:
  static constexpr std::size_t kMaxPoints = 512;

  StepCurve() = default;
  /// One that goes on where another was.
  StepCurve(std::int64_t steps_per_point,
            std::vector<double> points,
            double sum,
            std::int64_t count);

  void add(double figure);
  [[nodiscard]] std::int64_t steps_per_point() const noexcept { return steps_per_point_; }
  [[nodiscard]] const std::vector<double>& points() const noexcept { return points_; }
  /// Of the point that is not full yet: the figures of so many steps, added up.
  [[nodiscard]] double open_sum() const noexcept { return open_sum_; }
  [[nodiscard]] std::int64_t open_count() const noexcept { return open_count_; }

 private:
  std::int64_t steps_per_point_ = 1;
  std::vector<double> points_;
  double open_sum_ = 0;
  std::int64_t open_count_ = 0;
};

/// So many samples a second in this time; 0 in no time.
[[nodiscard]] double rate_of(std::int64_t sample_count, std::chrono::nanoseconds time) noexcept;

struct EpochRecord {
  std::int64_t epoch = 0;  ///< From 1.
  double train_loss = 0;   ///< Mean over the samples, each before the step that it was part of.
  std::optional<double> validation_loss = std::nullopt;
  std::vector<double> metrics = {};  ///< In the order of TrainingHistory::metrics.
  /// Of its first step and of its last one; where it changes in between, TrainingHistory::rates has
  /// the steps.
  double first_learning_rate = 0;
  double last_learning_rate = 0;
  std::chrono::nanoseconds duration{0};  ///< Of its steps; validation is not in it.
  std::int64_t sample_count = 0;

  [[nodiscard]] double samples_per_s() const noexcept { return rate_of(sample_count, duration); }
};

struct MetricColumn {
  std::string name;
  Goal goal = Goal::highest;
  bool in_percent = false;  ///< Shown in per cent.
};

struct TrainingHistory {
  std::vector<MetricColumn> metrics;
  std::vector<EpochRecord> epochs;
  StepCurve steps;  ///< Their losses …
  StepCurve rates;  ///< … and their learning rates.
};

/// A line of names, then a line an epoch: comma-separated values, names with quotes where they need
/// them. Numbers have all their digits; what is not there is empty.
[[nodiscard]] std::string csv_of(const TrainingHistory& history);

/// "98.25 %"; or four digits behind the point, "0.1234", fewer of what is large, an exponent for
/// what is very small or large.
[[nodiscard]] std::string figure_text(const MetricColumn& metric, double value);

namespace detail {

/// "1 h 02 min", "3 min 20 s", "12 s"
[[nodiscard]] std::string readable_time(std::chrono::duration<double> time);

}  // namespace detail

}  // namespace hearth
