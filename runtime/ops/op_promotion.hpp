// Operands of several element types: which type they meet in, and the cast that takes them there
// before the op's own record is made. The one place that knows the rule; runtime/promotion.hpp says
// it. Private to runtime. Threads: any.
#pragma once

#include <span>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include "op_operand.hpp"

namespace hearth::detail {

/// The type in which these operands of the kind meet. Requires tensors that are not empty, one at
/// least.
[[nodiscard]] DType common_type(OpKind kind, std::span<const Arg> operands) noexcept;

/// An operand in a type: itself, where it has it or is a number, else its cast, which lives here.
/// A moved-in tensor moves on. Its gradient comes back through the cast.
class PromotedArg final {
 public:
  PromotedArg(const Arg& arg, DType dtype) : arg_(arg) {
    if (!arg.is_scalar() && detail::TensorAccess::impl(arg.tensor())->dtype != dtype) {
      cast_ = cast(arg, dtype);
      arg_ = Arg(std::move(cast_), arg.location());
    }
  }
  PromotedArg(const PromotedArg&) = delete;
  PromotedArg& operator=(const PromotedArg&) = delete;
  ~PromotedArg() = default;

  [[nodiscard]] const Arg& arg() const noexcept { return arg_; }

 private:
  Tensor cast_;
  Arg arg_;
};

}  // namespace hearth::detail
