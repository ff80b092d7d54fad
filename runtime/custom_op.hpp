// CustomOp: an elementwise op of your own, written over plain ops. It runs as one kernel, alone or
// fused with the ops around it, with broadcasting and a gradient. Copies share the captured
// function. Threads: any.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// An elementwise op captured from a function over plain ops.
///
/// Capture: the function is captured when a combination of element types is first used. It is
/// called twice, with tensors of shape [1] and of several long axes, which have no values, and once
/// more for each float operand. It must compute the same in each call, accept any shape, test no
/// shape, and compute each element from the elements at its position. Views that change nothing are
/// allowed. Numbers passed to a call become such tensors too and may differ between calls. Numbers
/// that the function uses become constants; tensors that it captures are refused. f16 and bf16 are
/// computed in f32 and rounded once, at the end. The gradient is derived from the ops.
///
/// A device may have no room for a long function: the CPU's limit is about 500 values (operands,
/// numbers and ops; equal ones count once). A longer one fails with DeviceError when its result is
/// read.
class CustomOp final {
 public:
  using Function = std::function<Tensor(std::span<const Tensor> operands)>;

  /// Errors: ArgumentError without a name or function, or for more than 4 operands.
  CustomOp(std::string name,
           int operand_count,
           Function function,
           SourceLoc loc = SourceLoc::current());

  /// Applies the op. Operands broadcast; at least one is a tensor. A number takes the type of the
  /// first tensor.
  /// Errors: ShapeError, DtypeError if the operands do not fit; ArgumentError for another number of
  /// operands; for a function that is not elementwise, reads a value, uses a tensor that is no
  /// operand or ignores an operand; for a tracked operand if an op in the function has no gradient
  /// (its name is given). Exceptions of the function pass through.
  [[nodiscard]] Tensor operator()(Arg a) const;
  [[nodiscard]] Tensor operator()(Arg a, Arg b) const;
  [[nodiscard]] Tensor operator()(Arg a, Arg b, Arg c) const;
  [[nodiscard]] Tensor operator()(Arg a, Arg b, Arg c, Arg d) const;

 private:
  struct State;
  [[nodiscard]] Tensor call(std::span<const Arg> operands) const;

  std::shared_ptr<State> state_;
};

/// Makes a CustomOp of a function of one to four tensors.
template <class Fn>
[[nodiscard]] CustomOp custom_op(std::string name,
                                 Fn function,
                                 SourceLoc loc = SourceLoc::current()) {
  using TensorRead = const Tensor&;
  if constexpr (std::is_invocable_r_v<Tensor, Fn&, TensorRead>) {
    return CustomOp(
        std::move(name), 1, [function](std::span<const Tensor> x) { return function(x[0]); }, loc);
  } else if constexpr (std::is_invocable_r_v<Tensor, Fn&, TensorRead, TensorRead>) {
    return CustomOp(
        std::move(name),
        2,
        [function](std::span<const Tensor> x) { return function(x[0], x[1]); },
        loc);
  } else if constexpr (std::is_invocable_r_v<Tensor, Fn&, TensorRead, TensorRead, TensorRead>) {
    return CustomOp(
        std::move(name),
        3,
        [function](std::span<const Tensor> x) { return function(x[0], x[1], x[2]); },
        loc);
  } else {
    static_assert(
        std::is_invocable_r_v<Tensor, Fn&, TensorRead, TensorRead, TensorRead, TensorRead>,
        "a custom op is a function of one to four tensors to a tensor");
    return CustomOp(
        std::move(name),
        4,
        [function](std::span<const Tensor> x) { return function(x[0], x[1], x[2], x[3]); },
        loc);
  }
}

}  // namespace hearth
