// Calls whose operands have no elements: every combination of sizes 0 that the rules of an op
// accept, derived from the calls of its case. Such a call accesses no element or writes a neutral
// value, and each kernel must handle that itself. Values, any thread.
#pragma once

#include "op_case.hpp"

namespace hearth::conformance {

/// The case of a kind with calls in which at least one operand is empty. Ops with windows also get
/// planes without rows or columns, under padding.
[[nodiscard]] OpCase empty_case(OpKind kind);

}  // namespace hearth::conformance
