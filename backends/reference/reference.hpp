// The oracle: what every kernel kind means, in the plainest code. f64 inside (64-bit integers for
// integers), one rounding at each store. Every other backend is compared with it; the sim computes
// with it. Pure functions of the bytes they are given. Threads: any. NaN: arithmetic and min, max,
// relu, reduce_max, reduce_min, softmax and the losses carry it on as PyTorch does; comparisons
// with it are false (not_equal true); argmax, argmin and max_pool2d take the first NaN.
// relu_backward and where only select.
#pragma once

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth::reference {

/// The inputs that calls of other kinds may make for an op: those that some backend takes so.
[[nodiscard]] bool may_take_prologue(OpKind kind, int input, OpKind maker) noexcept;

/// Whether evaluate() takes this op: a kernel kind, with operands in the number and of the element
/// types of its op table row.
[[nodiscard]] Support supports(const KernelCall& call);

/// Runs one op. Operands have the shapes that the shape rules give; views may have any strides, and
/// an output may share its bytes with inputs in any way, for all inputs are read before the first
/// store.
///
/// A scalar immediate counts in f32 for f32, f16 and bf16. dropout multiplies nothing: a dropped
/// element is 0 even where the input is not finite. Integer arithmetic wraps. Errors: unsupported
/// as supports() says; out_of_range for a class or position outside its range, kernel_failed for an
/// integer divided by zero (both name the op and the value; outputs are then untouched);
/// out_of_memory when the machine has no room for the copies. Cost:
/// plain loops, dense f64 copies of all operands.
[[nodiscard]] Status evaluate(const KernelCall& call);

}  // namespace hearth::reference
