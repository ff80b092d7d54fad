// Pointwise kernels: kernels of one axis that every operand names as it is, [i0]. They compute one
// element, so one kernel serves operands of all ranks and all shapes that broadcast.
// Row kernels: as above, with a second, folded axis i1. They compute one row: operands are [i0,
// i1], or [i0] with one element for each row.
// Pure functions. Threads: any.
#pragma once

#include <span>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>

namespace hearth {

[[nodiscard]] bool is_pointwise(const KernelIR& kernel) noexcept;

/// Returns the pointwise kernel over operands of these shapes, with NumPy broadcasting in its maps,
/// as interpret() needs it. All outputs have one shape. Requires inputs that broadcast to it.
[[nodiscard]] KernelIR spread(const KernelIR& pointwise,
                              std::span<const Shape> inputs,
                              const Shape& output);

[[nodiscard]] bool is_row_kernel(const KernelIR& kernel) noexcept;
/// Returns whether an operand of a row kernel has one element for each row.
[[nodiscard]] inline bool is_of_rows(const std::vector<AffineIndex>& map) noexcept {
  return map.size() == 1;
}

/// Returns the space of a row kernel's call, to which the inputs [i0, i1] broadcast.
///
/// Errors: shape_mismatch; invalid_argument without such an input, or with fewer than row_axes
/// axes.
[[nodiscard]] Result<Shape> row_space(const KernelIR& rows,
                                      std::span<const Shape> inputs,
                                      int row_axes);

/// Returns the row kernel over operands of these shapes; rows are the last `row_axes` axes of the
/// space. Inputs [i0] have size 1 along those axes, or lack them; outputs [i0] lack them. Requires
/// the space from row_space().
[[nodiscard]] KernelIR spread_rows(const KernelIR& rows,
                                   std::span<const Shape> inputs,
                                   const Shape& space,
                                   int row_axes);

}  // namespace hearth
