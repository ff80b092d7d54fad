// Static analysis of a plan. Finds the values that the host knows, the constants that host and
// device need, the sync points, and the last use of each value.
// Stateless. Threads: any.
#pragma once

#include "modules/onnx/graph/plan_builder.hpp"

#include <vector>

namespace hearth::onnx {

/// Completes a plan and the flags of its constants. Returns the sync points.
[[nodiscard]] std::vector<OnnxSyncPoint> analyse_hosts(Plan& plan,
                                                       std::vector<ConstantSource>& constants);

}  // namespace hearth::onnx
