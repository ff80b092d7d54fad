// Shapes and selections that a node's attributes and inputs determine, equal for the host and the
// device. Opset differences (an attribute that became an input) are handled here.
// Stateless. Threads: any. Errors of all: ArgumentError with the broken rule.
#pragma once

#include "modules/onnx/values/call.hpp"

#include <cstdint>
#include <vector>

namespace hearth::onnx {

/// The result's shape of Reshape; -1 and 0 are resolved.
[[nodiscard]] Shape reshape_target(Call& call);
[[nodiscard]] Shape squeeze_target(Call& call);
[[nodiscard]] Shape unsqueeze_target(Call& call);
[[nodiscard]] Shape flatten_target(Call& call);
/// The result's shape of Expand.
[[nodiscard]] Shape expand_target(Call& call);
/// Counts of Tile, one for each axis.
[[nodiscard]] std::vector<std::int64_t> tile_counts(Call& call);
/// Order of axes of Transpose.
[[nodiscard]] std::vector<int> transpose_order(Call& call);
/// A selection along one axis: elements start, start + step, … (count of them).
struct AxisSelection {
  int axis = 0;
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};
[[nodiscard]] std::vector<AxisSelection> slice_selections(Call& call);
/// Axis and sizes of the parts of Split.
struct SplitParts {
  int axis = 0;
  std::vector<std::int64_t> sizes = {};
};
[[nodiscard]] SplitParts split_parts(Call& call);
/// Axes and options of a reduction. `since`: the opset from which on input 1 has the axes.
struct Reduction {
  std::vector<int> axes = {};  ///< Sorted. Empty: the input is returned unchanged.
  bool keeps_axes = true;
};
[[nodiscard]] Reduction reduction_of(Call& call);

}  // namespace hearth::onnx
