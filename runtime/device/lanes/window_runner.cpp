#include "window_runner.hpp"

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/op_facts.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth {
namespace {

bool is_op(OpKind kind) noexcept {
  return op_info(kind).op_class != OpClass::lifetime;
}

/// Whether the ops behind this one mostly belong to its kernel.
bool is_product(OpKind kind) noexcept {
  const FusionClass fusion = op_facts(kind).fusion;
  return fusion == FusionClass::contraction || fusion == FusionClass::conv ||
         fusion == FusionClass::attention;
}

/// Effect of one of the program's records on the window before it.
WindowEnd boundary_of(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::readback:
      return WindowEnd::read;
    case OpKind::lend:
      return WindowEnd::lend;
    case OpKind::publish:
      return WindowEnd::publish;
    case OpKind::upload:
      return WindowEnd::upload;
    case OpKind::adopt:
      return WindowEnd::adopt;
    case OpKind::group_begin:
    case OpKind::group_end:
      return WindowEnd::group;
    case OpKind::limit:
      return WindowEnd::limit;
    default:
      return WindowEnd::sync;
  }
}

}  // namespace

// Drops come with every op. Behind ops they wait in the window, because the ops may use their
// tensors.
WindowRunner::Admission WindowRunner::admit(LaneState& lane, const OpView& op) {
  const bool is_boundary = !is_op(op.kind()) && op.kind() != OpKind::drop;
  if (is_boundary && !lane.window.is_open()) {
    lane.window.record_boundary();
    return Admission::alone;
  }
  if (runs_alone(lane, op.record())) {
    HEARTH_ASSERT(!lane.window.is_open(), "a record behind an open window has its turn");
    return Admission::alone;
  }
  if (is_boundary) {
    queues_.end_window(lane, boundary_of(op.kind()));
    return Admission::ended;
  }
  if (is_op(op.kind())) {
    if (lane.window.has_enough_before(op.record()) && is_product(op.kind())) [[unlikely]] {
      if (lane.window.is_open()) {
        queues_.end_window(lane, WindowEnd::full);
        return Admission::ended;
      }
      lane.window.record_boundary();
    }
    return !lane.window.is_open() && lane.window.expects_no_other() ? Admission::alone
                                                                    : join(lane, op);
  }
  if (!lane.window.is_open()) {
    return Admission::alone;
  }
  settle(lane, op.record(), lane.window.join(op.record(), false), false);
  return Admission::joined;
}

// A watcher is notified when the turn ends, and registers again if it waits for a later record.
[[gnu::always_inline]] inline void WindowRunner::settle(LaneState& lane,
                                                        const OpRecord& record,
                                                        bool is_full,
                                                        bool is_awaited) {
  const bool is_reached = record.sequence >= lane.watched;
  const bool is_watched = is_reached && lane.watched > lane.lane->consumed();
  if (is_full) {
    queues_.end_window(lane, WindowEnd::full);
  } else if (is_awaited || is_watched) {
    queues_.end_window(lane, WindowEnd::watched);
  }
  if (is_reached) {
    lane.watched = LaneState::kUnwatched;
  }
}

// If our own code throws, the op counts as failing: its turn reports the error.
WindowRunner::Admission WindowRunner::join(LaneState& lane, const OpView& op) {
  try {
    if (is_plain(lane, op.record())) [[likely]] {
      return enter_view(lane, op) ? Admission::joined : enter(lane, op);
    }
    const std::optional<WindowEnd> why = obstacle(lane, op);
    return why ? decline(lane, *why) : enter(lane, op);
  } catch (...) {
    dispatch_.log_mistake("a look at a window");
    return decline(lane, WindowEnd::failure);
  }
}

WindowRunner::Admission WindowRunner::decline(LaneState& lane, WindowEnd why) {
  if (lane.window.is_open()) {
    queues_.end_window(lane, why);
    return Admission::ended;
  }
  if (why == WindowEnd::failure) {
    lane.window.register_failure();
  }
  return Admission::alone;
}

[[gnu::always_inline]] inline WindowRunner::Admission WindowRunner::enter(LaneState& lane,
                                                                          const OpView& op) {
  const bool is_awaited = make_pending(lane, op);
  settle(lane, op.record(), lane.window.join(op.record(), true), is_awaited);
  return Admission::joined;
}

bool WindowRunner::enter_view(LaneState& lane, const OpView& op) {
  const OpRecord& record = op.record();
  if (lane.limits.is_set() || !dispatch_.show_ahead(op, lane)) {
    return false;
  }
  const bool is_full = lane.window.join(record, true);
  lane.window.mark_done(record);
  settle(lane, record, is_full, false);
  return true;
}

// Nearly every op passes here: obstacle() would find nothing.
[[gnu::always_inline]] inline bool WindowRunner::is_plain(const LaneState& lane,
                                                          const OpRecord& record) {
  if (record.operand_count() > kInlineOperands || dispatch_.lost() != nullptr) {
    return false;
  }
  for (int i = 0; i < record.input_count; ++i) {
    const Operand& operand = record.operands[i];
    const Slot& slot = handles_.slot(operand.slot);
    const bool may_join = is_uncreated(slot, operand)
                              ? slot.state == SlotState::pending && slot.home == lane.id
                              : slot.state == SlotState::live && !slot.late;
    if (!may_join) {
      return false;
    }
  }
  return true;
}

std::optional<WindowEnd> WindowRunner::obstacle(const LaneState& lane, const OpView& op) {
  bool fails = dispatch_.lost() != nullptr;
  for (int i = 0; i < op.record().input_count; ++i) {
    const Operand operand = op.input(i);
    Slot& slot = handles_.slot(operand.slot);
    if (is_uncreated(slot, operand)) {
      if (slot.state != SlotState::pending || slot.home != lane.id) {
        return WindowEnd::wait;
      }
      continue;
    }
    if (slot.late) {
      handles_.settle(slot);
    }
    fails = fails || slot.state == SlotState::poisoned;
  }
  return fails ? std::optional(WindowEnd::failure) : std::nullopt;
}

[[gnu::always_inline]] inline bool WindowRunner::make_pending(const LaneState& lane,
                                                              const OpView& op) {
  bool is_awaited = false;
  for (int i = 0; i < op.record().output_count; ++i) {
    Slot& slot = handles_.slot(op.output(i).slot);
    HEARTH_ASSERT(slot.state == SlotState::empty, "a slot becomes pending that is in use");
    slot.state = SlotState::pending;
    slot.home = lane.id;
    is_awaited = is_awaited || !slot.waiting.empty();
  }
  return is_awaited;
}

// Records that joined were counted then; records of an update group do not belong to the window.
void WindowRunner::on_record_done(LaneState& lane, const OpRecord& record) noexcept {
  const bool counts = is_op(record.kind) || record.kind == OpKind::drop;
  if (counts && !lane.in_group && !lane.window.runs_singly(record)) {
    if (lane.window.has_enough_before(record) && is_product(record.kind)) [[unlikely]] {
      lane.window.record_boundary();
    }
    lane.window.pass(record, is_op(record.kind));
  }
}

}  // namespace hearth
