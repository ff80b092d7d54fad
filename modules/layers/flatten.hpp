// Flatten: joins all axes but the leading ones. A module without weights. Threads: a value.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

/// Joins the axes from `first` on.
///
/// Shapes: x [n, a, b, ...]; result [n, a·b·...].
struct Flatten {
  int first = 1;  ///< First of the axes that are joined.
  [[nodiscard]] Tensor forward(Arg x) const { return flatten(x, first); }
  HEARTH_MODULE(Flatten)
};

}  // namespace hearth
