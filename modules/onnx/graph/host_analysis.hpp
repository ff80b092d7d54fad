// Decides before any run which values are known on the host, which constants are needed there and
// on the device, where a run waits for the device, and which use of a value is the last.
// Stateless. Threads: any.
#pragma once

#include "modules/onnx/graph/plan_builder.hpp"

#include <vector>

namespace hearth::onnx {

/// Completes a plan and the flags of its constants. Returns the sync points.
[[nodiscard]] std::vector<OnnxSyncPoint> analyse_hosts(Plan& plan,
                                                       std::vector<ConstantSource>& constants);

}  // namespace hearth::onnx
