// Helpers for ops that are composed of other ops: shared operands and compute types. Private to
// runtime. Threads: any.
#pragma once

#include <hearth/runtime/ops.hpp>
#include <hearth/streams/kernel/op_expression.hpp>

#include "op_operand.hpp"

#include <utility>
#include <vector>

namespace hearth::detail {

/// The operand for one of several uses; never moved from.
[[nodiscard]] inline Arg shared_operand(const Arg& arg) noexcept {
  return arg.is_scalar() ? arg : Arg(arg.tensor(), arg.location());
}

/// Casts to the compute type (f32 for f16 and bf16, else unchanged), so that a chain of ops rounds
/// to 16 bits once, at its end. Moves a moved-in tensor.
[[nodiscard]] inline Tensor wide(const Arg& x) {
  return cast(x, compute_type(x.tensor().dtype()));
}

/// Makes operands at the line of a call.
class At final {
 public:
  explicit At(SourceLoc loc) noexcept : loc_(loc) {}
  template <class Value>
  [[nodiscard]] Arg operator()(Value&& value) const noexcept {
    return Arg(std::forward<Value>(value), loc_);
  }
  [[nodiscard]] SourceLoc location() const noexcept { return loc_; }

 private:
  SourceLoc loc_;
};

/// fn(x, at) of a tensor of floats, computed in its compute type and rounded to its own once.
template <class Fn>
[[nodiscard]] Tensor computed_wide(const Arg& x, const Fn& fn) {
  const DType dtype = accepted_operand(OpKind::sigmoid, x).dtype;
  const At at(x.location());
  Tensor result = fn(wide(x), at);
  return cast(at(std::move(result)), dtype);
}

/// The type of operands of floats, after promotion. Numbers among them have none.
///
/// Errors: DtypeError if it is no float; ShapeError if the shapes do not broadcast; ArgumentError
/// if no operand is a tensor.
[[nodiscard]] DType common_float(OpKind kind, std::span<const Arg> operands);

/// Numbers from the host as a tensor of a float type, also on devices without f64.
[[nodiscard]] Tensor reals_on(const Device& device,
                              const std::vector<double>& values,
                              const Shape& shape,
                              DType dtype,
                              SourceLoc loc);

/// Checks cross_entropy's operands for common mistakes before its rule does, with a hint. Errors:
/// DtypeError for targets that are no class indices.
void require_classes(const Arg& logits, const Arg& targets);

}  // namespace hearth::detail
