// Attention beside the same function of plain ops with its scores in memory. Also one token with a
// cache, and a transformer layer of the peers' sizes.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/modules/transformer_encoder_layer.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

namespace hearth {
namespace {

struct Machine {
  explicit Machine(std::int64_t core_count)
      : runtime({.devices = {{.name = "cpu:0", .cores = cores(core_count)}}}) {}

  static std::vector<int> cores(std::int64_t count) {
    std::vector<int> all = available_cores();
    all.resize(std::min(all.size(), static_cast<std::size_t>(count)));
    return all;
  }
  Tensor normal(const Shape& shape) { return random_normal(device, shape, generator); }

  Runtime runtime;
  Device device = runtime.device("cpu:0");
  Generator generator{1};
};

Tensor by_plain_ops(const Tensor& q, const Tensor& k, const Tensor& v) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.shape()[q.shape().rank() - 1]));
  return matmul(softmax(matmul(q * scale, transpose(k))), v);
}
Tensor by_one_kernel(const Tensor& q, const Tensor& k, const Tensor& v) {
  return attention(q, k, v);
}

// Arguments: [batch, heads, length, width], cores, whether with gradients.
template <Tensor (*attend)(const Tensor&, const Tensor&, const Tensor&)>
void run_attention(benchmark::State& state) {
  Machine machine(state.range(4));
  const Shape shape{state.range(0), state.range(1), state.range(2), state.range(3)};
  const std::vector<Tensor> inputs{
      machine.normal(shape), machine.normal(shape), machine.normal(shape)};
  const Tensor incoming = machine.normal(shape);
  const bool has_gradients = state.range(5) != 0;
  for (auto _ : state) {
    if (has_gradients) {
      const std::vector<Tensor> slopes = grad(
          [&](const std::vector<Tensor>& in) {
            return sum(attend(in[0], in[1], in[2]) * incoming);
          },
          inputs);
      machine.device.sync();
    } else {
      const Tensor y = attend(inputs[0], inputs[1], inputs[2]);
      machine.device.sync();
    }
  }
  const auto scores = static_cast<double>(shape.element_count() * shape[2]);
  state.counters["GFLOP/s"] = benchmark::Counter(
      scores * (has_gradients ? 14 : 4) / 1e9 * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}

void BM_Attention_Kernel(benchmark::State& state) {
  run_attention<by_one_kernel>(state);
}
void BM_Attention_PlainOps(benchmark::State& state) {
  run_attention<by_plain_ops>(state);
}

// One query per head against a cache: [heads, key heads, length, width], cores. Limited by reading
// the cache.
void BM_Attention_OneToken(benchmark::State& state) {
  Machine machine(state.range(4));
  const Tensor q = machine.normal({1, state.range(0), 1, state.range(3)});
  const Shape cache{1, state.range(1), state.range(2), state.range(3)};
  const Tensor k = machine.normal(cache);
  const Tensor v = machine.normal(cache);
  for (auto _ : state) {
    const Tensor y = attention(q, k, v);
    machine.device.sync();
  }
  state.SetBytesProcessed(state.iterations() * cache.element_count() * 8);
}

// A transformer layer of the peers' sizes. Argument: cores.
void transformer_layer(benchmark::State& state, bool trains) {
  Machine machine(state.range(0));
  const TransformerEncoderLayer layer(
      {.width = 256, .heads = 8, .inner = 1024, .dropout = 0}, machine.device, machine.generator);
  const Tensor x = machine.normal({8, 128, 256});
  for (auto _ : state) {
    if (trains) {
      auto gradients = value_and_grad(layer, [&](const TransformerEncoderLayer& model) {
        return mean(square(model.forward(x, Mode::eval)));
      });
      machine.device.sync();
    } else {
      const Tensor y = layer.forward(x, Mode::eval);
      machine.device.sync();
    }
  }
}
void BM_TransformerLayer_Forward(benchmark::State& state) {
  transformer_layer(state, false);
}
void BM_TransformerLayer_ForwardBackward(benchmark::State& state) {
  transformer_layer(state, true);
}

void shapes(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t cores : {1, 2}) {
    for (const std::int64_t gradients : {0, 1}) {
      bench->Args({8, 8, 128, 32, cores, gradients});
      bench->Args({1, 4, 2048, 128, cores, gradients});
    }
  }
  bench->ArgNames({"batch", "heads", "length", "width", "cores", "gradients"});
  bench->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(BM_Attention_Kernel)->Apply(shapes);
BENCHMARK(BM_Attention_PlainOps)->Apply(shapes);
BENCHMARK(BM_Attention_OneToken)
    ->ArgNames({"heads", "key_heads", "length", "width", "cores"})
    ->Args({32, 32, 2048, 128, 1})
    ->Args({32, 8, 2048, 128, 1})
    ->Args({32, 32, 2048, 128, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_TransformerLayer_Forward)
    ->ArgName("cores")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_TransformerLayer_ForwardBackward)
    ->ArgName("cores")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth
