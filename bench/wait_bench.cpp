// Lateness of a wait whose deadline passes while the device is busy: the caller receives the error,
// whose report is made later. The peer is a bare sleep at the same moments.
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

namespace hearth {
namespace {

using Clock = std::chrono::steady_clock;

double at_part(const std::vector<double>& sorted, double part) {
  return sorted.at(static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1)));
}

constexpr std::chrono::milliseconds kLimit{5};

double late_us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start - kLimit).count();
}

/// Lateness of a bare sleep of the same length.
double bare_sleep() {
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_until(start + kLimit);
  return late_us_since(start);
}

// Products take some ten times the deadline. Both waits end while they run, in changing order.
void BM_Wait_Deadline(benchmark::State& state) {
  constexpr int kProducts = 4;
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  const Tensor x = zeros(device, {1024, 1024});
  device.sync();
  std::vector<double> late_us;
  std::vector<double> bare_us;
  for (auto _ : state) {
    Tensor y = matmul(x, x);
    for (int i = 1; i < kProducts; ++i) {
      y = matmul(std::move(y), x);
    }
    const Pending<double> value = sum(y).item_later();
    const bool is_bare_first = bare_us.size() % 2 == 1;
    if (is_bare_first) {
      bare_us.push_back(bare_sleep());
    }
    const Clock::time_point start = Clock::now();
    const Status status = value.wait({.deadline = Deadline::in(kLimit)});
    late_us.push_back(late_us_since(start));
    if (!is_bare_first) {
      bare_us.push_back(bare_sleep());
    }
    if (status.has_value() || value.is_ready()) {
      state.SkipWithError("the device was faster than the waits");
      return;
    }
    state.PauseTiming();
    device.sync();
    state.ResumeTiming();
  }
  std::ranges::sort(late_us);
  std::ranges::sort(bare_us);
  state.counters["late_p50_us"] = at_part(late_us, 0.5);
  state.counters["late_p99_us"] = at_part(late_us, 0.99);
  state.counters["bare_p50_us"] = at_part(bare_us, 0.5);
  state.counters["bare_p99_us"] = at_part(bare_us, 0.99);
  state.counters["ratio_p50"] = at_part(late_us, 0.5) / at_part(bare_us, 0.5);
  state.counters["ratio_p99"] = at_part(late_us, 0.99) / at_part(bare_us, 0.99);
}
BENCHMARK(BM_Wait_Deadline)->Iterations(200)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth
