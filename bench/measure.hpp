// Times a formula: computes its result and waits for it, repeatedly.
#pragma once

#include <benchmark/benchmark.h>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth::bench {

/// Two unmeasured runs make the plan and map the results' pages.
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
