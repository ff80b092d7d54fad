// Expressions in trace files: the name, and what of the kernel is not the same for all pointwise
// kernels. Private to streams/trace. Threads: any.
#pragma once

#include <hearth/streams/kernel/expression.hpp>

#include "trace_bytes.hpp"

namespace hearth::trace_file {

/// Gradients are left out: a trace holds the ops that they became.
void put_expression(ByteWriter& out, const Expression& expression);
/// Errors: bad_format, for one that make_expression() refuses too.
[[nodiscard]] Result<ExpressionRef> get_expression(ByteReader& in);

}  // namespace hearth::trace_file
