// Runs a program with fusion and without, and compares the bits. For tests of groups.
// Threads: the test's.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/runtime/stepped_runtime.hpp"

namespace hearth::testing {

/// Random numbers near a quarter in size, of both signs.
[[nodiscard]] inline Tensor normal(const Device& device,
                                   const Shape& shape,
                                   std::uint64_t seed,
                                   DType dtype) {
  Generator generator(seed);
  return random_normal(device, shape, generator, 0.25, 0.5, dtype);
}

/// The results of a program.
struct Ran {
  std::vector<std::vector<double>> values;  ///< f64 preserves the bits of all types.
  std::uint64_t fused = 0;                  ///< Kernels of several ops.
};

/// Runs program(device), which returns tensors, twice: the first run makes the plans.
template <class Program>
[[nodiscard]] Ran run_twice(const std::string& device, Fusion fusion, const Program& program) {
  Ran ran;
  const SteppedOptions options{
      .devices = {{.name = device}}, .fusion = fusion, .round_intermediates = true};
  stepped(options, [&](const World& world) {
    for (int i = 0; i < 2; ++i) {
      ran.values.clear();
      for (const Tensor& result : program(world.device)) {
        ran.values.push_back(cast(result, DType::f64).to_vector<double>());
      }
    }
    ran.fused = world.device.statistics().fused_kernels;
  });
  return ran;
}

[[nodiscard]] inline bool have_same_bits(const Ran& a, const Ran& b) {
  const auto same_bits = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  return std::ranges::equal(a.values, b.values, [&](const auto& x, const auto& y) {
    return std::ranges::equal(x, y, same_bits);
  });
}

}  // namespace hearth::testing
