// Pointwise kernels: kernels of one axis that every operand names as it is, [i0]. They say what
// becomes of one element, so that one serves operands of all ranks and all shapes that broadcast.
// Pure functions. Threads: any.
#pragma once

#include <span>

#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>

namespace hearth {

[[nodiscard]] bool is_pointwise(const KernelIR& kernel) noexcept;

/// The pointwise kernel over operands of these shapes, with the maps that numpy broadcasting gives:
/// what interpret() takes. All outputs have one shape. Requires inputs that broadcast to it.
[[nodiscard]] KernelIR spread(const KernelIR& pointwise,
                              std::span<const Shape> inputs,
                              const Shape& output);

}  // namespace hearth
