#include "group_runner.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth {
namespace {

constexpr std::size_t kFewestOps = 2;

DType dtype_of_values(const OpView& op) noexcept {
  return op.record().input_count > 0 ? op.input(0).dtype : op.output(0).dtype;
}

bool may_be_fused(const OpView& op) noexcept {
  const OpRecord& record = op.record();
  return record.output_count == 1 && !record.has(RecordFlag::exclusive) &&
         !record.has(RecordFlag::update) && may_stand_in_group(record.kind, dtype_of_values(op));
}

}  // namespace

bool GroupRunner::can_begin(LaneState& lane, const OpRecord& first) const {
  return lane.window.may_be_grouped(first) && !lane.in_group && !lane.has_expired &&
         !lane.awaited_work && !dispatch_.lost() && !dispatch_.checks_blocks() &&
         !in_flight_.is_full() && !(lane.limits.is_set() && lane.limits.over(first.sequence)) &&
         may_be_fused(OpView(first, lane.lane->front_blob()));
}

// A window of one, the usual one of a program that reads each result, has nothing to gather.
bool GroupRunner::stands_alone(const LaneState& lane) {
  const OpRecord* const second = lane.lane->peek(1);
  return second == nullptr || !lane.window.may_be_grouped(*second);
}

// Phases: the ops that may be one kernel, fewer where they have too many results; their plan; the
// kernel. Then their records leave.
bool GroupRunner::run(LaneState& lane) {
  const OpRecord& first = *lane.lane->front();
  if (!can_begin(lane, first)) {
    const OpView op(first, lane.lane->front_blob());
    if (may_be_fused(op)) {
      lane.window.use_known_plans();  // that it runs alone is a matter of time
    }
    note_alone(op);
    return false;
  }
  if (stands_alone(lane)) {
    group_.clear();
    group_.records = 1;
    note_end(lane);
    return false;
  }
  std::uint64_t last = first.sequence;
  try {
    std::size_t most_ops = kMostGroupOps;
    do {
      gather(lane, most_ops);
      find_later_drops(lane);
      most_ops = group_.made.size() / 2;
    } while (group_.output_count() > kMostGroupOutputs && most_ops >= kFewestOps);
    if (group_.records > 0) {
      last = first.sequence + group_.records - 1;
    }
    note_end(lane);
    if (group_.made.size() >= kFewestOps && group_.output_count() <= kMostGroupOutputs) {
      const Expression* const kernel = plan(lane.window.may_be_planned(first));
      if (kernel != nullptr && dispatch_.admits(group_, *kernel)) {
        if (dispatch_.run_fused(group_, *kernel, lane)) {
          for (std::uint64_t i = 0; i < group_.records; ++i) {
            queues_.finish_record(lane);
          }
          return true;
        }
        note_refusal();
      }
    }
  } catch (...) {
    // Our own bug, or no host memory: what has not begun runs singly, and fails by itself.
  }
  lane.window.run_singly_through(last);
  return false;
}

void GroupRunner::gather(LaneState& lane, std::size_t most_ops) {
  group_.clear();
  while (true) {
    const OpRecord* const record = lane.lane->peek(group_.records);
    if (record == nullptr || !lane.window.may_be_grouped(*record) ||
        !take(lane, OpView(*record, lane.lane->peek_blob(group_.records)), most_ops)) {
      return;
    }
    ++group_.records;
  }
}

FusedGroup::Made* GroupRunner::find_open(SlotId id) noexcept {
  const auto found = std::ranges::find_if(group_.made, [id](const FusedGroup::Made& made) {
    return made.operand.slot == id && !made.is_over && !made.is_needed;
  });
  return found == group_.made.end() ? nullptr : &*found;
}

// The window alone, so that what is found depends on the program and not on how far it has come. A
// drop without a list of uses says that no other stream has ever used the tensor.
void GroupRunner::find_later_drops(const LaneState& lane) {
  std::size_t open = group_.output_count();
  for (std::uint64_t ahead = group_.records; open > 0; ++ahead) {
    const OpRecord* const record = lane.lane->peek(ahead);
    if (record == nullptr || !lane.window.may_be_grouped(*record)) {
      return;
    }
    const OpView op(*record, lane.lane->peek_blob(ahead));
    const bool is_drop = op.kind() == OpKind::drop;
    for (int i = 0; i < record->input_count; ++i) {
      FusedGroup::Made* const made = find_open(op.input(i).slot);
      if (made == nullptr) {
        continue;
      }
      made->is_dropped_later = is_drop && record->blob_size_bytes == 0;
      made->is_over = made->is_dropped_later;
      made->is_needed = !made->is_over;
      --open;
    }
  }
}

bool GroupRunner::take(const LaneState& lane, const OpView& op, std::size_t most_ops) {
  if (op.kind() == OpKind::drop) {
    return take_drop(op);
  }
  if (group_.made.size() >= most_ops) {
    return refuse(Obstacle::ops);
  }
  return may_be_fused(op) ? take_op(lane, op) : refuse(Obstacle::kind);
}

// What an op that is not taken has added is taken back: the group ends before it.
bool GroupRunner::take_op(const LaneState& lane, const OpView& op) {
  const Operand out = op.output(0);
  if (!group_.made.empty() && out.shape != group_.made.front().operand.shape) {
    return refuse(Obstacle::shape);
  }
  const std::size_t parameters = group_.parameters + group_parameter_count(op);
  if (parameters > kMostExpressionParameters) {
    return refuse(Obstacle::numbers);
  }
  const std::size_t inputs = group_.inputs.size();
  const std::size_t sources = group_.sources.size();
  FusedGroup::Made made{.op = op,
                        .operand = out,
                        .first_source = static_cast<std::uint8_t>(sources),
                        .source_count = static_cast<std::uint8_t>(op.record().input_count)};
  for (int i = 0; i < op.record().input_count; ++i) {
    if (!add_source(lane, op.input(i), made.needs)) {
      group_.inputs.resize(inputs);
      group_.sources.resize(sources);
      return false;
    }
  }
  for (int i = 0; i < op.record().input_count; ++i) {
    const GroupSource source = group_.sources[sources + static_cast<std::size_t>(i)];
    if (op.input(i).use == Use::read_last) {
      (source.is_made ? group_.made[source.number].is_over : group_.inputs[source.number].is_last) =
          true;
    }
  }
  group_.parameters = parameters;
  group_.made.push_back(made);
  return true;
}

bool GroupRunner::add_source(const LaneState& lane, const Operand& operand, std::uint32_t& needs) {
  for (std::size_t i = group_.made.size(); i-- > 0;) {
    if (group_.made[i].operand.slot == operand.slot) {
      needs |= group_.made[i].needs;
      group_.sources.push_back({.is_made = true, .number = static_cast<std::uint8_t>(i)});
      return true;
    }
  }
  Slot& slot = handles_.slot(operand.slot);
  const auto known = std::ranges::find(group_.inputs, &slot, &FusedGroup::Input::slot);
  const auto number = static_cast<std::size_t>(known - group_.inputs.begin());
  if (known == group_.inputs.end()) {
    if (group_.inputs.size() >= kMostGroupInputs) {
      return refuse(Obstacle::inputs);
    }
    if (is_unborn(slot, operand)) {
      return refuse(Obstacle::unready_input);
    }
    if (slot.late) {
      handles_.settle(slot);
    }
    if (slot.state != SlotState::live) {
      return refuse(Obstacle::unready_input);
    }
    group_.foreign_uses += slot.home != lane.id && !slot.is_published ? 1U : 0U;
    group_.inputs.push_back({.operand = operand, .slot = &slot});
  }
  needs |= 1U << number;
  group_.sources.push_back({.number = static_cast<std::uint8_t>(number)});
  return true;
}

bool GroupRunner::take_drop(const OpView& op) {
  if (op.record().blob_size_bytes != 0 || !dispatch_.guests.empty()) {
    return refuse(Obstacle::drop);
  }
  const SlotId id = op.input(0).slot;
  for (FusedGroup::Made& made : group_.made) {
    if (made.operand.slot == id) {
      made.is_over = true;
      return true;
    }
  }
  for (FusedGroup::Input& input : group_.inputs) {
    if (input.operand.slot == id) {
      input.is_last = true;
      return true;
    }
  }
  group_.drops.push_back(id);
  return true;
}

