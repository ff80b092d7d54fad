// Kernels as tile programs beside the CPU's own kernels for the same ops, in turns in one run.
// Counters are microseconds per launch; `ratio` is the program's time divided by the kernels' time.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include <hearth/backends/cpu/cpu_backend.hpp>
#include <hearth/runtime/base/cores.hpp>

#include "tests/backends/expression_runner.hpp"
#include "tests/backends/small_call.hpp"
#include "tests/support/run_call.hpp"

namespace hearth {
namespace {

using testing::SmallCall;
using testing::SmallTensor;
using Microseconds = std::chrono::duration<double, std::micro>;

std::vector<int> some_cores(std::int64_t count) {
  std::vector<int> cores = available_cores();
  cores.resize(std::min(cores.size(), static_cast<std::size_t>(count)));
  return cores;
}

// Single ops, and the kernel that fuses them all.
struct Work {
  std::vector<std::unique_ptr<SmallTensor>> tensors = {};
  std::vector<SmallCall> singles = {};
  KernelIR kernel = {};
  std::vector<TensorView> inputs = {};
  std::vector<TensorView> outputs = {};
  std::vector<ScalarAttributes> parameters = {};

  TensorView tensor(std::int64_t n, double first) {
    std::vector<double> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = first + static_cast<double>(i % 1013) * 1e-3;
    }
    tensors.push_back(std::make_unique<SmallTensor>(DType::f32, Shape{n}, values));
    return tensors.back()->view();
  }
};

AffineIndex plain() {
  return {.terms = {{.axis = 0}}};
}

Work binary(OpKind kind, Primitive primitive, std::int64_t n) {
  Work work;
  work.inputs = {work.tensor(n, 0.5), work.tensor(n, -0.5)};
  work.outputs = {work.tensor(n, 0)};
  work.singles.emplace_back(kind, work.inputs, work.outputs);
  KernelBuilder b({0});
  const KernelValue left = b.input(DType::f32, {plain()});
  const KernelValue right = b.input(DType::f32, {plain()});
  b.output(b.apply(primitive, DType::f32, std::array{left, right}));
  work.kernel = b.take();
  return work;
}

// x·(erf(x/√2) + 1)/2 of five plain ops, as the runtime runs them: in place, except for the first.
Work gelu(std::int64_t n) {
  Work work;
  const TensorView x = work.tensor(n, -0.5);
  const TensorView y = work.tensor(n, 0);
  work.inputs = {x};
  work.outputs = {y};
  const auto scalar = [&](OpKind kind, const TensorView& from, double value) {
    work.singles.emplace_back(kind, std::vector{from}, std::vector{y});
    work.singles.back().with(RecordFlag::scalar_rhs).with(ScalarAttributes{.real = value});
  };
  scalar(OpKind::div, x, std::sqrt(2.0));
  work.singles.emplace_back(OpKind::erf, std::vector{y}, std::vector{y});
  scalar(OpKind::add, y, 1);
  work.singles.emplace_back(OpKind::mul, std::vector{x, y}, std::vector{y});
  scalar(OpKind::div, y, 2);
  KernelBuilder b({0});
  const KernelValue in = b.input(DType::f32, {plain()});
  const KernelValue root = b.parameter(DType::f32);
  b.output(in * (erf(in / root) + b.parameter(DType::f32)) / b.parameter(DType::f32));
  work.kernel = b.take();
  work.parameters = {{.real = std::sqrt(2.0)}, {.real = 1}, {.real = 2}};
  return work;
}

// One update of one parameter, in place, as in adam_step.
Work adamw(std::int64_t n) {
  Work work;
  work.inputs = {
      work.tensor(n, 0.5), work.tensor(n, -0.5), work.tensor(n, 0.1), work.tensor(n, 0.2)};
  work.outputs = {work.inputs[0], work.inputs[2], work.inputs[3]};
  work.singles.emplace_back(OpKind::adam_step, work.inputs, work.outputs);
  work.singles.back().with(AdamAttributes{.learning_rate = 1e-3,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .epsilon = 1e-8,
                                          .weight_decay = 0.01,
                                          .decoupled = 1,
                                          .step = 7});
  const KernelCall call = work.singles.back().call();
  work.kernel = op_kernel(call.op,
                          cpu::ExpressionRunner::specs_of(work.inputs),
                          cpu::ExpressionRunner::specs_of(work.outputs))
                    .value();
  for (const KernelParameter& each : op_parameters(call.op, DType::f32)) {
    work.parameters.push_back(each.value);
  }
  return work;
}

void compare(benchmark::State& state, Work work) {
  const std::vector<int> cores = some_cores(state.range(1));
  cpu::CpuBackend backend({.cores = cores});
  cpu::ExpressionRunner runner(backend.isa(), cores);
  const std::uint64_t key = hash(work.kernel);
  const cpu::ExpressionCall call{work.inputs, work.outputs, work.parameters};
  const SmallCall copy(OpKind::copy, {work.inputs[0]}, {work.outputs[0]});
  Microseconds kernels{};
  Microseconds program{};
  Microseconds copies{};
  const auto timed = [](Microseconds& sum, const auto& work_once) {
    const auto start = std::chrono::steady_clock::now();
    work_once();
    sum += std::chrono::steady_clock::now() - start;
  };
  // Small launches run several times, so that reading the clock does not count.
  const std::int64_t times = std::max<std::int64_t>(1, 65536 / state.range(0));
  for (auto _ : state) {
    timed(kernels, [&] {
      for (std::int64_t i = 0; i < times; ++i) {
        for (const SmallCall& single : work.singles) {
          testing::run_call(backend, single.call()).value();
        }
      }
    });
    timed(program, [&] {
      for (std::int64_t i = 0; i < times; ++i) {
        cpu::run_expression(work.kernel, key, std::span(&call, 1), runner.context()).value();
      }
    });
    timed(copies, [&] {
      for (std::int64_t i = 0; i < times; ++i) {
        testing::run_call(backend, copy.call()).value();
      }
    });
  }
  const auto launches = static_cast<double>(state.iterations() * times);
  state.counters["kernels_us"] = kernels.count() / launches;
  state.counters["program_us"] = program.count() / launches;
  state.counters["copy_us"] = copies.count() / launches;
  state.counters["ratio"] = program.count() / kernels.count();
}

// The updates of 200 parameters: one by one, and in one launch.
void BM_Expression_AdamWOfMany(benchmark::State& state) {
  constexpr int kParameters = 200;
  const std::vector<int> cores = some_cores(state.range(1));
  cpu::CpuBackend backend({.cores = cores});
  cpu::ExpressionRunner runner(backend.isa(), cores);
  std::vector<Work> works;
  std::vector<cpu::ExpressionCall> calls;
  for (int i = 0; i < kParameters; ++i) {
    works.push_back(adamw(state.range(0)));
  }
  for (const Work& each : works) {
    calls.push_back({each.inputs, each.outputs, each.parameters});
  }
  const KernelIR& kernel = works[0].kernel;
  const std::uint64_t key = hash(kernel);
  Microseconds kernels{};
  Microseconds program{};
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    for (const Work& each : works) {
      testing::run_call(backend, each.singles[0].call()).value();
    }
    const auto middle = std::chrono::steady_clock::now();
    cpu::run_expression(kernel, key, calls, runner.context()).value();
    kernels += middle - start;
    program += std::chrono::steady_clock::now() - middle;
  }
  const auto launches = static_cast<double>(state.iterations());
  state.counters["kernels_us"] = kernels.count() / launches;
  state.counters["program_us"] = program.count() / launches;
  state.counters["ratio"] = program.count() / kernels.count();
}
BENCHMARK(BM_Expression_AdamWOfMany)
    ->ArgNames({"n", "cores"})
    ->ArgsProduct({{64, 4096, 1 << 16}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_Expression_Add(benchmark::State& state) {
  compare(state, binary(OpKind::add, Primitive::add, state.range(0)));
}
void BM_Expression_Mul(benchmark::State& state) {
  compare(state, binary(OpKind::mul, Primitive::mul, state.range(0)));
}
void BM_Expression_Gelu(benchmark::State& state) {
  compare(state, gelu(state.range(0)));
}
void BM_Expression_AdamW(benchmark::State& state) {
  compare(state, adamw(state.range(0)));
}

void sizes_and_cores(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"n", "cores"})
      ->ArgsProduct({{64, 1 << 14, 1 << 20, 1 << 24}, {1, 2}})
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(BM_Expression_Add)->Apply(sizes_and_cores);
BENCHMARK(BM_Expression_Mul)->Apply(sizes_and_cores);
BENCHMARK(BM_Expression_Gelu)->Apply(sizes_and_cores);
BENCHMARK(BM_Expression_AdamW)->Apply(sizes_and_cores);

}  // namespace
}  // namespace hearth
