// Latencies of the requests of concurrent_inference. A part of concurrent_inference.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace concurrent_inference {

using Clock = std::chrono::steady_clock;

/// Histogram of latencies in steps of 5 %. One thread adds; another may read meanwhile.
class Latencies {
 public:
  using Counts = std::array<std::uint64_t, 400>;

  void add(Clock::duration time) {
    const double us = std::max(1.0, std::chrono::duration<double, std::micro>(time).count());
    const auto step = static_cast<std::size_t>(std::log(us) / kStep);
    counts_[std::min(step, counts_.size() - 1)].fetch_add(1, std::memory_order_relaxed);
  }
  void add_to(Counts& sum) const {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += counts_[i].load(std::memory_order_relaxed);
    }
  }
  [[nodiscard]] static double quantile_us(const Counts& counts, double share) {
    std::uint64_t left = static_cast<std::uint64_t>(share * static_cast<double>(total(counts)));
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > left) {
        return std::exp((static_cast<double>(i) + 0.5) * kStep);
      }
      left -= counts[i];
    }
    return 0;
  }
  [[nodiscard]] static std::uint64_t total(const Counts& counts) {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts) {
      sum += count;
    }
    return sum;
  }

 private:
  static constexpr double kStep = 0.05;
  std::array<std::atomic<std::uint64_t>, 400> counts_{};
};

}  // namespace concurrent_inference