// A view makes no kernel that could carry the text, and updates and lifetimes are in no group.
void GroupRunner::note_alone(const OpView& first) const noexcept {
  KernelJournal* const journal = dispatch_.journal();
  if (journal == nullptr) [[likely]] {
    return;
  }
  const OpClass of = op_info(first.kind()).op_class;
  const bool makes_kernel =
      of != OpClass::lifetime && of != OpClass::view && !is_update(first.record());
  journal->expect_end(!makes_kernel         ? ""
                      : may_be_fused(first) ? "the device does not group its ops at this moment"
                                            : "it is a kernel of its own");
}

void GroupRunner::note_refusal() const noexcept {
  if (KernelJournal* const journal = dispatch_.journal()) {
    journal->expect_end("the kernel of its group was refused, or had no memory");
  }
}

// Without host memory for the text there is none.
void GroupRunner::note_end(const LaneState& lane) const noexcept {
  KernelJournal* const journal = dispatch_.journal();
  if (journal == nullptr) [[likely]] {
    return;
  }
  try {
    journal->expect_end(why_ended(lane));
  } catch (...) {
    journal->expect_end("");
  }
}

std::string GroupRunner::why_ended(const LaneState& lane) const {
  const OpRecord* const next = lane.lane->peek(group_.records);
  if (next == nullptr || !lane.window.may_be_grouped(*next)) {
    return fmt::format("the device stopped looking ahead: {}", name_of(lane.window_end));
  }
  const std::string_view name = dispatch_.name_of(*next);
  switch (obstacle_) {
    case Obstacle::kind:
      return fmt::format(
          "the next op, {}, is {}",
          name,
          op_info(next->kind).op_class == OpClass::view ? "a view" : "a kernel of its own");
    case Obstacle::ops:
      return fmt::format("{} ops at most, or {} results", kMostGroupOps, kMostGroupOutputs);
    case Obstacle::shape:
      return fmt::format("the next op, {}, has a result of another shape", name);
    case Obstacle::numbers:
      return fmt::format(
          "the next op, {}, would be more than {} numbers", name, kMostExpressionParameters);
    case Obstacle::inputs:
      return fmt::format("the next op, {}, would be more than {} inputs", name, kMostGroupInputs);
    case Obstacle::unready_input:
      return fmt::format("an input of the next op, {}, is not there, or carries an error", name);
    case Obstacle::drop:
      break;
  }
  return "a tensor goes that other streams used";
}

// A word for each op, one for its inputs from outside, by type, and one for its sources; then which
// results are needed.
void GroupRunner::write_form() {
  std::uint64_t outputs = 0;
  for (std::size_t i = 0; i < group_.made.size(); ++i) {
    const FusedGroup::Made& made = group_.made[i];
    const OpRecord& record = made.op.record();
    std::uint64_t word = static_cast<std::uint64_t>(record.kind) |
                         std::uint64_t{record.flags} << 8U |
                         static_cast<std::uint64_t>(made.operand.dtype) << 24U;
    for (std::size_t s = 0; s < made.source_count; ++s) {
      const GroupSource source = group_.sources[made.first_source + s];
      const std::uint64_t code =
          source.is_made
              ? 0x80U | source.number
              : (0x100U | source.number |
                 static_cast<std::uint64_t>(group_.inputs[source.number].operand.dtype) << 4U);
      word = word | (code + 1) << (32U + 10U * s);
    }
    group_.form.push_back(word);
    outputs |= std::uint64_t{made.is_over ? 0U : 1U} << i;
  }
  group_.form.push_back(outputs);
}

const Expression* GroupRunner::plan(bool may_make) {
  write_form();
  if (const PlanStore::Plan* known = plans_.find(group_.form)) {
    return known->expression.get();
  }
  if (!may_make) {
    return nullptr;
  }
  if (plans_.is_full()) {
    if (!in_flight_.is_empty()) {
      return nullptr;
    }
    plans_.forget();
  }
  std::vector<GroupOp> ops;
  for (const FusedGroup::Made& made : group_.made) {
    ops.push_back(
        {.op = made.op,
         .sources = std::span(group_.sources).subspan(made.first_source, made.source_count),
         .dtype = made.operand.dtype,
         .is_output = !made.is_over});
  }
  std::vector<DType> inputs;
  for (const FusedGroup::Input& input : group_.inputs) {
    inputs.push_back(input.operand.dtype);
  }
  const Result<ExpressionRef> made = make_group_expression(ops, inputs);
  return plans_.keep(group_.form, made.has_value() ? made.value() : nullptr).expression.get();
}

}  // namespace hearth
