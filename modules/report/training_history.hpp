// TrainingHistory: the figures of a run, epoch by epoch. Shown by its console line, metrics.csv and
// report, and part of its training state.
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

/// A curve of per-step figures with a bounded number of points. When it is full, neighbouring
/// points are merged into their mean. A non-finite point leaves a gap in the curve.
class StepCurve final {
 public:
  static constexpr std::size_t kMaxPoints = 512;

  StepCurve() = default;
  /// Restores a curve from its saved parts.
  StepCurve(std::int64_t steps_per_point,
            std::vector<double> points,
            double sum,
            std::int64_t count);

  void add(double figure);
  [[nodiscard]] std::int64_t steps_per_point() const noexcept { return steps_per_point_; }
  [[nodiscard]] const std::vector<double>& points() const noexcept { return points_; }
  /// The sum of the figures in the point that is not complete yet; open_count() is their number.
  [[nodiscard]] double open_sum() const noexcept { return open_sum_; }
  [[nodiscard]] std::int64_t open_count() const noexcept { return open_count_; }

 private:
  std::int64_t steps_per_point_ = 1;
  std::vector<double> points_;
  double open_sum_ = 0;
  std::int64_t open_count_ = 0;
};

/// Samples per second; 0 if `time` is 0.
[[nodiscard]] double rate_of(std::int64_t sample_count, std::chrono::nanoseconds time) noexcept;

struct EpochRecord {
  std::int64_t epoch = 0;  ///< Number of the epoch, from 1.
  double train_loss = 0;   ///< Mean over the samples of the loss before their step.
  std::optional<double> validation_loss = std::nullopt;
  std::vector<double> metrics = {};  ///< In the order of TrainingHistory::metrics.
  /// Learning rates of the first and the last step. TrainingHistory::rates holds those of all
  /// steps.
  double first_learning_rate = 0;
  double last_learning_rate = 0;
  std::chrono::nanoseconds duration{0};  ///< Duration of the training steps, without validation.
  std::int64_t sample_count = 0;

  [[nodiscard]] double samples_per_s() const noexcept { return rate_of(sample_count, duration); }
};

struct MetricColumn {
  std::string name;
  Goal goal = Goal::highest;
  bool in_percent = false;  ///< Whether it is printed in per cent.
};

struct TrainingHistory {
  std::vector<MetricColumn> metrics;
  std::vector<EpochRecord> epochs;
  StepCurve steps;  ///< Loss of each step.
  StepCurve rates;  ///< Learning rate of each step.
};

/// Comma-separated values: a header line, then a line per epoch. Names are quoted where needed.
/// Numbers have all digits; missing values are empty.
[[nodiscard]] std::string csv_of(const TrainingHistory& history);

/// Formats a figure: "98.25 %", or "0.1234" with up to four digits after the point. Very small and
/// very large values have an exponent.
[[nodiscard]] std::string figure_text(const MetricColumn& metric, double value);

namespace detail {

/// Formats a duration: "1 h 02 min", "3 min 20 s", "12 s".
[[nodiscard]] std::string readable_time(std::chrono::duration<double> time);

}  // namespace detail

}  // namespace hearth
