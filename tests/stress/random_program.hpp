// Random programs of the public API: the same seed gives the same ops, views, sweeps, steps,
// copies, moves, drops and stream changes on any device. Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include <hearth/runtime/device.hpp>

namespace hearth::testing {

struct RandomProgram {
  std::uint64_t seed = 0;
  int max_ops = 64;
};

/// Runs the program and returns the values of all tensors that are alive at its end, in f64.
/// `noise` scales a relative disturbance of the inputs; `noise_seed` picks which.
[[nodiscard]] std::vector<std::vector<double>> run_program(const RandomProgram& program,
                                                           const Device& device,
                                                           double noise,
                                                           std::uint64_t noise_seed);

}  // namespace hearth::testing
