// Expressions in trace files: the name, and the parts of the kernel that differ between pointwise
// kernels. Private to streams/trace. Threads: any.
#pragma once

#include <hearth/streams/kernel/expression.hpp>

#include "trace_bytes.hpp"

namespace hearth::trace_file {

/// Writes an expression without its gradients: a trace holds the ops that they became.
void put_expression(ByteWriter& out, const Expression& expression);
/// Reads an expression.
///
/// Errors: bad_format, also if make_expression() refuses it.
[[nodiscard]] Result<ExpressionRef> get_expression(ByteReader& in);

}  // namespace hearth::trace_file
