// The oracle: defines every kernel kind in the plainest code. Computes in f64 (integers in 64
// bits), with one rounding at each store. All other backends are compared with it, and the sim
// computes with it. Pure functions of the given bytes. Threads: any.
// NaN: arithmetic, min, max, relu, reduce_max, reduce_min, softmax and the losses propagate it as
// PyTorch does. Comparisons with it are false (not_equal is true). argmax, argmin and max_pool2d
// take the first NaN. relu_backward and where only select.
#pragma once

#include <hearth/backends/kernel.hpp>
#include <hearth/backends/kernel_facts.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth::reference {

/// Returns the facts of evaluate(). Every kind runs in place, because all inputs are read before
/// the first store, and accepts epilogues. The prologues are those that some backend accepts.
[[nodiscard]] KernelFacts kernel_facts() noexcept;

/// Returns whether evaluate() accepts this op: a kernel kind whose operands match its op table row
/// in number and dtype.
[[nodiscard]] Support supports(const KernelCall& call);

/// Runs one op. Operands have the shapes that the shape rules give. Views may have any strides. An
/// output may share its bytes with inputs in any way: all inputs are read before the first store.
///
/// A scalar immediate is rounded to f32 for f32, f16 and bf16. dropout selects, without
/// multiplication: a dropped element is 0 even where the input is not finite. Integer arithmetic
/// wraps.
///
/// Errors: unsupported where supports() refuses; out_of_range for a class or position outside its
/// range; kernel_failed for an integer divided by zero; out_of_memory if the machine has no memory
/// for the copies. The texts of out_of_range and kernel_failed name the op and the value. Both
/// leave the outputs untouched.
/// Cost: plain loops, dense f64 copies of all operands.
[[nodiscard]] Status evaluate(const KernelCall& call);

}  // namespace hearth::reference
