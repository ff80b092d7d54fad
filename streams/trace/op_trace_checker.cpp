#include <hearth/streams/trace/op_trace_checker.hpp>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/trace/record_rules.hpp>

namespace hearth {
namespace {

Error wrong(std::string text, ErrorCode code = ErrorCode::invalid_argument) {
  return Error{.code = code, .text = std::move(text)};
}

Error wrong(const TraceOp& op, std::string_view what) {
  return Error{.code = ErrorCode::invalid_argument,
               .text = fmt::format("{}: {}", name(op.record.kind), what),
               .op = std::string(name(op.record.kind))};
}

bool reads_bytes(OpKind kind) noexcept {
  return kind == OpKind::upload || kind == OpKind::readback || kind == OpKind::lend;
}

}  // namespace

Status OpTraceChecker::check_tables() const {
  if (trace_.devices.empty() && !trace_.ops.empty()) {
    return wrong("the trace names no device");
  }
  if (trace_.places.empty() || !(trace_.places[0] == OpTrace::Place{}) || trace_.paths.empty() ||
      !trace_.paths[0].empty()) {
    return wrong("the first place and the first path must be the unknown ones");
  }
  return {};
}

Status OpTraceChecker::step() {
  const TraceOp& op = trace_.ops[next_op_++];
  HEARTH_TRY_STATUS(rules::check_form(op.record, op.blob.size()));
  HEARTH_TRY_STATUS(check_numbers(op));
  HEARTH_TRY_STATUS(check_operands(op));
  HEARTH_TRY_STATUS(rules::check_record(op.view(), inputs_, outputs_, trace_.expression_of(op)));
  HEARTH_TRY_STATUS(check_bytes(op));
  HEARTH_TRY_STATUS(check_group(op));
  HEARTH_TRY_STATUS(count_work(op));
  apply(op);
  return {};
}

Status OpTraceChecker::check_numbers(const TraceOp& op) const {
  if (op.device >= trace_.devices.size()) {
    return wrong(op, fmt::format("there is no device {}", op.device));
  }
  if (op.record.source.value >= trace_.places.size() ||
      op.record.path.value >= trace_.paths.size()) {
    return wrong(op, "its place or path is not in the table");
  }
  if (op.data > trace_.data.size() || (op.data != 0 && !reads_bytes(op.record.kind))) {
    return wrong(op, fmt::format("there is no data {} for it", op.data));
  }
  if (op.record.kind == OpKind::expression &&
      op.view().attributes<ExpressionAttributes>().expression >= trace_.expressions.size()) {
    return wrong(op, "its expression is not in the table");
  }
  if (op.outcome > TraceOutcome::discarded || op.error > ErrorCode::internal) {
    return wrong(op, "its outcome is none that there is");
  }
  return {};
}

Status OpTraceChecker::check_operands(const TraceOp& op) {
  inputs_.clear();
  outputs_.clear();
  const OpView view = op.view();
  for (int i = 0; i < op.record.operand_count(); ++i) {
    const Operand operand = view.operand(i);
    const bool is_input = i < op.record.input_count;
    if (static_cast<int>(operand.dtype) >= kDTypeCount ||
        operand.shape.value >= trace_.shapes.size() || operand.generation != 0 ||
        operand.reserved != 0 || operand.use > Use::read_last ||
        (operand.use == Use::out) == is_input) {
      return wrong(op, fmt::format("operand {} is malformed", i));
    }
    const TensorSpec spec{operand.dtype, trace_.shape(operand)};
    (is_input ? inputs_ : outputs_).push_back(spec);
    if (!is_input) {
      const std::size_t next = values_.size() + outputs_.size() - 1;
      if (operand.slot.value != next) {
        return wrong(op,
                     fmt::format("makes value {}, the next one is {}", operand.slot.value, next));
      }
      continue;
    }
    HEARTH_TRY_STATUS(check_input(op, operand));
  }
  const bool must_end = op.record.kind == OpKind::drop;
  if (must_end && view.input(0).use != Use::read_last) {
    return wrong(op, "a drop is the last use");
  }
  return {};
}

Status OpTraceChecker::check_input(const TraceOp& op, const Operand& operand) {
  const std::uint32_t number = operand.slot.value;
  if (number >= values_.size() || !values_[number].is_live) {
    return wrong(op, fmt::format("there is no value {} here", number));
  }
  Value& value = values_[number];
  const Shape& shape = trace_.shape(operand);
  if (value.device != op.device || value.spec.dtype != operand.dtype ||
      !(value.spec.shape == shape)) {
    return wrong(op,
                 fmt::format("value {} is {} on device {}, not {}",
                             number,
                             hearth::describe(value.spec.dtype, value.spec.shape),
                             value.device,
                             hearth::describe(operand.dtype, shape)));
  }
  if (is_open_[value.group] && op.record.kind != OpKind::drop) {
    return wrong(op, fmt::format("value {} is used inside the update group that makes it", number));
  }
  const bool ends = operand.use == Use::read_last;
  if (value.named_by == next_op_ && (ends || value.is_ending)) {
    return wrong(op, fmt::format("value {} is used up and named again", number));
  }
  value.named_by = next_op_;
  value.is_ending = ends;
  return {};
}

Status OpTraceChecker::check_bytes(const TraceOp& op) const {
  if (op.copied_from != 0) {
    if (op.record.kind != OpKind::upload || op.data != 0 || op.copied_from >= next_op_) {
      return wrong(op, fmt::format("cannot have its bytes from op {}", op.copied_from));
    }
    const TraceOp& read = trace_.ops[op.copied_from - 1];
    const bool is_read = read.record.kind == OpKind::readback;
    const Operand to = op.view().output(0);
    if (!is_read || read.record.operands[0].dtype != to.dtype ||
        !(trace_.shape(read.record.operands[0]) == trace_.shape(to))) {
      return wrong(op, fmt::format("op {} does not read {}", op.copied_from, trace_.describe(to)));
    }
  }
  if (op.data != 0) {
    const Operand of = op.view().operand(0);
    const auto size = static_cast<std::int64_t>(trace_.data[op.data - 1].size());
    if (size != value_size_bytes(trace_, of)) {
      return wrong(
          op,
          fmt::format(
              "{} has {} bytes, not {}", trace_.describe(of), value_size_bytes(trace_, of), size));
    }
    const auto is_other = [](std::byte byte) { return byte > std::byte{1}; };
    if (of.dtype == DType::boolean && std::ranges::any_of(trace_.data[op.data - 1], is_other)) {
      return wrong(op, fmt::format("{} has a byte that is neither 0 nor 1", trace_.describe(of)));
    }
  }
  return {};
}

Status OpTraceChecker::check_group(const TraceOp& op) {
  const auto lane = std::pair(op.device, op.lane);
  const auto open = open_groups_.find(lane);
  const bool is_open = open != open_groups_.end();
  if (op.record.kind == OpKind::group_begin) {
    if (is_open) {
      return wrong(op, "update groups cannot be nested");
    }
    open_groups_.emplace(lane, is_open_.size());
    is_open_.push_back(true);
  } else if (op.record.kind == OpKind::group_end) {
    if (!is_open) {
      return wrong(op, "no update group is open");
    }
    is_open_[open->second] = false;
    open_groups_.erase(open);
  }
  return {};
}

Status OpTraceChecker::count_work(const TraceOp& op) {
  for (const TensorSpec& spec : outputs_) {
    const std::int64_t size = spec.shape.element_count() * size_bytes(spec.dtype);
    if (size > limits_.value_bytes || live_bytes_ + size > limits_.live_bytes) {
      return wrong(fmt::format("{}: {} is more than the limit of {} bytes, {} of all",
                               name(op.record.kind),
                               hearth::describe(spec.dtype, spec.shape),
                               limits_.value_bytes,
                               limits_.live_bytes),
                   ErrorCode::out_of_memory);
    }
    live_bytes_ += size;
  }
  if (op_info(op.record.kind).op_class != OpClass::lifetime) {
    const OpCost cost = op_cost(op.view(), inputs_, outputs_);
    work_ += cost.flops + cost.bytes;
  }
  if (!(work_ <= limits_.work)) {
    return wrong(fmt::format("{}: more work than the limit of {:g} flops and bytes",
                             name(op.record.kind),
                             limits_.work),
                 ErrorCode::out_of_memory);
  }
  return {};
}

void OpTraceChecker::apply(const TraceOp& op) {
  const OpView view = op.view();
  for (int i = 0; i < op.record.input_count; ++i) {
    if (view.input(i).use == Use::read_last) {
      Value& value = values_[view.input(i).slot.value];
      value.is_live = false;
      live_bytes_ -= value.spec.shape.element_count() * size_bytes(value.spec.dtype);
    }
  }
  const bool is_step = is_update(op.record);
  const auto open = open_groups_.find({op.device, op.lane});
  for (const TensorSpec& spec : outputs_) {
    values_.push_back(Value{.device = op.device,
                            .spec = spec,
                            .is_live = true,
                            .group = is_step && open != open_groups_.end() ? open->second : 0});
  }
}

Status check_trace(const OpTrace& trace, const TraceLimits& limits) {
  OpTraceChecker checker(trace, limits);
  HEARTH_TRY_STATUS(checker.check_tables());
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    if (const Status status = checker.step(); !status.has_value()) {
      Error error = status.error();
      error.text = fmt::format("op {}: {}", i + 1, error.text);
      return error;
    }
  }
  return {};
}

}  // namespace hearth
