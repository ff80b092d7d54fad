// What ops that are made of other ops share: operands that several of these read, and types that
// they compute in. Private to runtime. Threads: any.
#pragma once

#include <hearth/runtime/ops.hpp>
#include <hearth/streams/kernel/op_expression.hpp>

#include "op_operand.hpp"

namespace hearth::detail {

/// The operand for one of several uses: it is not moved from.
[[nodiscard]] inline Arg shared_operand(const Arg& arg) noexcept {
  return arg.is_scalar() ? arg : Arg(arg.tensor(), arg.location());
}

/// The values in the type that they are computed in, so that a chain of ops rounds to 16 bits once,
/// at its end: f32 for f16 and bf16, else as they are; a moved-in tensor moves on.
[[nodiscard]] inline Tensor wide(const Arg& x) {
  return cast(x, compute_type(x.tensor().dtype()));
}

/// Of cross_entropy, before its rule looks: what beginners give it, with what to write instead.
/// Errors: DtypeError for targets that are no numbers of classes.
void require_classes(const Arg& logits, const Arg& targets);

}  // namespace hearth::detail
