// Cost of an idle runtime with four devices: processor time of the whole process over ten seconds.
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include <benchmark/benchmark.h>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

namespace hearth {
namespace {

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void BM_Idle_Runtime(benchmark::State& state) {
  const Runtime runtime({.cpu_device_count = 4});
  for (const Device& device : runtime.devices()) {
    static_cast<void>((ones(device, {64}) + 1).to_vector<float>());
  }
  double used = 0;
  for (auto _ : state) {
    const double before = processor_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(10));
    used += processor_seconds() - before;
  }
  state.counters["cpu_ms_in_10_s"] = used * 1e3 / static_cast<double>(state.iterations());
}
BENCHMARK(BM_Idle_Runtime)->Iterations(1)->UseRealTime();

}  // namespace
}  // namespace hearth
