// Promotes operands of several element types: computes the common type and casts them before the
// op's own record is made. The only implementation of the rule that runtime/promotion.hpp
// describes. Private to runtime. Threads: any.
#pragma once

#include <span>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include "op_operand.hpp"

namespace hearth::detail {

/// The common type of these operands of the kind. Requires non-empty tensors, at least one.
[[nodiscard]] DType common_type(OpKind kind, std::span<const Arg> operands) noexcept;

/// An operand in the given type: itself if it has the type or is a number, else its cast, which
/// this object owns. Moves a moved-in tensor. Gradients flow through the cast.
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
