#include "launch_clock.hpp"

#include <algorithm>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth::gpu {

std::chrono::nanoseconds LaunchClock::now() {
  return hearth::detail::current_context().clock().now().time_since_epoch();
}

// Keeps the last timestamp for the end of the batch.
bool TimedBatch::add(std::uint32_t number, bool is_behind_barrier) {
  if (!runs.empty() && runs.back().number == number) {
    return false;
  }
  const bool has_stamp = written < kMostTimestamps - 1;
  written += has_stamp ? 1U : 0U;
  runs.push_back({.number = number, .end = written, .is_behind_barrier = is_behind_barrier});
  return has_stamp;
}

void LaunchClock::add(const TimedBatch& batch, std::span<const std::chrono::nanoseconds> stamps) {
  if (stamps.empty() || !std::ranges::is_sorted(stamps)) {
    return;
  }
  const std::chrono::nanoseconds most = now() - stamps.back();
  const std::chrono::nanoseconds least = batch.submitted - stamps.front();
  difference_ = std::max(std::min(difference_.value_or(most), most), least);
  add_runs(batch, stamps);
}

// Runs before the same timestamp share the time up to it.
void LaunchClock::add_runs(const TimedBatch& batch,
                           std::span<const std::chrono::nanoseconds> stamps) {
  const std::vector<TimedBatch::Run>& runs = batch.runs;
  for (std::size_t first = 0; first < runs.size();) {
    const std::uint32_t end = runs[first].end;
    std::size_t last = first;
    while (last < runs.size() && runs[last].end == end) {
      ++last;
    }
    const auto count = static_cast<std::int64_t>(last - first);
    const std::chrono::nanoseconds begin = stamps[end - 1] + *difference_;
    const std::chrono::nanoseconds length = stamps[end] - stamps[end - 1];
    for (std::size_t i = first; i < last; ++i) {
      const auto place = static_cast<std::int64_t>(i - first);
      const bool is_apart =
          runs[i].is_behind_barrier && (i + 1 == runs.size() || runs[i + 1].is_behind_barrier);
      if (runs[i].number != 0) {
        times_.push_back({.number = runs[i].number,
                          .begin = begin + length * place / count,
                          .end = begin + length * (place + 1) / count,
                          .is_side_by_side = !is_apart,
                          .is_shared_out = count > 1});
      }
    }
    first = last;
  }
}

}  // namespace hearth::gpu
