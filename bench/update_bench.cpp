// An optimizer's step: 200 parameters of a model with layers of 64, in one update group.
#include <iterator>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/update_group.hpp>

namespace hearth {
namespace {

struct Trained {
  Tensor parameter;
  Tensor gradient;
  Tensor mean;
  Tensor variance;
};

// Half of them matrices [width, width], half vectors [width].
void BM_Update_AdamW(benchmark::State& state) {
  const std::vector<int> all_cores = available_cores();
  const std::int64_t cores = state.range(1);
  if (cores > std::ssize(all_cores)) {
    state.SkipWithError("this machine has fewer cores");
    return;
  }
  const Runtime runtime(
      {.devices = {{.name = "cpu:0", .cores = {all_cores.begin(), all_cores.begin() + cores}}}});
  const Device device = runtime.device("cpu:0");
  const std::int64_t width = state.range(0);
  constexpr int kParameters = 200;
  std::vector<Trained> all;
  for (int i = 0; i < kParameters; ++i) {
    const Shape shape = i % 2 == 0 ? Shape{width, width} : Shape{width};
    all.push_back({full(device, shape, 1),
                   full(device, shape, 0.1),
                   zeros(device, shape),
                   zeros(device, shape)});
  }
  std::int64_t step = 0;
  for ([[maybe_unused]] const auto _ : state) {
    UpdateGroup group(device);
    ++step;
    for (Trained& each : all) {
      group.adam(each.parameter,
                 each.gradient,
                 each.mean,
                 each.variance,
                 {.learning_rate = 1e-3, .weight_decay = 1e-2, .decoupled = true, .step = step});
    }
    group.commit().get();
  }
  state.SetItemsProcessed(state.iterations() * kParameters);
}
BENCHMARK(BM_Update_AdamW)
    ->ArgNames({"width", "cores"})
    ->ArgsProduct({{16, 64, 256}, {1, 2}})
    ->UseRealTime();

}  // namespace
}  // namespace hearth
