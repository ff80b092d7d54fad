// Views: tensors that show the bytes of another, or a copy if strides cannot express the view.
#include "dispatch.hpp"

#include <utility>

#include <hearth/streams/op_table.hpp>

#include "runtime/client/runtime_tables.hpp"
#include "view_layout.hpp"

namespace hearth {

// Takes no kernel and no memory, only one more use of the storage. From then on neither tensor is
// overwritten in place.
Ran Dispatch::run_view(const ResolvedOp& op, LaneState& lane, OnShortage rule) {
  return show(op, lane) ? Ran::done : run_reshaped(op, lane, rule);
}

bool Dispatch::show(const ResolvedOp& op, LaneState& lane) {
  const Operand out = op.op().output(0);
  Slot& from = op.slot(0);
  const detail::Layout& interned = endpoint_.tables().shapes.layout(out.shape);
  const ViewLayout view = view_layout(op.op(), *from.layout, interned);
  if (!view.possible) {
    return false;
  }
  Slot& to = handles_.slot(out.slot);
  woken.reserve(woken.size() + to.waiting.size());  // nothing may throw after the first change
  std::byte* data = from.data + view.offset_elements * size_bytes(from.dtype);
  if (view.layout.contiguous) {
    handles_.make_live(to, out, lane.id, from.storage, data, &interned);
  } else {
    handles_.make_view(to, out, lane.id, from.storage, data, view.layout);
  }
  HandleTable::share(*from.storage);
  to.late = from.late;
  record_view(op.op().input(0), out);
  wake_waiting(to);
  consume_inputs(op);
  return true;
}

bool Dispatch::show_ahead(const OpView& op, LaneState& lane) {
  if (op_info(op.kind()).op_class != OpClass::view || op.input(0).use == Use::read_last) {
    return false;
  }
  const Slot& from = handles_.slot(op.input(0).slot);
  if (is_uncreated(from, op.input(0)) || from.state != SlotState::live || from.late) {
    return false;
  }
  const ResolvedOp resolved = resolve(op, lane.id);
  if (!show(resolved, lane)) {
    return false;
  }
  statistics_.foreign_uses += resolved.foreign_uses();
  return true;
}

// Only for a reshape that strides cannot express: copies the elements in row-major order. The
// kernel reads the input through its own shape.
Ran Dispatch::run_reshaped(const ResolvedOp& op, LaneState& lane, OnShortage rule) {
  const Operand out = op.op().output(0);
  Result<HeldStorage> storage = packed(op.op(), out, op.slot(0), rule);
  if (!storage.has_value()) {
    return fail_or_defer(op, lane, storage.status());
  }
  Slot& to = handles_.slot(out.slot);
  fill(to, out, lane.id, std::move(storage).value());
  to.late = op.slot(0).late;
  consume_inputs(op);
  return Ran::done;
}

}  // namespace hearth
