// Single ops and short chains: launch overhead, square products against bare OpenBLAS, and gelu of
// plain ops.
#include <cmath>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <cblas.h>

#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

namespace hearth {
namespace {

Runtime cpu_runtime(int core_count) {
  std::vector<int> cores = available_cores();
  cores.resize(std::min(cores.size(), static_cast<std::size_t>(core_count)));
  return Runtime({.devices = {{.name = "cpu:0", .cores = cores}}});
}

// Per repetition: new = ones·i; even i: tmp = tmp·rhs + new, odd i: tmp = lhs + tmp + new. At the
// end the threads' results are joined and read. Four ops per repetition. Shapes [1, n, n, n].
Tensor launch_chain(const Device& device, std::int64_t n, std::int64_t repetitions) {
  const Shape shape{1, n, n, n};
  const Tensor lhs = ones(device, shape);
  const Tensor rhs = ones(device, shape);
  Tensor tmp = ones(device, shape);
  for (std::int64_t i = 0; i < repetitions; ++i) {
    Tensor fresh = ones(device, shape) * static_cast<double>(i);
    tmp = i % 2 == 0 ? std::move(tmp) * rhs + std::move(fresh)
                     : lhs + std::move(tmp) + std::move(fresh);
  }
  tmp.publish();
  return tmp;
}

void BM_LaunchOverhead(benchmark::State& state) {
  const Runtime runtime = cpu_runtime(2);
  const Device device = runtime.device("cpu:0");
  const std::int64_t n = state.range(0);
  const std::int64_t repetitions = state.range(1);
  const auto thread_count = static_cast<std::size_t>(state.range(2));
  for (auto _ : state) {
    std::vector<Tensor> results(thread_count);
    std::vector<std::thread> threads;
    for (std::size_t t = 1; t < thread_count; ++t) {
      threads.emplace_back([&, t] { results[t] = launch_chain(device, n, repetitions); });
    }
    results[0] = launch_chain(device, n, repetitions);
    for (std::thread& thread : threads) {
      thread.join();
    }
    benchmark::DoNotOptimize(concat(results, 0).to_vector<float>());
  }
  const auto ops = state.iterations() * repetitions * 4 * static_cast<std::int64_t>(thread_count);
  state.counters["ns_per_op"] = benchmark::Counter(
      static_cast<double>(ops), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetItemsProcessed(ops);
  const DeviceStatistics done = device.statistics();
  state.counters["fused"] = static_cast<double>(done.fused_ops) / static_cast<double>(ops);
  state.counters["kernels"] = static_cast<double>(done.kernels) / static_cast<double>(ops);
}
BENCHMARK(BM_LaunchOverhead)
    ->ArgNames({"n", "repetitions", "threads"})
    ->ArgsProduct({{4, 8}, {512, 1024}, {1, 4, 8, 16}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

constexpr int kProducts = 20;

void report_flops(benchmark::State& state, std::int64_t n) {
  const double flops =
      2.0 * static_cast<double>(n * n * n) * static_cast<double>(state.iterations());
  state.counters["flops"] = benchmark::Counter(flops, benchmark::Counter::kIsRate);
}

// One readback follows each 20 products, and each product is an iteration, so times are per
// product. All products are kept until then, because an unread product is not computed.
void BM_Matmul_Square(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Runtime runtime = cpu_runtime(static_cast<int>(state.range(1)));
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Tensor a = random_uniform(device, {n, n}, generator);
  const Tensor b = random_uniform(device, {n, n}, generator);
  while (state.KeepRunningBatch(kProducts)) {
    std::vector<Tensor> products;
    for (int i = 0; i < kProducts; ++i) {
      products.push_back(matmul(a, b));
    }
    benchmark::DoNotOptimize(products.back()[{0, 0}].item());
  }
  report_flops(state, n);
}
BENCHMARK(BM_Matmul_Square)
    ->ArgNames({"n", "cores"})
    ->ArgsProduct({{64, 256, 1024, 2048}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Products of i8: square ones, and few rows times a layer's weight, stored as [columns, depth].
void BM_Matmul_Int8(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  const std::int64_t n = state.range(1);
  const DType dtype = state.range(2) != 0 ? DType::i8 : DType::f32;
  const bool is_turned = state.range(3) != 0;
  const Runtime runtime = cpu_runtime(static_cast<int>(state.range(4)));
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Tensor a = randint(device, {rows, n}, generator, -127, 128, dtype);
  const Tensor weight = randint(device, {n, n}, generator, -127, 128, dtype);
  const Tensor b = is_turned ? transpose(weight) : weight;
  while (state.KeepRunningBatch(kProducts)) {
    std::vector<Tensor> products;
    for (int i = 0; i < kProducts; ++i) {
      products.push_back(matmul(a, b));
    }
    benchmark::DoNotOptimize(products.back()[{0, 0}].item());
  }
  const double flops = 2.0 * static_cast<double>(rows * n * n);
  state.counters["flops"] = benchmark::Counter(flops * static_cast<double>(state.iterations()),
                                               benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Matmul_Int8)
    ->ArgNames({"rows", "n", "i8", "turned", "cores"})
    ->ArgsProduct({{1, 64, 1024}, {256, 1024, 2048}, {0, 1}, {0, 1}, {1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// The peer in the same run: bare OpenBLAS on one thread, bound to the first core.
void BM_OpenBlas_Square(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  std::vector<float> a(n * n, 0.5F);
  std::vector<float> b(n * n, 0.25F);
  std::vector<float> c(n * n);
  const auto size = static_cast<blasint>(n);
  std::thread([&] {
    const std::vector<int> cores = available_cores();
    static_cast<void>(pin_current_thread(std::span(cores).first(1)));
    openblas_set_num_threads(1);
    while (state.KeepRunningBatch(kProducts)) {
      for (int i = 0; i < kProducts; ++i) {
        cblas_sgemm(CblasRowMajor,
                    CblasNoTrans,
                    CblasNoTrans,
                    size,
                    size,
                    size,
                    1.0F,
                    a.data(),
                    size,
                    b.data(),
                    size,
                    0.0F,
                    c.data(),
                    size);
      }
      benchmark::DoNotOptimize(c.data());
    }
  }).join();
  report_flops(state, state.range(0));
}
BENCHMARK(BM_OpenBlas_Square)
    ->ArgName("n")
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->Arg(2048)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// gelu of five plain ops, x·(erf(x/√2) + 1)/2, on [rows, 512, 1024].
void BM_CustomGelu_Inference(benchmark::State& state) {
  const Runtime runtime = cpu_runtime(static_cast<int>(state.range(1)));
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Tensor x = random_uniform(device, {state.range(0), 512, 1024}, generator);
  for (auto _ : state) {
    const Tensor y = x * (erf(x / std::sqrt(2.0)) + 1) / 2;
    device.sync();
  }
  state.SetBytesProcessed(state.iterations() * x.element_count() * 8);
}
BENCHMARK(BM_CustomGelu_Inference)
    ->ArgNames({"rows", "cores"})
    ->ArgsProduct({{2, 32}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth
