#include <hearth/modules/training_history.hpp>

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace hearth {
namespace {

std::string quoted(const std::string& name) {
  if (name.find_first_of(",\"\r\n") == std::string::npos) {
    return name;
  }
  std::string text = "\"";
  for (const char c : name) {
    text += c == '"' ? "\"\"" : std::string(1, c);
  }
  return text + "\"";
}

}  // namespace

StepCurve::StepCurve(std::int64_t steps_per_point,
                     std::vector<double> points,
                     double sum,
                     std::int64_t count)
    : steps_per_point_(steps_per_point),
      points_(std::move(points)),
      open_sum_(sum),
      open_count_(count) {}

void StepCurve::add(double figure) {
  open_sum_ += figure;
  if (++open_count_ < steps_per_point_) {
    return;
  }
  points_.push_back(open_sum_ / static_cast<double>(open_count_));
  open_sum_ = 0;
  open_count_ = 0;
  if (points_.size() == kMaxPoints) {
    for (std::size_t i = 0; i < kMaxPoints / 2; ++i) {
      points_[i] = (points_[2 * i] + points_[2 * i + 1]) / 2;
    }
    points_.resize(kMaxPoints / 2);
    steps_per_point_ *= 2;
  }
}

double rate_of(std::int64_t sample_count, std::chrono::nanoseconds time) noexcept {
  const double seconds = std::chrono::duration<double>(time).count();
  return seconds > 0 ? static_cast<double>(sample_count) / seconds : 0;
}

std::string csv_of(const TrainingHistory& history) {
  std::string text = "epoch,train_loss,validation_loss";
  for (const MetricColumn& metric : history.metrics) {
    text += "," + quoted(metric.name);
  }
  text += ",first_learning_rate,last_learning_rate,seconds,samples_per_s\n";
  for (const EpochRecord& epoch : history.epochs) {
    text += fmt::format("{},{},", epoch.epoch, epoch.train_loss);
    text += epoch.validation_loss ? fmt::format("{}", *epoch.validation_loss) : "";
    for (const double value : epoch.metrics) {
      text += fmt::format(",{}", value);
    }
    text += fmt::format(",{},{},{:.3f},{:.1f}\n",
                        epoch.first_learning_rate,
                        epoch.last_learning_rate,
                        std::chrono::duration<double>(epoch.duration).count(),
                        epoch.samples_per_s());
  }
  return text;
}

std::string figure_text(const MetricColumn& metric, double value) {
  if (metric.in_percent) {
    return fmt::format("{:.2f} %", value * 100);
  }
  constexpr double kSmall = 1e-3;  // below it, four decimals show too few digits
  constexpr double kLarge = 1e4;
  const double size = std::fabs(value);
  return size > 0 && size < kSmall ? fmt::format("{:.3e}", value)
         : size < kLarge           ? fmt::format("{:.4f}", value)
         : size < kLarge * 1e5     ? fmt::format("{:.1f}", value)
                                   : fmt::format("{:.4e}", value);
}

std::string detail::readable_time(std::chrono::duration<double> time) {
  const double seconds = time.count();
  if (!(seconds >= 0) || seconds > 1e8) {
    return "a long time";
  }
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole >= 3600) {
    return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  }
  return whole >= 60 ? fmt::format("{} min {:02} s", whole / 60, whole % 60)
                     : fmt::format("{} s", whole);
}

}  // namespace hearth
