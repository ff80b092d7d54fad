#include "prologue_rows.hpp"

#include "program_cache.hpp"

#include <hearth/streams/op_attributes.hpp>

namespace hearth::cpu {

namespace {

Support no(const char* reason) {
  return {.yes = false, .reason = reason};
}

}  // namespace

Support PrologueRows::supports(const Prologue& prologue,
                               std::int64_t row_elements,
                               const KernelContext& context) {
  const KernelCall& producer = *prologue.call;
  PrologueRows rows;
  if (const Status status = rows.start(&prologue, context); !status.has_value()) {
    return {.yes = false, .reason = status.error().text};
  }
  if (!rows.is_there()) {
    return no("the prologue is no expression");
  }
  if (rows.program_->may_fail) {
    return no("a prologue may not fail");
  }
  if (rows.rows_.has_value()) {
    return rows.row_elements_ == row_elements && !rows.program_->outputs[0].is_of_rows
               ? Support{}
               : no("the prologue works along other rows than the op");
  }
  if (!rows.program_->is_pointwise) {
    return no("a prologue works on each element by itself, or on rows");
  }
  return producer.outputs[0].element_count() > 0 && rows.tiles_->suits_blocks()
             ? no("the prologue reads an operand along its columns")
             : Support{};
}

Status PrologueRows::start(const Prologue* prologue, const KernelContext& context) {
  if (prologue == nullptr || prologue->call->expression == nullptr) {
    return {};
  }
  const KernelCall& producer = *prologue->call;
  const Expression& expression = *producer.expression;
  HEARTH_TRY(program_,
             context.programs->find_lasting(expression.kernel, expression.hash, context.isa));
  isa_ = context.isa;
  parameters_.emplace(producer.op, expression);
  call_ = {.inputs = producer.inputs,
           .outputs = producer.outputs,
           .parameters = parameters_->all(),
           .row_axes = static_cast<int>(producer.op.attributes<ExpressionAttributes>().row_axes),
           .stays_cached = true};
  if (!program_->has_rows) {
    tiles_.emplace(*program_, call_, isa_);
    return {};
  }
  HEARTH_TRY(const RowCall rows, RowCall::make(*program_, call_, isa_));
  rows_.emplace(rows);
  const Shape& shape = producer.outputs[0].shape();
  for (int axis = shape.rank() - call_.row_axes; axis < shape.rank(); ++axis) {
    row_elements_ *= shape[axis];
  }
  return {};
}

void PrologueRows::ask_for(std::int64_t begin, std::int64_t end) const noexcept {
  constexpr std::int64_t kLine = 64;
  const std::int64_t count = call_.outputs[0].element_count();
  for (const TensorView& each : call_.inputs) {
    if (!each.layout->contiguous || each.element_count() != count) {
      continue;
    }
    const std::byte* const last = each.data + end * size_bytes(each.dtype);
    for (const std::byte* line = each.data + begin * size_bytes(each.dtype); line < last;
         line += kLine) {
      __builtin_prefetch(line, 0, 2);
    }
  }
}

PrologueRows::Part::Part(const PrologueRows& of, std::byte* memory) : of_(of), memory_(memory) {
  if (of.tiles_.has_value()) {
    tiles_.emplace(*of.tiles_);
    run_.emplace(*of.program_, of.isa_);
    UndefinedElement none;  // stays unset: supports() refuses expressions that may fail
    static_cast<void>(run_->start(of.call_.parameters, tiles_->sizes(), none));
  }
}

void PrologueRows::Part::make(std::byte* to, std::int64_t begin, std::int64_t end) {
  if (tiles_.has_value()) {
    tiles_->make_piece(*run_, to, begin, end);
    return;
  }
  of_.rows_->make(memory_, to, begin / of_.row_elements_, end / of_.row_elements_);
}

}  // namespace hearth::cpu
