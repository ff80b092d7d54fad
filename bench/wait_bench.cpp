// How late a wait ends whose deadline passes while the device is busy: the error, with its report
// for later, is the caller's.
#include <algorithm>
#include <chrono>
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

// Products that take some ten times the deadline, on a device with one core.
void BM_Wait_Deadline(benchmark::State& state) {
  constexpr std::chrono::milliseconds kLimit{5};
  constexpr int kProducts = 4;
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  const Tensor x = zeros(device, {1024, 1024});
  device.sync();
  std::vector<double> late_us;
  for (auto _ : state) {
    Tensor y = matmul(x, x);
    for (int i = 1; i < kProducts; ++i) {
      y = matmul(std::move(y), x);
    }
    const Pending<double> value = sum(y).item_later();
    const Clock::time_point start = Clock::now();
    const Status status = value.wait(Deadline::in(kLimit));
    const std::chrono::duration<double, std::micro> late = Clock::now() - start - kLimit;
    if (status.has_value()) {
      state.SkipWithError("the device was faster than the deadline");
      return;
    }
    late_us.push_back(late.count());
    state.PauseTiming();
    device.sync();
    state.ResumeTiming();
  }
  std::ranges::sort(late_us);
  state.counters["late_p50_us"] = at_part(late_us, 0.5);
  state.counters["late_p99_us"] = at_part(late_us, 0.99);
}
BENCHMARK(BM_Wait_Deadline)->Iterations(200)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth
