// Training steps of the peers' MLP and CNN, lower bounds of a step, and batch-1 inference.
#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
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
constexpr std::size_t kBatches = 16;

Runtime cpu_runtime(std::int64_t core_count, std::optional<Fusion> fusion = {}) {
  std::vector<int> cores = available_cores();
  cores.resize(std::min(cores.size(), static_cast<std::size_t>(core_count)));
  return Runtime({.devices = {{.name = "cpu:0", .cores = cores}}, .fusion = fusion});
}

// Adam with the loss read back each step, as the peers do.
template <class Model>
void train_step(benchmark::State& state) {
  const Runtime runtime = cpu_runtime(state.range(0));
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  Model model(device, generator);
  Adam adam({.learning_rate = 1e-3});
  std::vector<Tensor> inputs;
  std::vector<Tensor> targets;
  for (std::size_t i = 0; i < kBatches; ++i) {
    inputs.push_back(random_normal(device, Model::input_shape(kBatch), generator));
    targets.push_back(cast(random_uniform(device, {kBatch}, generator, 0, 10), DType::i64));
  }
  std::size_t step = 0;
  double loss = 0;
  for (auto _ : state) {
    const std::size_t batch = step++ % kBatches;
    auto [value, gradients] = value_and_grad(model, [&](const Model& tracked) {
      return cross_entropy(tracked.forward(inputs[batch]), targets[batch]);
    });
    auto report = adam.step(model, std::move(gradients));
    loss = value.item();
  }
  device.sync();
  state.counters["loss"] = loss;
  state.counters["peak_bytes"] = static_cast<double>(device.memory().peak_live_bytes);
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void BM_TrainStep_Mlp(benchmark::State& state) {
  train_step<Mlp>(state);
}
void BM_TrainStep_Cnn(benchmark::State& state) {
  train_step<Cnn>(state);
}
BENCHMARK(BM_TrainStep_Mlp)
    ->ArgName("cores")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_TrainStep_Cnn)
    ->ArgName("cores")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Lower bound of the MLP's step: its forward and backward products by our own kernels, and Adam's
// bytes at the speed of a copy. Adam reads four tensors and writes three.
void BM_TrainFloor_Mlp(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  using Microseconds = std::chrono::duration<double, std::micro>;
  const Runtime runtime = cpu_runtime(state.range(0), Fusion::off);
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  constexpr std::array<std::int64_t, 4> kWidths{784, 512, 512, 10};
  std::vector<Tensor> activations{random_normal(device, {kBatch, kWidths[0]}, generator)};
  std::vector<Tensor> weights;
  std::int64_t parameters = 0;
  for (std::size_t layer = 0; layer + 1 < kWidths.size(); ++layer) {
    weights.push_back(random_normal(device, {kWidths[layer], kWidths[layer + 1]}, generator));
    activations.push_back(random_normal(device, {kBatch, kWidths[layer + 1]}, generator));
    parameters += (kWidths[layer] + 1) * kWidths[layer + 1];
  }
  constexpr std::int64_t kAdamTensors = 7;
  const Tensor moved = random_normal(device, {parameters * kAdamTensors / 2}, generator);
  Microseconds products{};
  Microseconds adam{};
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    for (std::size_t layer = 0; layer < weights.size(); ++layer) {
      const Tensor forward = matmul(activations[layer], weights[layer]);
      const Tensor& gradient = activations[layer + 1];
      const Tensor of_weight = matmul(transpose(activations[layer]), gradient);
      if (layer > 0) {
        const Tensor of_input = matmul(gradient, transpose(weights[layer]));
      }
    }
    device.sync();
    const Clock::time_point middle = Clock::now();
    const Tensor written = neg(moved);
    device.sync();
    products += middle - start;
    adam += Clock::now() - middle;
  }
  const auto steps = static_cast<double>(state.iterations());
  state.counters["products_us"] = products.count() / steps;
  state.counters["adam_us"] = adam.count() / steps;
}
BENCHMARK(BM_TrainFloor_Mlp)
    ->ArgName("cores")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Lower bound of a step of examples/char_gpt for 32 texts of 64 letters. Our own kernels compute
// the forward and backward products of its four layers and its head, one after the other.
void BM_TrainFloor_Gpt(benchmark::State& state) {
  const Runtime runtime = cpu_runtime(state.range(0), Fusion::off);
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  constexpr std::int64_t kTokens = 32 * 64;
  constexpr int kLayers = 4;
  struct Product {
    std::int64_t in, out;
    int times;
  };
  constexpr std::array<Product, 5> kProducts{{{128, 384, kLayers},
                                              {128, 128, kLayers},
                                              {128, 512, kLayers},
                                              {512, 128, kLayers},
                                              {128, 65, 1}}};
  std::vector<std::array<Tensor, 3>> operands;  // input, weight, gradient of the result
  double flops = 0;
  for (const Product& each : kProducts) {
    for (int i = 0; i < each.times; ++i) {
      operands.push_back({random_normal(device, {kTokens, each.in}, generator),
                          random_normal(device, {each.in, each.out}, generator),
                          random_normal(device, {kTokens, each.out}, generator)});
      flops += 3 * 2.0 * static_cast<double>(kTokens * each.in * each.out);
    }
  }
  for (auto _ : state) {
    for (const auto& [input, weight, gradient] : operands) {
      const Tensor forward = matmul(input, weight);
      const Tensor of_weight = matmul(transpose(input), gradient);
      const Tensor of_input = matmul(gradient, transpose(weight));
    }
    device.sync();
  }
  state.counters["flops"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_TrainFloor_Gpt)
    ->ArgName("cores")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

template <class Model>
void infer(benchmark::State& state) {
  const Runtime runtime = cpu_runtime(state.range(1));
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const Model model(device, generator);
  const Tensor x = random_normal(device, Model::input_shape(state.range(0)), generator);
  for (auto _ : state) {
    benchmark::DoNotOptimize(model.forward(x).template to_vector<float>());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void BM_Infer_Mlp(benchmark::State& state) {
  infer<Mlp>(state);
}
void BM_Infer_Cnn(benchmark::State& state) {
  infer<Cnn>(state);
}
BENCHMARK(BM_Infer_Mlp)
    ->ArgNames({"batch", "cores"})
    ->ArgsProduct({{1, 4, 16, 64}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Infer_Cnn)
    ->ArgNames({"batch", "cores"})
    ->ArgsProduct({{1, 4, 16, 64}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace hearth::bench
