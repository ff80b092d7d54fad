// Weak scaling of data-parallel training: 64 samples per device, one pinned core each.
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/parallel/data_parallel.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "bench_models.hpp"

namespace hearth::bench {
namespace {

constexpr std::int64_t kPerDevice = 64;

/// The batch is on the device already, as in the peers' programs.
struct Shard {
  std::int64_t size = kPerDevice;
};

void BM_DataParallel_Cnn(benchmark::State& state) {
  const auto workers = static_cast<std::size_t>(state.range(0));
  const std::vector<int> cores = available_cores();
  if (cores.size() < workers) {
    state.SkipWithError("a pinned core for each worker: this machine has too few");
    return;
  }
  RuntimeOptions options;
  for (std::size_t i = 0; i < workers; ++i) {
    options.devices.push_back({.name = "cpu:" + std::to_string(i), .cores = {cores[i]}});
  }
  const Runtime runtime(options);
  Generator generator(1);
  std::vector<Device> devices = runtime.devices();
  std::vector<Tensor> inputs;
  std::vector<Tensor> targets;
  for (const Device& device : devices) {
    inputs.push_back(random_normal(device, Cnn::input_shape(kPerDevice), generator));
    targets.push_back(cast(random_uniform(device, {kPerDevice}, generator, 0, 10), DType::i64));
    inputs.back().publish();
    targets.back().publish();
  }
  const auto loss = [&](const Cnn& model, Shard&, WorkerContext& context) {
    const auto rank = static_cast<std::size_t>(context.rank);
    return cross_entropy(model.forward(inputs[rank]), targets[rank]);
  };
  DataParallel<Cnn, Shard> trainer(
      runtime, Cnn(devices.front(), generator), loss, {.devices = devices});
  const std::vector<Shard> shards(workers);
  trainer.step(shards);
  for (auto _ : state) {
    benchmark::DoNotOptimize(trainer.step(shards));
  }
  state.SetItemsProcessed(state.iterations() * kPerDevice * static_cast<std::int64_t>(workers));
}
BENCHMARK(BM_DataParallel_Cnn)
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->Arg(4)
    ->Arg(8)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::bench
