// What the dispatch hands to a backend: operands as views, one op (a group of one until fusion
// arrives) as a request.
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

/// A tensor in memory that kernels may touch. `data` is the address of element [0, 0, …]; strides
/// may be negative or 0. Borrows the layout. For devices without host addresses, `data` is the
/// device address.
struct TensorView {
  std::byte* data = nullptr;
  const detail::Layout* layout = nullptr;
  DType dtype = DType::f32;
  Constant* constant = nullptr;  ///< Of inputs: set where kernels may keep what they make of them.

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

/// What becomes of an op's result, element by element, before it reaches memory: a pointwise
/// expression whose input 0 is the op's result, which itself is never stored unless the expression
/// gives it out. Inputs 1.. of the expression are `inputs`, which broadcast to the result's shape.
/// The call's outputs are those of the expression, all of one shape; none shares bytes with
/// anything that is read.
struct Epilogue {
  const Expression* expression = nullptr;
  /// Of the op's own result. The call's outputs may have another shape, of as many elements in the
  /// same order, behind a kind that may_show_anchor() names.
  const detail::Layout* result = nullptr;
  std::span<const TensorView> inputs = {};
  std::span<const ScalarAttributes> parameters = {};
  /// Its inputs, then the call's outputs, as records name them: for explanations.
  std::span<const Operand> operands = {};
};

struct KernelCall;

/// How an input of an op comes to be, where another call makes it and nobody else reads it: a
/// pointwise or row expression, or an op of some other kind with or without an epilogue. That call
/// has one output, contiguous, with a layout and no bytes, as has the op's input: the kernel makes
/// of it what it needs, when it does. Nothing that the call reads shares bytes with an output of
/// the op.
struct Prologue {
  const KernelCall* call = nullptr;
  int input = 0;  ///< Which of the op's inputs it is.
};

/// One op to run. Outputs are always contiguous. `expression` is that of an op of this kind, else
/// null; it lives as long as the device's runtime. An output may share its bytes with an input of
/// use read_last when both are contiguous and of equal size and dtype (in-place); every kernel must
/// give the right answer then, or say so in may_alias().
struct KernelCall {
  OpView op;
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  const Expression* expression = nullptr;
  const Epilogue* epilogue = nullptr;
  /// Of an op of kind `custom`, whose operands are all contiguous; else null.
  const CustomCode* custom = nullptr;
  const Prologue* prologue = nullptr;
};

/// yes, or no with a reason that a user understands.
struct Support {
  bool yes = true;
  std::string reason = {};
};

}  // namespace hearth
