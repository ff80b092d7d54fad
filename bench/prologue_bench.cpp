// A prologue and its consumer as two calls and as one, in turns in one run. Counters are the lowest
// microseconds of either; `ratio` is one call's time divided by that of two. With `is_cold`, other
// data fill the caches before each call.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/backends/cpu/cpu_backend.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "tests/backends/made_input.hpp"

namespace hearth {
namespace {

using testing::OwnedCall;
using testing::PrologueCall;
using Inputs = std::vector<std::pair<DType, Shape>>;

cpu::CpuOptions options_of(std::int64_t count) {
  std::vector<int> cores = available_cores();
  cores.resize(std::min(cores.size(), static_cast<std::size_t>(count)));
  return {.cores = cores};
}

class Caches {
 public:
  void fill() {
    for (std::size_t i = 0; i < bytes_.size(); i += 64) {
      ++bytes_[i];
    }
    benchmark::DoNotOptimize(bytes_.data());
  }

 private:
  std::vector<unsigned char> bytes_ = std::vector<unsigned char>(std::size_t{48} << 20U);
};

void compare(benchmark::State& state, Backend& device, const PrologueCall& made, bool is_cold) {
  const KernelCall one = made.call();
  if (!device.supports(one).yes) {
    state.SkipWithError("the device takes no such call");
    return;
  }
  Caches caches;
  using Microseconds = std::chrono::duration<double, std::micro>;
  double two_us = std::numeric_limits<double>::max();
  double one_us = two_us;
  // Short calls run several times, so that reading the clock does not count.
  const std::int64_t times = is_cold ? 1 : 16;
  const auto timed = [&](double& lowest, const auto& work) {
    if (is_cold) {
      caches.fill();
    }
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < times; ++i) {
      work();
    }
    const Microseconds taken = std::chrono::steady_clock::now() - start;
    lowest = std::min(lowest, taken.count() / static_cast<double>(times));
  };
  for (auto _ : state) {
    timed(two_us, [&] {
      testing::run_call(device, made.maker_call()).value();
      testing::run_call(device, made.op_call()).value();
    });
    timed(one_us, [&] { testing::run_call(device, one).value(); });
  }
  state.counters["two_us"] = two_us;
  state.counters["one_us"] = one_us;
  state.counters["ratio"] = one_us / two_us;
}

/// silu(x)·s + b (rows:0) or RMS norm (rows:1) of [m, k], times [k, n].
void BM_Prologue_Product(benchmark::State& state) {
  cpu::CpuBackend device(options_of(state.range(5)));
  constexpr DType kType = DType::f32;
  const bool has_rows = state.range(0) != 0;
  const std::int64_t m = state.range(1);
  const std::int64_t k = state.range(2);
  const std::int64_t n = state.range(3);
  const Shape x{m, k};
  Inputs inputs{{kType, x}, {kType, {k}}};
  if (!has_rows) {
    inputs.emplace_back(kType, Shape{k});
  }
  OwnedCall producer(OpKind::expression, inputs, kType, x);
  producer.with(ExpressionAttributes{.row_axes = has_rows ? 1U : 0U})
      .with(has_rows ? testing::norm_expression(kType) : testing::silu_expression(kType));
  const OwnedCall product(OpKind::matmul, {{kType, x}, {kType, {k, n}}}, kType, {m, n});
  compare(state, device, PrologueCall(producer, product), state.range(4) != 0);
}
BENCHMARK(BM_Prologue_Product)
    ->ArgNames({"rows", "m", "k", "n", "is_cold", "cores"})
    ->ArgsProduct({{0}, {512}, {2048}, {512}, {0, 1}, {1, 2}})
    ->ArgsProduct({{1}, {512}, {768}, {768}, {0, 1}, {1, 2}})
    ->ArgsProduct({{0}, {2048}, {128}, {512}, {0, 1}, {1, 2}})
    ->ArgsProduct({{0}, {2048}, {512}, {128}, {0, 1}, {1, 2}})
    ->ArgsProduct({{0}, {4096}, {512}, {10}, {0, 1}, {1, 2}})
    ->ArgsProduct({{0, 1}, {4}, {784}, {512}, {0}, {1, 2}})
    ->UseRealTime();

/// The first (layer:1) and second convolution of the CNN of infer_bench with relu, and its pool.
void BM_Prologue_ConvPool(benchmark::State& state) {
  cpu::CpuBackend device(options_of(state.range(3)));
  constexpr DType kType = DType::f32;
  const std::int64_t batch = state.range(1);
  const bool is_first = state.range(0) == 1;
  const std::int64_t side = is_first ? 28 : 14;
  const std::int64_t from = is_first ? 1 : 32;
  const Shape made{batch, 2 * std::max<std::int64_t>(from, 16), side, side};
  OwnedCall producer(
      OpKind::conv2d,
      {{kType, {batch, from, side, side}}, {kType, {made[1], from, 3, 3}}, {kType, {made[1]}}},
      kType,
      made);
  producer.with(ConvAttributes{.padding = {1, 1}}).with_plain_relu();
  OwnedCall pool(OpKind::max_pool2d, {{kType, made}}, kType, {batch, made[1], side / 2, side / 2});
  pool.with(PoolAttributes{});
  compare(state, device, PrologueCall(producer, pool), state.range(2) != 0);
}
BENCHMARK(BM_Prologue_ConvPool)
    ->ArgNames({"layer", "pictures", "is_cold", "cores"})
    ->ArgsProduct({{1, 2}, {1, 16, 64}, {0, 1}, {1, 2}})
    ->UseRealTime();

/// max_pool2d(silu(x)·s + b) on pictures of `side` x `side` with 32 channels.
void BM_Prologue_Pool(benchmark::State& state) {
  cpu::CpuBackend device(options_of(state.range(3)));
  constexpr DType kType = DType::f32;
  const std::int64_t side = state.range(1);
  const Shape x{state.range(0), 32, side, side};
  OwnedCall producer(
      OpKind::expression, {{kType, x}, {kType, {32, 1, 1}}, {kType, {32, 1, 1}}}, kType, x);
  producer.with(ExpressionAttributes{}).with(testing::silu_expression(kType));
  OwnedCall pool(OpKind::max_pool2d, {{kType, x}}, kType, {x[0], x[1], side / 2, side / 2});
  pool.with(PoolAttributes{});
  compare(state, device, PrologueCall(producer, pool), state.range(2) != 0);
}
BENCHMARK(BM_Prologue_Pool)
    ->ArgNames({"pictures", "side", "is_cold", "cores"})
    ->ArgsProduct({{8}, {112}, {0, 1}, {1, 2}})
    ->UseRealTime();

/// mean(silu(x)·s + b) over all of [rows, 1024], as for a loss. One thread folds 64 rows, several
/// threads more.
void BM_Prologue_Mean(benchmark::State& state) {
  cpu::CpuBackend device(options_of(state.range(2)));
  constexpr DType kType = DType::f32;
  const Shape x{state.range(0), 1024};
  OwnedCall producer(OpKind::expression, {{kType, x}, {kType, {1024}}, {kType, {1024}}}, kType, x);
  producer.with(ExpressionAttributes{}).with(testing::silu_expression(kType));
  OwnedCall mean(OpKind::reduce_mean, {{kType, x}}, kType, {});
  mean.with(ReduceAttributes{.axes = 0b11});
  compare(state, device, PrologueCall(producer, mean), state.range(1) != 0);
}
BENCHMARK(BM_Prologue_Mean)
    ->ArgNames({"rows", "is_cold", "cores"})
    ->ArgsProduct({{64, 512, 8192}, {0, 1}, {1, 2}})
    ->UseRealTime();

}  // namespace
}  // namespace hearth
