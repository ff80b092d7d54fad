// The request that the dispatch passes to a backend: operands as views, and one op, which may be a
// fused group.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

class Constant;
struct CustomCode;
struct Expression;
struct ScalarAttributes;

/// A tensor in memory that kernels may access. `data` is the address of element [0, 0, …]; on
/// devices without host addresses it is the device address. Strides may be negative or 0. Borrows
/// the layout.
struct TensorView {
  std::byte* data = nullptr;
  const detail::Layout* layout = nullptr;
  DType dtype = DType::f32;
  Constant* constant = nullptr;  ///< Inputs only: set where kernels may cache a derived form.

  [[nodiscard]] const Shape& shape() const noexcept { return layout->shape; }
  [[nodiscard]] const Strides& strides() const noexcept { return layout->strides; }
  [[nodiscard]] std::int64_t element_count() const noexcept {
    return layout->shape.element_count();
  }
  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return reinterpret_cast<T*>(data);  // NOLINT: the one place where bytes become elements
  }
};

/// A pointwise expression on the result of an op, applied before the result reaches memory. Input 0
/// of the expression is the op's result, which is stored only if the expression outputs it. Inputs
/// 1.. are `inputs`, which broadcast to the result's shape. The call's outputs are the expression's
/// outputs, all of one shape. No output shares bytes with an operand that is read.
struct Epilogue {
  const Expression* expression = nullptr;
  /// Layout of the op's result. For kinds that may_view_anchor() names, the call's outputs may have
  /// another shape with the same elements in the same order.
  const detail::Layout* result = nullptr;
  std::span<const TensorView> inputs = {};
  std::span<const ScalarAttributes> parameters = {};
  /// The epilogue's inputs, then the call's outputs, as in the records; used for explanations.
  std::span<const Operand> operands = {};
};

struct KernelCall;

/// An input of an op that another call computes and no other op reads. That call is a pointwise or
/// row expression, or an op of another kind with or without an epilogue. Its one output and the
/// op's input are contiguous, and have a layout but no bytes. The kernel computes parts of them on
/// demand. No operand that the call reads shares bytes with an output of the op.
struct Prologue {
  const KernelCall* call = nullptr;
  int input = 0;  ///< Index of the op's input.
};

/// One op to run. Outputs are always contiguous. `expression` is set for ops of kind `expression`,
/// else null; it lives as long as the device's runtime. An output may share its bytes with an input
/// of use read_last when both are contiguous and of equal size and dtype (in-place). For a kernel
/// that cannot run in place KernelFacts::may_alias() returns false.
struct KernelCall {
  OpView op;
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  const Expression* expression = nullptr;
  const Epilogue* epilogue = nullptr;
  /// Code of an op of kind `custom`, whose operands are all contiguous; else null.
  const CustomCode* custom = nullptr;
  const Prologue* prologue = nullptr;
};

/// yes, or no with a reason for the user.
struct Support {
  bool yes = true;
  std::string reason = {};
};

}  // namespace hearth
