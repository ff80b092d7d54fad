// Runs a plan: calls each node's handler in order. Reads the program only, so any number of threads
// may run one model. Threads: any; a run belongs to one thread.
#pragma once

#include "modules/onnx/graph/plan.hpp"

#include <hearth/runtime/buffer.hpp>
#include <hearth/runtime/tensor.hpp>

#include <vector>

namespace hearth::onnx {

/// Host values of one set of input shapes, by place of the main plan. Immutable once published.
using KnownValues = std::vector<std::shared_ptr<const HostArray>>;

/// The module's parts that a run reads.
struct RunInputs {
  const Program& program;
  const std::vector<Tensor>& parameters;
  const std::vector<Buffer>& buffers;
  /// Values from an earlier run with the same shapes; null: none.
  const KnownValues* known = nullptr;
};

struct RunOutputs {
  std::vector<OnnxValue> values;
  /// Filled if RunInputs::known is null: what later runs with these shapes need not compute.
  KnownValues known = {};
};

/// Runs the main plan.
///
/// Errors: ArgumentError that names node, op, opset, rule and values; those of ops.
[[nodiscard]] RunOutputs run_program(const RunInputs& run,
                                     RunContext& context,
                                     std::vector<OnnxValue> inputs);

}  // namespace hearth::onnx
