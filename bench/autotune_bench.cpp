// Cost of a pick on a hit, which every op of a tuned device pays.
#include <hearth/autotune/pick_table.hpp>

#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

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

}  // namespace
}  // namespace hearth::detail
