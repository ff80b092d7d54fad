// Linear algebra and Fourier transforms, beside PyTorch's (linear_figures.py, with equal sizes).
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/fourier_ops.hpp>
#include <hearth/runtime/linalg_ops.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

namespace hearth {
namespace {

class LinearMachine {
 public:
  LinearMachine() {
    std::vector<int> cores = available_cores();
    cores.resize(std::min<std::size_t>(cores.size(), 2));
    runtime_ = std::make_unique<Runtime>(
        RuntimeOptions{.devices = {{.name = "cpu:0", .cores = std::move(cores)}}});
  }
  [[nodiscard]] Device device() const { return runtime_->device("cpu:0"); }
  [[nodiscard]] Tensor normal(const Shape& shape) {
    return random_normal(device(), shape, generator_);
  }
  [[nodiscard]] Tensor positive(const Shape& shape) {
    const Tensor x = normal(shape);
    const auto n = shape[-1];
    return matmul(x, transpose(x)) + eye(device(), n) * static_cast<double>(n);
  }
  /// Times a function and the wait for its result, after two calls that take memory and make plans.
  void time(benchmark::State& state, const std::function<Tensor()>& fn) const {
    for (int i = 0; i < 2; ++i) {
      benchmark::DoNotOptimize(fn());
      device().sync();
    }
    for (auto _ : state) {
      const Tensor result = fn();
      device().sync();
      benchmark::DoNotOptimize(result);
    }
  }

 private:
  std::unique_ptr<Runtime> runtime_;
  Generator generator_{1};
};

using LinearOp = Tensor (*)(const Tensor& positive, const Tensor& any);

// Matrices [batch, n, n], or [n, n] for batch 1.
template <LinearOp op>
void run_linear(benchmark::State& state) {
  LinearMachine machine;
  const std::int64_t batch = state.range(0);
  const std::int64_t n = state.range(1);
  const Shape shape = batch == 1 ? Shape{n, n} : Shape{batch, n, n};
  const Tensor positive = machine.positive(shape);
  const Tensor any = machine.normal(shape);
  machine.time(state, [&] { return op(positive, any); });
}

constexpr LinearOp kCholesky = [](const Tensor& x, const Tensor& /*any*/) { return cholesky(x); };
constexpr LinearOp kSolve = [](const Tensor& x, const Tensor& b) { return solve(x, b); };
constexpr LinearOp kInverse = [](const Tensor& x, const Tensor& /*any*/) { return inverse(x); };
constexpr LinearOp kSlogdet = [](const Tensor& x, const Tensor& /*any*/) {
  return slogdet(x).log_magnitude;
};
constexpr LinearOp kTriangular = [](const Tensor& x, const Tensor& b) {
  return solve_triangular(x, b);
};
constexpr LinearOp kQr = [](const Tensor& /*x*/, const Tensor& any) { return qr(any).q; };
constexpr LinearOp kEigh = [](const Tensor& x, const Tensor& /*any*/) { return eigh(x).values; };
constexpr LinearOp kSvd = [](const Tensor& /*x*/, const Tensor& any) { return svd(any).values; };

void many_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"batch", "n"})
      ->Args({1, 64})
      ->Args({1, 256})
      ->Args({1, 1024})
      ->Args({1000, 8})
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}
void few_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"batch", "n"})
      ->Args({1, 64})
      ->Args({1, 256})
      ->Args({1000, 8})
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

void BM_Linear_Cholesky(benchmark::State& state) {
  run_linear<kCholesky>(state);
}
BENCHMARK(BM_Linear_Cholesky)->Apply(many_sizes);
void BM_Linear_Solve(benchmark::State& state) {
  run_linear<kSolve>(state);
}
BENCHMARK(BM_Linear_Solve)->Apply(many_sizes);
void BM_Linear_Inverse(benchmark::State& state) {
  run_linear<kInverse>(state);
}
BENCHMARK(BM_Linear_Inverse)->Apply(many_sizes);
void BM_Linear_Slogdet(benchmark::State& state) {
  run_linear<kSlogdet>(state);
}
BENCHMARK(BM_Linear_Slogdet)->Apply(many_sizes);
void BM_Linear_Triangular(benchmark::State& state) {
  run_linear<kTriangular>(state);
}
BENCHMARK(BM_Linear_Triangular)->Apply(many_sizes);
void BM_Linear_Qr(benchmark::State& state) {
  run_linear<kQr>(state);
}
BENCHMARK(BM_Linear_Qr)->Apply(few_sizes);
void BM_Linear_Eigh(benchmark::State& state) {
  run_linear<kEigh>(state);
}
BENCHMARK(BM_Linear_Eigh)->Apply(few_sizes);
void BM_Linear_Svd(benchmark::State& state) {
  run_linear<kSvd>(state);
}
BENCHMARK(BM_Linear_Svd)->Apply(few_sizes);

void rows_and_lengths(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "n"})
      ->Args({1, 1024})
      ->Args({64, 400})
      ->Args({64, 1024})
      ->Args({64, 4096})
      ->Args({16, 4097})
      ->Args({1, 65536})
      ->Args({4, 50257})
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

void BM_Fourier_Complex(benchmark::State& state) {
  LinearMachine machine;
  const Tensor x = machine.normal({state.range(0), state.range(1), 2});
  machine.time(state, [&] { return fft(x); });
}
BENCHMARK(BM_Fourier_Complex)->Apply(rows_and_lengths);
void BM_Fourier_Real(benchmark::State& state) {
  LinearMachine machine;
  const Tensor x = machine.normal({state.range(0), state.range(1)});
  machine.time(state, [&] { return rfft(x); });
}
BENCHMARK(BM_Fourier_Real)->Apply(rows_and_lengths);
void BM_Fourier_RealInverse(benchmark::State& state) {
  LinearMachine machine;
  const std::int64_t n = state.range(1);
  const Tensor x = machine.normal({state.range(0), n / 2 + 1, 2});
  machine.time(state, [&] { return irfft(x, {.length = n}); });
}
BENCHMARK(BM_Fourier_RealInverse)->Apply(rows_and_lengths);
void BM_Fourier_Plane(benchmark::State& state) {
  LinearMachine machine;
  const Tensor x = machine.normal({8, state.range(0), state.range(0), 2});
  machine.time(state, [&] { return fft2(x); });
}
BENCHMARK(BM_Fourier_Plane)->ArgName("n")->Arg(256)->UseRealTime()->Unit(benchmark::kMicrosecond);
void BM_Fourier_Stft(benchmark::State& state) {
  LinearMachine machine;
  const Tensor x = machine.normal({16, state.range(0)});
  const Tensor window = hann_window(machine.device(), 400);
  machine.time(state, [&] { return stft(x, window, {.size = 400}); });
}
BENCHMARK(BM_Fourier_Stft)
    ->ArgName("samples")
    ->Arg(16000)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace hearth
