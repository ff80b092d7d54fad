// Functions of elements whose result's size depends on values, and determinants of small matrices.
// All are HostHandlers (op_row.hpp). Stateless. Threads: any.
#pragma once

#include "modules/onnx/values/call.hpp"

namespace hearth::onnx {

/// Unique: distinct elements, or slices along an axis, sorted or in the order of their first place.
[[nodiscard]] bool unique_on_host(Call& call);
/// Paper: Neubeck, Van Gool, Efficient Non-Maximum Suppression, ICPR 2006.
[[nodiscard]] bool non_max_suppression_on_host(Call& call);
/// Determinants of the last two axes, by Gaussian elimination in f64.
[[nodiscard]] bool determinant_on_host(Call& call);

}  // namespace hearth::onnx
