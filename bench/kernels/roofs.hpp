// The roofs of a device: its highest rates, measured by the timing loop of all figures.
// Threads: the one that measures.
#pragma once

#include <cstdint>
#include <string>

#include <hearth/runtime/base/result.hpp>

#include "bench_device.hpp"
#include "contest.hpp"

namespace hearth::bench {

/// 0: not measured.
struct Roofs {
  double flops_per_second = 0;  ///< f32 multiply-adds, two flops each, on the device's cores.
  double bytes_per_second = 0;  ///< Copies from memory to memory: read and written bytes.
  bool is_clean = true;         ///< false: the machine was busy, and the roofs may be higher.

  /// Returns the shortest time of this work; 0 without a roof for it.
  [[nodiscard]] detail::RunTime least_time(double flops, double bytes) const noexcept;
  /// Returns "266 GFLOP/s, 30.1 GB/s".
  [[nodiscard]] std::string to_string() const;
};

/// Measures. `cores`: of a cpu device. GPUs have no roof of flops here: their matrix units have no
/// common instruction.
///
/// Cost: about 0.2 s on an idle machine.
/// Errors: those of the device's kernels.
[[nodiscard]] Result<Roofs> measure_roofs(BenchDevice& device,
                                          int cores,
                                          const ContestOptions& options);

/// Runs independent chains of f32 multiply-adds with the widest vectors of this machine, and
/// returns the number of flops; 0 on processors without such instructions.
std::int64_t run_multiply_adds() noexcept;

}  // namespace hearth::bench
