#include <hearth/parallel/shard_balance.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>

namespace hearth {
namespace {

constexpr double kWorthIt = 0.9;
/// Smallest share of a slow device: a device without samples would yield no more times.
constexpr std::int64_t kLeastShare = 10;

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::string ShardBalance::kind_of(std::string_view name, std::string_view description) {
  return std::string(name.starts_with("cpu:") ? "cpu" : description);
}

bool ShardBalance::set_ranks(std::vector<std::string> kinds) {
  if (kinds == kinds_) {
    return false;
  }
  const bool had_ranks = !kinds_.empty();
  kinds_ = std::move(kinds);
  rates_.assign(kinds_.size(), {});
  samples_.assign(kinds_.size(), 0);
  pause_ = 1;
  return had_ranks;
}

std::optional<std::vector<std::int64_t>> ShardBalance::note(
    std::span<const std::int64_t> samples, std::span<const std::chrono::nanoseconds> times) {
  const bool is_one_kind =
      std::ranges::adjacent_find(kinds_, std::not_equal_to<>()) == kinds_.end();
  if (is_one_kind || samples.size() != kinds_.size() || times.size() != kinds_.size()) {
    return std::nullopt;
  }
  if (pause_ > 0) {
    --pause_;
    return std::nullopt;
  }
  for (std::size_t rank = 0; rank < kinds_.size(); ++rank) {
    if (samples[rank] < 1 || times[rank] <= std::chrono::nanoseconds::zero()) {
      return std::nullopt;  // the batch is too small for a measurement
    }
  }
  for (std::size_t rank = 0; rank < kinds_.size(); ++rank) {
    const double seconds = std::chrono::duration<double>(times[rank]).count();
    rates_[rank].push_back(static_cast<double>(samples[rank]) / seconds);
    samples_[rank] += static_cast<double>(samples[rank]);
  }
  if (rates_.front().size() < static_cast<std::size_t>(kSteps)) {
    return std::nullopt;
  }
  std::optional<std::vector<std::int64_t>> shares = divide();
  rates_.assign(kinds_.size(), {});
  samples_.assign(kinds_.size(), 0);
  pause_ = shares ? 1 : kPause;  // a new division may compile other kernels
  return shares;
}

// Phases: the speed of each kind; shares by speed; whether they save the slowest rank enough time.
std::optional<std::vector<std::int64_t>> ShardBalance::divide() {
  std::vector<double> speeds(kinds_.size());
  for (std::size_t rank = 0; rank < kinds_.size(); ++rank) {
    std::vector<double> alike;
    for (std::size_t other = 0; other < kinds_.size(); ++other) {
      if (kinds_[other] == kinds_[rank]) {
        alike.insert(alike.end(), rates_[other].begin(), rates_[other].end());
      }
    }
    speeds[rank] = median_of(std::move(alike));
  }
  double all_speed = 0;
  double all_samples = 0;
  double slowest = 0;
  for (std::size_t rank = 0; rank < kinds_.size(); ++rank) {
    all_speed += speeds[rank];
    all_samples += samples_[rank];
    slowest = std::max(slowest, samples_[rank] / speeds[rank]);
  }
  if (all_samples / all_speed > kWorthIt * slowest) {
    return std::nullopt;
  }
  std::vector<std::int64_t> shares;
  for (const double speed : speeds) {
    const double share = static_cast<double>(kWhole) * speed / all_speed;
    shares.push_back(std::max(kLeastShare, static_cast<std::int64_t>(std::llround(share))));
  }
  return shares;
}

}  // namespace hearth
