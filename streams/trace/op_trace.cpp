#include <hearth/streams/trace/op_trace.hpp>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

namespace hearth {

const Expression* OpTrace::expression_of(const TraceOp& op) const noexcept {
  return op.record.kind == OpKind::expression
             ? expressions[op.view().attributes<ExpressionAttributes>().expression].get()
             : nullptr;
}

std::string OpTrace::describe(const Operand& operand) const {
  return hearth::describe(operand.dtype, shape(operand));
}

std::string OpTrace::describe(const TraceOp& op) const {
  const Expression* const expression = expression_of(op);
  std::string text(expression != nullptr ? expression->name : name(op.record.kind));
  const OpView view = op.view();
  for (int i = 0; i < op.record.input_count; ++i) {
    text += i == 0 ? " " : ", ";
    text += describe(view.input(i));
  }
  for (int i = 0; i < op.record.output_count; ++i) {
    text += i == 0 ? " -> " : ", ";
    text += describe(view.output(i));
  }
  return text;
}

std::string OpTrace::place_of(const TraceOp& op) const {
  const Place& place = places[op.record.source.value];
  return place.line == 0 ? std::string() : fmt::format("{}:{}", place.file, place.line);
}

std::int64_t value_size_bytes(const OpTrace& trace, const Operand& operand) noexcept {
  return trace.shape(operand).element_count() * size_bytes(operand.dtype);
}

}  // namespace hearth
