// Cost of an op on a sim device in virtual time. Pure functions of the call; any thread.
#pragma once

#include <chrono>
#include <functional>

#include <hearth/backends/kernel.hpp>

namespace hearth::sim {

/// Returns the time that a call takes. If empty, no op takes time.
using SimCost = std::function<std::chrono::nanoseconds(const KernelCall&)>;

struct Roofline {
  double flops_per_second = 100e9;
  double bytes_per_second = 10e9;
  std::chrono::nanoseconds launch{2'000};
};

/// Returns `launch` plus the longer of flops and bytes over their rates. The op table gives both
/// numbers.
[[nodiscard]] SimCost roofline_cost(Roofline roofline = {});
/// Returns the same duration for every op.
[[nodiscard]] SimCost fixed_cost(std::chrono::nanoseconds duration);

}  // namespace hearth::sim
