// Cost of a pick on a hit, which every op of a tuned device pays.
#include <hearth/autotune/pick_table.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/backends/builtin/builtin.hpp>
#include <hearth/backends/kernel_maker.hpp>

#include "runtime/device/tuning/picks.hpp"

namespace hearth::detail {
namespace {

std::vector<PickTraits> traits_of(std::int64_t count) {
  std::vector<PickTraits> traits;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    traits.push_back({.header = 40, .operands = {i, i * 3, 7}, .layouts = 1});
  }
  return traits;
}

// A hit, in a program of that many calls.
void BM_PickTable_Find(benchmark::State& state) {
  const std::vector<PickTraits> traits = traits_of(state.range(0));
  PickTable table;
  for (const PickTraits& each : traits) {
    table.put(each, 5);
  }
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(table.find(traits[next]));
    next = next + 1 == traits.size() ? 0 : next + 1;
  }
}
BENCHMARK(BM_PickTable_Find)->ArgName("calls")->Arg(1)->Arg(64);

// A pick at a launch, from the call's operands to the answer. transposed: weights along the depth.
void BM_Picks_Pick(benchmark::State& state) {
  const KernelMaker rules;  // lists no candidates
  const Layout a(Shape{32, 64});
  Strides strides{};
  strides[0] = 1;
  strides[1] = 64;
  const Layout b = state.range(0) != 0 ? Layout(Shape{64, 64}, strides) : Layout(Shape{64, 64});
  const Layout c(Shape{32, 64});
  OpRecord record;
  record.kind = OpKind::matmul;
  record.input_count = 2;
  record.output_count = 1;
  const std::vector<TensorView> views{{.layout = &a}, {.layout = &b}, {.layout = &c}};
  const KernelCall call{.op = OpView(record, nullptr),
                        .inputs = std::span(views).first(2),
                        .outputs = std::span(views).subspan(2)};
  Picks picks(1, false);
  for (auto _ : state) {
    benchmark::DoNotOptimize(picks.pick(call, rules));
  }
}
BENCHMARK(BM_Picks_Pick)->ArgName("transposed")->Arg(0)->Arg(1);

// The first call of its traits on a CPU device, without a stored result.
void BM_Picks_Miss(benchmark::State& state) {
  const std::unique_ptr<Backend> device = make_backend({.name = "cpu:0"}).value();
  const Layout a(Shape{32, 64});
  const Layout b(Shape{64, 64});
  OpRecord record;
  record.kind = OpKind::matmul;
  record.input_count = 2;
  record.output_count = 1;
  const std::vector<TensorView> views{{.layout = &a}, {.layout = &b}, {.layout = &a}};
  const KernelCall call{.op = OpView(record, nullptr),
                        .inputs = std::span(views).first(2),
                        .outputs = std::span(views).subspan(2)};
  Picks picks(1, true);
  for (auto _ : state) {
    picks.add({});  // forgets the pick
    benchmark::DoNotOptimize(picks.pick(call, device->kernels()));
  }
}
BENCHMARK(BM_Picks_Miss);

}  // namespace
}  // namespace hearth::detail
