// Elementwise functions as text: "x*sigmoid(x) + b". Pure functions. Threads: any.
// Grammar: numbers, names, + - * /, unary minus, parentheses, and calls of the functions that
// expression_functions() lists. Any other name is an input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/expression.hpp>

namespace hearth::bench {

struct NamedExpression {
  ExpressionRef expression;
  std::vector<std::string> inputs;  ///< Their names, in the order in which the text has them.
};

/// Makes the kernel. f16 and bf16 are computed in f32.
///
/// Errors: invalid_argument with the place in the text, and the nearest name for an unknown
/// function.
[[nodiscard]] Result<NamedExpression> parse_expression(std::string_view text, DType dtype);
/// Returns "abs, cos, erf, ...".
[[nodiscard]] std::string expression_functions();

}  // namespace hearth::bench
