// Memory that training keeps: the CNN's step, one model per user thread, all on one device.
#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/modules/adam.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "bench_models.hpp"

namespace hearth::bench {
namespace {

constexpr std::int64_t kBatch = 64;
constexpr std::size_t kBatches = 4;

/// Returns a line of /proc/self/status in MiB.
double status_mib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind(key + ":", 0) == 0) {
      return std::stod(line.substr(key.size() + 1)) / 1024;
    }
  }
  return 0;
}

/// Resets the kernel's high-water mark of resident memory.
void reset_resident_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

class Trainer {
 public:
  Trainer(const Device& device, std::uint64_t seed)
      : generator_(seed), model_(device, generator_), adam_({.learning_rate = 1e-3}) {
    for (std::size_t i = 0; i < kBatches; ++i) {
      inputs_.push_back(random_normal(device, Cnn::input_shape(kBatch), generator_));
      targets_.push_back(cast(random_uniform(device, {kBatch}, generator_, 0, 10), DType::i64));
    }
  }

  void run(int step_count) {
    for (int i = 0; i < step_count; ++i, ++step_) {
      auto [loss, gradients] = value_and_grad(model_, [&](const Cnn& tracked) {
        return cross_entropy(tracked.forward(inputs_[step_ % kBatches]),
                             targets_[step_ % kBatches]);
      });
      auto report = adam_.step(model_, std::move(gradients));
      benchmark::DoNotOptimize(loss.item());
    }
  }

 private:
  Generator generator_;
  Cnn model_;
  Adam adam_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> targets_;
  std::size_t step_ = 0;
};

// One iteration: a fresh runtime, `warm` steps per thread (3 with one thread, 50 with more), then
// the rest. Counters: the pool's bytes after the warm steps and at its peaks, and the growth of the
// process's peak resident memory. The counter given_back is how often free bytes were returned to
// the system.
void BM_Memory_TrainCnn(benchmark::State& state) {
  const auto thread_count = static_cast<std::size_t>(state.range(0));
  const auto step_count = static_cast<int>(state.range(1));
  const int warm_count = thread_count == 1 ? 3 : 50;
  for (auto _ : state) {
    const Runtime runtime({.devices = {{.name = "cpu:0", .cores = available_cores()}}});
    const Device device = runtime.device("cpu:0");
    {
      // OpenBLAS allocates its buffers before the count begins.
      const Tensor a = full(device, {512, 512}, 1.0);
      benchmark::DoNotOptimize(sum(matmul(a, a)).item());
    }
    device.trim();
    device.reset_peak_memory();
    reset_resident_peak();
    const double resident_before = status_mib("VmRSS");
    std::vector<std::int64_t> warm(thread_count, 0);
    const auto train = [&](std::size_t index) {
      Trainer trainer(device, index + 1);
      trainer.run(warm_count);
      warm[index] = device.memory().reserved_bytes;
      trainer.run(step_count - warm_count);
    };
    if (thread_count == 1) {
      train(0);
    } else {
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i < thread_count; ++i) {
        threads.emplace_back(train, i);
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
    }
    const MemoryStatistics memory = device.memory();
    constexpr double kMiB = 1024.0 * 1024.0;
    const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / kMiB; };
    state.counters["warm_MiB"] = mib(*std::max_element(warm.begin(), warm.end()));
    state.counters["reserved_MiB"] = mib(memory.peak_reserved_bytes);
    state.counters["live_MiB"] = mib(memory.peak_live_bytes);
    state.counters["ratio"] = static_cast<double>(memory.peak_reserved_bytes) /
                              static_cast<double>(memory.peak_live_bytes);
    state.counters["given_back"] = static_cast<double>(device.memory_report().give_back_count);
    state.counters["resident_MiB"] = status_mib("VmHWM") - resident_before;
  }
}
BENCHMARK(BM_Memory_TrainCnn)
    ->ArgNames({"threads", "steps"})
    ->Args({1, 100})
    ->Args({8, 100})
    ->Args({16, 100})
    ->Args({1, 1000})
    ->Args({8, 1000})
    ->Args({16, 1000})
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::bench
