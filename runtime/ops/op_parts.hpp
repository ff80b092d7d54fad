// Helpers for ops that are composed of other ops: shared operands and compute types. Private to
// runtime. Threads: any.
#pragma once

#include <hearth/runtime/ops.hpp>
#include <hearth/streams/kernel/op_expression.hpp>

#include "op_operand.hpp"

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

/// Checks cross_entropy's operands for common mistakes before its rule does, with a hint. Errors:
/// DtypeError for targets that are no class indices.
void require_classes(const Arg& logits, const Arg& targets);

}  // namespace hearth::detail
