// Norms and softmax of plain ops, op by op and as fused rows, beside a bare copy of the same bytes
// by as many threads.
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

namespace hearth {
namespace {

Runtime runtime_on(std::int64_t core_count, bool fuses) {
  std::vector<int> cores = available_cores();
  cores.resize(std::min(cores.size(), static_cast<std::size_t>(core_count)));
  return Runtime(
      {.devices = {{.name = "cpu:0", .cores = cores}}, .fusion = fuses ? Fusion::on : Fusion::off});
}

Tensor softmax_of_parts(const Tensor& x, const Tensor& /*weight*/) {
  const Tensor shifted = exp(x - max(x, {-1}, {.keep_dims = true}));
  return shifted / sum(shifted, {-1}, {.keep_dims = true});
}
Tensor rms_norm_of(const Tensor& x, const Tensor& weight) {
  return rms_norm(x, weight);
}
Tensor layer_norm_of(const Tensor& x, const Tensor& weight) {
  return layer_norm(x, weight, weight);
}

template <Tensor (*formula)(const Tensor&, const Tensor&)>
void rows(benchmark::State& state) {
  const Runtime runtime = runtime_on(state.range(2), state.range(3) != 0);
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const std::int64_t width = state.range(1);
  const Tensor x = random_normal(device, {state.range(0), width}, generator);
  const Tensor weight = random_normal(device, {width}, generator);
  for (auto _ : state) {
    const Tensor y = formula(x, weight);
    device.sync();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * width * 8);
}

void BM_Rows_Softmax(benchmark::State& state) {
  rows<softmax_of_parts>(state);
}
void BM_Rows_RmsNorm(benchmark::State& state) {
  rows<rms_norm_of>(state);
}
void BM_Rows_LayerNorm(benchmark::State& state) {
  rows<layer_norm_of>(state);
}

// The limit: the time of the input and output bytes alone.
void BM_Rows_BareCopy(benchmark::State& state) {
  const auto elements = static_cast<std::size_t>(state.range(0) * state.range(1));
  const auto threads = static_cast<std::size_t>(state.range(2));
  const std::vector<float> from(elements, 1);
  std::vector<float> to(elements);
  const std::vector<int> cores = available_cores();
  const auto copy = [&](std::size_t thread, std::int64_t times) {
    static_cast<void>(pin_current_thread(std::span(cores).subspan(thread % cores.size(), 1)));
    const std::size_t begin = elements * thread / threads;
    const std::size_t end = elements * (thread + 1) / threads;
    for (std::int64_t i = 0; i < times; ++i) {
      std::memcpy(to.data() + begin, from.data() + begin, (end - begin) * sizeof(float));
      benchmark::ClobberMemory();
    }
  };
  constexpr std::int64_t kTimes = 20;
  for (auto _ : state) {
    std::vector<std::thread> others;
    for (std::size_t t = 0; t < threads; ++t) {
      others.emplace_back(copy, t, kTimes);
    }
    for (std::thread& other : others) {
      other.join();
    }
  }
  state.counters["ns_per_copy"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kTimes),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetBytesProcessed(state.iterations() * kTimes * state.range(0) * state.range(1) * 8);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "width", "cores", "fused"});
  for (const std::int64_t cores : {1, 2}) {
    for (const std::int64_t fused : {0, 1}) {
      bench->Args({4096, 1024, cores, fused})->Args({65536, 64, cores, fused});
    }
  }
  bench->UseRealTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(BM_Rows_Softmax)->Apply(shapes);
BENCHMARK(BM_Rows_RmsNorm)->Apply(shapes);
BENCHMARK(BM_Rows_LayerNorm)->Apply(shapes);
BENCHMARK(BM_Rows_BareCopy)
    ->ArgNames({"rows", "width", "cores"})
    ->Args({4096, 1024, 1})
    ->Args({4096, 1024, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace hearth
