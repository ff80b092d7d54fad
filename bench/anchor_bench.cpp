// Epilogues of a gather, a pool and attention: in the anchor's kernel (fusion:1) and in kernels of
// their own (fusion:0).
#include <algorithm>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "measure.hpp"

namespace hearth {
namespace {

using bench::measure;

/// The last two arguments of each benchmark: fusion, cores.
Runtime runtime_of(const benchmark::State& state, std::size_t fusion_at) {
  std::vector<int> cores = available_cores();
  const auto count = static_cast<std::size_t>(state.range(fusion_at + 1));
  cores.resize(std::min(cores.size(), count));
  return Runtime({.devices = {{.name = "cpu:0", .cores = cores}},
                  .fusion = state.range(fusion_at) != 0 ? Fusion::on : Fusion::off});
}

/// Texts of `length` letters each: (embedding of letters + places) * 0.5.
void BM_Anchor_Embedding(benchmark::State& state) {
  const Runtime runtime = runtime_of(state, 3);
  const Device device = runtime.device("cpu:0");
  const std::int64_t texts = state.range(0);
  const std::int64_t length = state.range(1);
  const std::int64_t width = state.range(2);
  constexpr std::int64_t kWords = 4'096;
  Generator generator(1);
  const Tensor words = random_normal(device, {kWords, width}, generator);
  const Tensor places = random_normal(device, {length, width}, generator);
  std::vector<std::int64_t> text(static_cast<std::size_t>(texts * length));
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<std::int64_t>(i * i * 7919 % kWords);
  }
  const Tensor index = Tensor::from(device, text, {texts, length});
  device.sync();
  measure(state, device, [&] { return (embedding(words, index) + places) * 0.5; });
}
BENCHMARK(BM_Anchor_Embedding)
    ->ArgNames({"texts", "length", "width", "fusion", "cores"})
    ->ArgsProduct({{32}, {64}, {128}, {0, 1}, {1, 2}})
    ->ArgsProduct({{8}, {512}, {768}, {0, 1}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

/// Pictures of `side` x `side` with 32 channels.
void BM_Anchor_MaxPool(benchmark::State& state) {
  const Runtime runtime = runtime_of(state, 2);
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Tensor x =
      random_normal(device, {state.range(0), 32, state.range(1), state.range(1)}, generator);
  const Tensor scale = random_normal(device, {32, 1, 1}, generator);
  const Tensor shift = random_normal(device, {32, 1, 1}, generator);
  device.sync();
  measure(state, device, [&] { return relu(max_pool2d(x) * scale + shift); });
}
BENCHMARK(BM_Anchor_MaxPool)
    ->ArgNames({"pictures", "side", "fusion", "cores"})
    ->ArgsProduct({{1, 64}, {28}, {0, 1}, {1, 2}})
    ->ArgsProduct({{8}, {112}, {0, 1}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

/// Four causal heads of 32 columns, times a gate, plus a residual.
void BM_Anchor_Attention(benchmark::State& state) {
  const Runtime runtime = runtime_of(state, 2);
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Shape shape{state.range(0), 4, state.range(1), 32};
  const Tensor q = random_normal(device, shape, generator);
  const Tensor k = random_normal(device, shape, generator);
  const Tensor v = random_normal(device, shape, generator);
  const Tensor gate = random_normal(device, shape, generator);
  device.sync();
  measure(state, device, [&] { return attention(q, k, v, {.causal = true}) * gate + q; });
}
BENCHMARK(BM_Anchor_Attention)
    ->ArgNames({"batch", "length", "fusion", "cores"})
    ->ArgsProduct({{32}, {64}, {0, 1}, {1, 2}})
    ->ArgsProduct({{1}, {1024}, {0, 1}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace hearth
