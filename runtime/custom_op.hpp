// CustomOp: an elementwise op of your own, written over plain ops and run as one kernel, alone or
// with the ops around it, with broadcasting and a gradient. Copies share what was captured.
// Threads: any.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// Finds out what the function is made of when a combination of element types comes for the first
/// time: calls it twice, with tensors of shape [1] and of several long axes, which have no values,
/// and once more for each float operand. What it computes is the same in each call: it takes
/// tensors of any shape, asks for none, and makes each element from the elements at its place.
/// Views that change nothing are no ops, and allowed. Numbers that a call gives come as such
/// tensors too, and may differ from call to call; numbers of the program that the function uses
/// become constants, and tensors of the program are refused. f16 and bf16 are computed in f32 and
/// rounded once, at the end. The gradient is derived from those of the ops that it is made of.
///
/// A device may have no room for a long function: the CPU's limit is about 500 values (its
/// operands, numbers and ops, equal ones once), and a longer one fails with DeviceError when its
/// result is read.
class CustomOp final {
 public:
  using Function = std::function<Tensor(std::span<const Tensor> operands)>;

  /// Errors: ArgumentError without a name or function, or for more than 4 operands.
  CustomOp(std::string name,
           int operand_count,
           Function function,
           SourceLoc loc = SourceLoc::current());

  /// Operands broadcast; at least one is a tensor. A number takes the type of the first tensor.
  /// Errors: ShapeError, DtypeError when they do not fit; ArgumentError for another number of
  /// operands, for a function that is not elementwise, reads a value, uses a tensor that is no
  /// operand or does not use one that is, and for a tracked operand where a part has no gradient,
  /// which it names; what the function throws.
  [[nodiscard]] Tensor operator()(Arg a) const;
  [[nodiscard]] Tensor operator()(Arg a, Arg b) const;
  [[nodiscard]] Tensor operator()(Arg a, Arg b, Arg c) const;
  [[nodiscard]] Tensor operator()(Arg a, Arg b, Arg c, Arg d) const;

 private:
  struct State;
  [[nodiscard]] Tensor call(std::span<const Arg> operands) const;

  std::shared_ptr<State> state_;
};

/// A CustomOp from a function of one to four tensors.
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
