// The kernel of the kind `expression`, and launches over many of its ops.
#include "expression_kernel.hpp"

#include "expression.hpp"
#include "program_cache.hpp"

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <vector>

namespace hearth::cpu {
namespace {

Status named(const Status& status, const Expression& expression) {
  if (status.has_value()) {
    return status;
  }
  Error error = status.error();
  error.op = expression.name;
  return error;
}

// Plans come and go, so another expression may reuse the address of a dropped one: the hash
// distinguishes them.
Result<const TileProgram*> expression_program(const Expression& expression,
                                              KernelContext& context) {
  return context.programs->find_lasting(expression.kernel, expression.hash, context.isa);
}

Status run_single_expression(const KernelCall& call, KernelContext& context) {
  return run_expression_batch({&call, 1}, context);
}

}  // namespace

Support supports_expression_call(const KernelCall& call, KernelContext& context) {
  if (call.expression == nullptr) {
    return {.yes = false, .reason = "expression without the function that it stands for"};
  }
  const Result<const TileProgram*> program = expression_program(*call.expression, context);
  return program.has_value() ? Support{} : Support{.yes = false, .reason = program.error().text};
}

Status run_expression_batch(std::span<const KernelCall> calls, KernelContext& context) {
  const Expression& expression = *calls[0].expression;
  const Result<const TileProgram*> program = expression_program(expression, context);
  if (!program.has_value()) {
    return named(program.status(), expression);
  }
  std::vector<ExpressionParameters> parameters;
  std::vector<ExpressionCall> sets;
  parameters.reserve(calls.size());  // the sets point into it
  sets.reserve(calls.size());
  for (const KernelCall& call : calls) {
    parameters.emplace_back(call.op, expression);
    sets.push_back(
        {.inputs = call.inputs,
         .outputs = call.outputs,
         .parameters = parameters.back().all(),
         .row_axes = static_cast<int>(call.op.attributes<ExpressionAttributes>().row_axes)});
  }
  return named(run_program(*program.value(), sets, context), expression);
}

std::size_t equal_expressions(std::span<const KernelCall> calls) noexcept {
  const auto is_other = [&](const KernelCall& call) {
    return call.expression != calls[0].expression;
  };
  if (calls[0].expression == nullptr) {
    return 1;
  }
  return static_cast<std::size_t>(std::ranges::find_if(calls, is_other) - calls.begin());
}

std::span<const KernelRow> expression_rows() noexcept {
  static constexpr KernelRow kRows[] = {
      {OpKind::expression, run_single_expression, nullptr, 0xffff}};
  return kRows;
}

}  // namespace hearth::cpu
