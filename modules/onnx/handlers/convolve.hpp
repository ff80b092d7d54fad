// Convolutions over windows of any padding, in one to three dimensions, by conv2d.
// Stateless. Threads: any.
#pragma once

#include "modules/onnx/handlers/windows.hpp"

namespace hearth::onnx {

/// Convolves x [n, c, ...] with weight [o, c/groups, ...]; bias [o] may be empty.
///
/// Errors: ArgumentError for more than three spatial axes; ShapeError.
[[nodiscard]] Tensor convolve(const Call& call,
                              Tensor x,
                              Tensor weight,
                              const Tensor& bias,
                              const std::vector<WindowAxis>& axes,
                              std::int64_t groups);

}  // namespace hearth::onnx
