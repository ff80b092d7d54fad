// What is timed of a formula: its result, waited for, again and again.
#pragma once

#include <benchmark/benchmark.h>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth::bench {

/// Twice unmeasured: the plan, and the pages of the results.
template <class Formula>
void measure(benchmark::State& state, const Device& device, const Formula& formula) {
  const auto run = [&] {
    const Tensor y = formula();
    device.sync();
  };
  run();
  run();
  for (auto _ : state) {
    run();
  }
}

}  // namespace hearth::bench
