// Calls whose operands have no elements: every combination of sizes 0 that the rules of an op
// accept, made from the calls of its case. Nothing is read or written there, or a neutral value is
// written, and each kernel must see that by itself. Values, any thread.
#pragma once

#include "op_case.hpp"

namespace hearth::conformance {

/// The case of a kind with calls of which at least one operand is empty. Of an op with windows also
/// planes without rows or columns, under padding.
[[nodiscard]] OpCase empty_case(OpKind kind);

}  // namespace hearth::conformance
