// Capture: turns a function over plain ops into an expression. The function is called with tensors
// of a special device, whose loop turns each op from the lane into a node of a kernel. Op
// submission is unchanged, and programs without captures pay nothing. Private to runtime.
// Threads: any; the function runs on the calling thread.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/tensor.hpp>
#include <hearth/streams/kernel/expression.hpp>

namespace hearth::detail {

/// The arguments of a capture.
struct CaptureForm {
  std::string name;                     ///< Name of the expression.
  std::span<const DType> tensors = {};  ///< Element types of the inputs.
  std::span<const DType> scalars = {};  ///< Element types of the parameters.
  SourceLoc location = {};              ///< The call that needs the expression.
};
/// The captured function. All arguments have one shape; capture() passes [1]. Returns the results
/// in order.
using CapturedFunction =
    std::function<std::vector<Tensor>(std::span<Tensor> tensors, std::span<Tensor> scalars)>;

/// The result of a capture.
struct Captured {
  /// The kernel over the used tensors and scalars, in their order. Empty if no tensor is used.
  KernelIR kernel = {};
  std::vector<std::uint8_t> tensors = {};
  std::vector<std::uint8_t> scalars = {};
  /// The first op without a gradient: "greater (loss.cpp:12)"; empty if all have one.
  std::string without_gradient = {};
};

/// Captures with one call of the function. f16 and bf16 are computed in f32, and rounded by casts
/// and at the end. Numbers in the function become constants. Requires a function that does the same
/// for every shape of its operands.
/// Errors: ArgumentError, with op and line, for a non-elementwise op, a read of a value, a tensor
/// of another device or a random number; exceptions of the function.
[[nodiscard]] Captured capture(const CaptureForm& form, const CapturedFunction& function);
/// Captures any function: calls it twice, with tensors of shape [1] and of several long axes, and
/// compares the kernels.
/// Errors: also ArgumentError if the two kernels differ; ArgumentError, ShapeError for a shape that
/// the function does not accept.
[[nodiscard]] Captured capture_checked(const CaptureForm& form, const CapturedFunction& function);
/// Checks that the function uses all of its tensors and scalars. Errors: ArgumentError.
void require_all(const CaptureForm& form, const Captured& captured);
/// Checks that the function uses all of its tensors. Errors: ArgumentError.
void require_all_tensors(const CaptureForm& form, const Captured& captured);
/// Makes the expression. Errors: ArgumentError if the kernel exceeds the limits of expressions.
[[nodiscard]] ExpressionRef expression_of(const CaptureForm& form,
                                          const Captured& captured,
                                          std::vector<ExpressionGradient> gradients = {});

/// Returns whether the tensor belongs to a capture.
[[nodiscard]] bool is_captured(const Tensor& tensor) noexcept;

}  // namespace hearth::detail
