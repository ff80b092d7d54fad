// An optimizer's step: 200 parameters of a model with layers of 64, in one update group.
#include <iterator>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/runtime.hpp>

#include "adam_steps.hpp"

namespace hearth {
namespace {

void run_steps(benchmark::State& state, bool is_conditional) {
  const std::vector<int> all_cores = available_cores();
  const std::int64_t cores = state.range(1);
  if (cores > std::ssize(all_cores)) {
    state.SkipWithError("this machine has fewer cores");
    return;
  }
  const Runtime runtime(
      {.devices = {{.name = "cpu:0", .cores = {all_cores.begin(), all_cores.begin() + cores}}}});
  const Device device = runtime.device("cpu:0");
  bench::AdamSteps steps(device, state.range(0));
  if (is_conditional) {
    steps.set_condition();
  }
  for ([[maybe_unused]] const auto _ : state) {
    steps.step();
  }
  state.SetItemsProcessed(state.iterations() * bench::AdamSteps::kParameters);
}

void BM_Update_AdamW(benchmark::State& state) {
  run_steps(state, false);
}
BENCHMARK(BM_Update_AdamW)
    ->ArgNames({"width", "cores"})
    ->ArgsProduct({{16, 64, 256}, {1, 2}})
    ->UseRealTime();

// With a condition that holds (UpdateGroup::when).
void BM_Update_AdamWWhen(benchmark::State& state) {
  run_steps(state, true);
}
BENCHMARK(BM_Update_AdamWWhen)
    ->ArgNames({"width", "cores"})
    ->ArgsProduct({{16, 64, 256}, {1, 2}})
    ->UseRealTime();

}  // namespace
}  // namespace hearth
