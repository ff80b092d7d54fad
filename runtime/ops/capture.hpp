// Capture: a function over plain ops becomes an expression. The function is called with tensors on
// a device of its own, whose loop turns each op that comes out of the lane into a node of a kernel.
// So ops are submitted as ever, and programs that capture nothing pay nothing. Private to runtime.
// Threads: any; the function runs on the calling thread.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/tensor.hpp>
#include <hearth/streams/kernel/expression.hpp>

namespace hearth::detail {

/// What the function is called with.
struct CaptureForm {
  std::string name;                     ///< Of the expression.
  std::span<const DType> tensors = {};  ///< Their element types: the inputs.
  std::span<const DType> scalars = {};  ///< Of the parameters.
  SourceLoc location = {};              ///< Of the call that needs it.
};
/// All have one shape, [1] where capture() calls it. The results, in their order.
using CapturedFunction =
    std::function<std::vector<Tensor>(std::span<Tensor> tensors, std::span<Tensor> scalars)>;

/// What the function came to.
struct Captured {
  /// Over the tensors and scalars that it needs, in their order. Empty when it needs no tensor.
  KernelIR kernel = {};
  std::vector<std::uint8_t> tensors = {};
  std::vector<std::uint8_t> scalars = {};
  /// The first part that has no gradient: "greater (loss.cpp:12)"; empty where all have one.
  std::string without_gradient = {};
};

/// Calls the function once. f16 and bf16 are computed in f32, and rounded by casts and at the end.
/// Numbers in the function are constants of the expression. Requires a function that does the same
/// whatever the shape of its operands is.
/// Errors: ArgumentError for an op that is not elementwise, a read of a value, a tensor of another
/// device or a random number, naming the op and its line; what the function throws.
[[nodiscard]] Captured capture(const CaptureForm& form, const CapturedFunction& function);
/// The same for any function: called twice, with tensors of shape [1] and of several long axes.
/// Errors besides: ArgumentError when the two calls come to different kernels; ArgumentError,
/// ShapeError for a shape that the function does not take.
[[nodiscard]] Captured capture_checked(const CaptureForm& form, const CapturedFunction& function);
/// Errors: ArgumentError when the function does not need all of its tensors and scalars.
void require_all(const CaptureForm& form, const Captured& captured);
/// Errors: ArgumentError when the kernel is beyond the limits of expressions.
[[nodiscard]] ExpressionRef expression_of(const CaptureForm& form,
                                          const Captured& captured,
                                          std::vector<ExpressionGradient> gradients = {});

/// Whether the tensor is one that a captured function was given, or made.
[[nodiscard]] bool is_captured(const Tensor& tensor) noexcept;

}  // namespace hearth::detail
