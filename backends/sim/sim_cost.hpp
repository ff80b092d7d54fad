// How long an op takes on a sim device, in virtual time. Pure functions of the call; any thread.
#pragma once

#include <chrono>
#include <functional>

#include <hearth/backends/kernel.hpp>

namespace hearth::sim {

/// Empty: no op takes time.
using SimCost = std::function<std::chrono::nanoseconds(const KernelCall&)>;

struct Roofline {
  double flops_per_second = 100e9;
  double bytes_per_second = 10e9;
  std::chrono::nanoseconds launch{2'000};
};

/// launch plus the longer of flops and bytes over their rates, both from the op table.
[[nodiscard]] SimCost roofline_cost(Roofline roofline = {});
/// Every op takes as long.
[[nodiscard]] SimCost fixed_cost(std::chrono::nanoseconds duration);

}  // namespace hearth::sim
