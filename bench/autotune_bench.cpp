// Cost of a pick on a hit, which every op of a tuned device pays.
#include <hearth/autotune/pick_table.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/backends/builtin/builtin.hpp>
#include <hearth/backends/kernel_maker.hpp>
#include <hearth/streams/op_attributes.hpp>

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

// A call on no memory.
class BenchCall final {
 public:
  /// A product [32, 64]·[64, 64], b transposed or not.
  static std::unique_ptr<BenchCall> product(bool is_transposed) {
    Strides strides{};
    strides[0] = 1;
    strides[1] = 64;
    const Layout b = is_transposed ? Layout(Shape{64, 64}, strides) : Layout(Shape{64, 64});
    return std::make_unique<BenchCall>(
        OpKind::matmul, std::vector{Layout(Shape{32, 64}), b, Layout(Shape{32, 64})});
  }
  static std::unique_ptr<BenchCall> convolution() {
    return std::make_unique<BenchCall>(OpKind::conv2d,
                                       std::vector{Layout(Shape{2, 16, 28, 28}),
                                                   Layout(Shape{32, 16, 3, 3}),
                                                   Layout(Shape{2, 32, 26, 26})});
  }
  BenchCall(OpKind kind, std::vector<Layout> layouts) : layouts_(std::move(layouts)) {
    record_.kind = kind;
    record_.input_count = 2;
    record_.output_count = 1;
    record_.blob_size_bytes = sizeof(attributes_);
    for (const Layout& each : layouts_) {
      views_.push_back({.layout = &each});
    }
  }

  [[nodiscard]] KernelCall call() const {
    return {.op = OpView(record_, std::as_bytes(std::span(&attributes_, 1)).data()),
            .inputs = std::span(views_).first(2),
            .outputs = std::span(views_).subspan(2)};
  }

 private:
  std::vector<Layout> layouts_;
  ConvAttributes attributes_;
  OpRecord record_;
  std::vector<TensorView> views_;
};

// Picks at launches, from the call's operands to the answer.
void time_picks(benchmark::State& state, const BenchCall& subject) {
  const KernelMaker rules;  // lists no candidates
  const KernelCall call = subject.call();
  Picks picks(1, false);
  for (auto _ : state) {
    benchmark::DoNotOptimize(picks.pick(call, rules));
  }
}

// transposed: weights along the depth.
void BM_Picks_Pick(benchmark::State& state) {
  time_picks(state, *BenchCall::product(state.range(0) != 0));
}
BENCHMARK(BM_Picks_Pick)->ArgName("transposed")->Arg(0)->Arg(1);

void BM_Picks_PickOfConvolution(benchmark::State& state) {
  time_picks(state, *BenchCall::convolution());
}
BENCHMARK(BM_Picks_PickOfConvolution);

// First calls of their traits on a CPU device, without a stored result.
void time_misses(benchmark::State& state, const BenchCall& subject) {
  const std::unique_ptr<Backend> device = make_backend({.name = "cpu:0"}).value();
  const KernelCall call = subject.call();
  Picks picks(1, true);
  for (auto _ : state) {
    picks.add({});  // forgets the pick
    benchmark::DoNotOptimize(picks.pick(call, device->kernels()));
  }
}

void BM_Picks_Miss(benchmark::State& state) {
  time_misses(state, *BenchCall::product(false));
}
BENCHMARK(BM_Picks_Miss);

void BM_Picks_MissOfConvolution(benchmark::State& state) {
  time_misses(state, *BenchCall::convolution());
}
BENCHMARK(BM_Picks_MissOfConvolution);

}  // namespace
}  // namespace hearth::detail
