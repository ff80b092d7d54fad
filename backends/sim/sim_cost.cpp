#include <hearth/backends/sim/sim_cost.hpp>

#include <hearth/streams/op_table.hpp>

#include <algorithm>
#include <vector>

namespace hearth::sim {
namespace {

std::vector<TensorSpec> specs_of(std::span<const TensorView> views) {
  std::vector<TensorSpec> specs;
  specs.reserve(views.size());
  for (const TensorView& view : views) {
    specs.push_back({view.dtype, view.shape()});
  }
  return specs;
}

}  // namespace

SimCost roofline_cost(Roofline roofline) {
  return [roofline](const KernelCall& call) {
    const OpCost cost = op_cost(call.op, specs_of(call.inputs), specs_of(call.outputs));
    const std::chrono::duration<double> work(
        std::max(cost.flops / roofline.flops_per_second, cost.bytes / roofline.bytes_per_second));
    return roofline.launch + std::chrono::duration_cast<std::chrono::nanoseconds>(work);
  };
}

SimCost fixed_cost(std::chrono::nanoseconds duration) {
  return [duration](const KernelCall&) { return duration; };
}

}  // namespace hearth::sim
