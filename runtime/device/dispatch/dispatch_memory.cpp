// The memory of an op's results: an input's bytes if they have no other user, else new bytes, else
// a wait or a report.
#include "dispatch.hpp"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "runtime/client/tickets.hpp"
#include "runtime/device/memory/memory_shortage.hpp"

namespace hearth {
namespace {

/// Out of line, like all code for failures: every op allocates.
[[gnu::noinline]] Status strategy_threw() {
  return Error{.code = ErrorCode::internal,
               .text = fmt::format("the memory strategy threw: {}", current_exception_text())};
}

BlockOrigin origin_of(const OpView& op, const Operand& out) noexcept {
  return {.kind = op.kind(),
          .dtype = out.dtype,
          .called = called_as(op.record().flags),
          .own = own_number(op.record()),
          .source = op.record().source,
          .path = op.record().path,
          .shape = out.shape};
}

std::int64_t bytes_of(const Operand& operand, const detail::Layout& layout) noexcept {
  return layout.shape.element_count() * size_bytes(operand.dtype);
}

}  // namespace

// An update's record has the parameter's path. Its state tensors have names of their own, such as
// "mean" and "variance", which their bytes keep.
BlockOrigin Dispatch::origin_of_result(const OpView& op, int output_index) {
  BlockOrigin origin = origin_of(op, op.output(output_index));
  if (output_index > 0 && is_update(op.record())) {
    const Operand old = op.input(updated_input(output_index));
    const Storage* const storage = handles_.slot(old.slot).storage;
    origin.path = storage != nullptr ? storage->origin.path : PathId{};
  }
  return origin;
}

// Bytes that the attempt allocated and returned are no release for waiting lanes. If they counted,
// two lanes that wait for memory would wake each other forever.
void Dispatch::uncount_deferred(std::uint64_t releases, OnShortage rule) noexcept {
  if (rule == OnShortage::wait) {
    handles_.forget_releases(releases);
    ++rungs_.wait_count;
  }
}

// Conditions for reuse in place: (1) last use of the input; (2) whole storage; (3) elements in the
// order of the result; (4) a kernel that may read and write the same bytes. An update's outputs
// replace only their own inputs; otherwise a parameter would land in the bytes of a moment.
Storage* Dispatch::reusable_storage(const ResolvedOp& op, int output_index) {
  const Operand out = op.op().output(output_index);
  const detail::Layout& out_layout = endpoint_.tables().shapes.layout(out.shape);
  const bool update = is_update(op.op().record());
  if (output_index > 0 && !update) {
    return nullptr;
  }
  const int first = update ? updated_input(output_index) : 0;
  const int last = update ? first + 1 : op.input_count();
  for (int i = first; i < last; ++i) {
    const Operand operand = op.op().input(i);
    if (operand.use != Use::read_last || operand.dtype != out.dtype) {
      continue;
    }
    const Slot& slot = op.slot(i);
    if (is_free_to_write(operand.slot, slot) &&
        (slot.layout == &out_layout ||
         slot.layout->shape.element_count() == out_layout.shape.element_count()) &&
        (update || facts_->may_alias(op.kind(), i))) {
      return slot.storage;
    }
  }
  return nullptr;
}

Result<HeldStorage> Dispatch::allocate(std::int64_t size_bytes,
                                       PoolKind kind,
                                       const BlockOrigin& origin,
                                       OnShortage rule) {
  Storage* storage = nullptr;
  try {
    Acquire outcome = Acquire::ok;
    storage = handles_.allocate(size_bytes, kind, outcome, origin);
    if (storage == nullptr && unstage(outcome)) [[unlikely]] {
      storage = handles_.allocate(size_bytes, kind, outcome, origin);
    }
    if (storage == nullptr && handles_.evict_constants()) [[unlikely]] {
      storage = handles_.allocate(size_bytes, kind, outcome, origin);
    }
    if (storage == nullptr) {
      return shortage(size_bytes, outcome, rule);
    }
  } catch (...) {
    return strategy_threw();
  }
  return hold(storage);
}

// Runs before constants are released: those are lost for good, and the next copy allocates its
// staging memory again.
bool Dispatch::unstage(Acquire outcome) noexcept {
  if (outcome != Acquire::exhausted || copies_->trim() == 0) {
    return false;
  }
  ++rungs_.unstage_count;
  return true;
}

// A request that can never fit fails at once: no release helps, and its lane would wait until the
// deadline.
Status Dispatch::shortage(std::int64_t size_bytes, Acquire outcome, OnShortage rule) {
  const std::int64_t budget = handles_.memory().report().budget_bytes;
  // 0: the strategy states none.
  const bool can_ever_fit = budget == 0 || size_bytes <= budget;
  if (rule == OnShortage::abort || (rule == OnShortage::wait && can_ever_fit)) {
    return short_;
  }
  ++rungs_.refuse_count;
  return out_of_memory_error(handles_, endpoint_.tables(), size_bytes, outcome);
}

Result<HeldStorage> Dispatch::storage_for(const ResolvedOp& op, int output_index, OnShortage rule) {
  if (Storage* reused = reusable_storage(op, output_index)) {
    const Operand out = op.op().output(output_index);
    const std::int64_t size = bytes_of(out, endpoint_.tables().shapes.layout(out.shape));
    handles_.replace(*reused, origin_of_result(op.op(), output_index), size);
    return hold(reused);
  }
  return new_storage_for(op.op(), output_index, rule);
}

Result<HeldStorage> Dispatch::new_storage_for(const OpView& op, int output_index, OnShortage rule) {
  const Operand out = op.output(output_index);
  const std::int64_t size = bytes_of(out, endpoint_.tables().shapes.layout(out.shape));
  const PoolKind kind = op.record().has(RecordFlag::exclusive) || is_update(op.record())
                            ? PoolKind::exclusive
                            : PoolKind::temporary;
  return allocate(size, kind, origin_of_result(op, output_index), rule);
}

// Conditions as for one op: a whole storage whose last use is in the group and that no other result
// takes. Each element must be read before the result's element is written there, so both must walk
// the space in the same way. An input that all rows or several rows read is needed until the last
// row.
Storage* Dispatch::reusable_storage(const FusedGroup& group,
                                    const FusedGroup::Member& member) const {
  const Operand& out = member.operand;
  const detail::Layout& layout = endpoint_.tables().shapes.layout(out.shape);
  const auto is_walked_alike = [&](const FusedGroup::Input& input) {
    return input.extent == member.extent &&
           (input.extent != GroupExtent::full || (group.has_space && out.shape == group.space));
  };
  if (group.has_anchor()) {
    return nullptr;  // the anchor's result is computed in the bytes of one of the outputs
  }
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    const FusedGroup::Input& input = group.inputs[i];
    if (input.is_last && input.operand.dtype == out.dtype && input.slot->layout == &layout &&
        is_walked_alike(input) && is_free_to_write(input.operand.slot, *input.slot) &&
        facts_->may_alias(OpKind::expression, static_cast<int>(i))) {
      return input.slot->storage;
    }
  }
  return nullptr;
}

// A reused storage gets one more use at once, so that no other result takes it.
bool Dispatch::get_memory(const FusedGroup& group) {
  fused_outputs_.clear();
  fused_in_place_ = false;
  for (const FusedGroup::Member& member : group.members) {
    if (!member.is_output()) {
      continue;
    }
    if (Storage* const reused = reusable_storage(group, member)) {
      const detail::Layout& layout = endpoint_.tables().shapes.layout(member.operand.shape);
      handles_.replace(
          *reused, origin_of(member.op, member.operand), bytes_of(member.operand, layout));
      fused_outputs_.push_back(hold(reused));
      fused_in_place_ = true;
      continue;
    }
    Result<HeldStorage> storage = new_storage_for(member.op, 0, OnShortage::abort);
    if (!storage.has_value()) {
      return false;
    }
    fused_outputs_.push_back(std::move(storage).value());
  }
  return true;
}

Status Dispatch::copy_to_contiguous(const OpView& op,
                                    const Slot& from,
                                    Storage& to,
                                    OnShortage rule) {
  OpRecord record;
  record.kind = OpKind::copy;
  record.input_count = 1;
  record.output_count = 1;
  const detail::Layout target(from.layout->shape);
  const TensorView in{from.data, from.layout, from.dtype};
  const TensorView out{to.block.data, &target, from.dtype};
  if (!runs_inline_) [[unlikely]] {
    touched_.reads.assign(1, from.storage);
    touched_.writes.assign(1, &to);
    touched_.late.reset();
  }
  ++statistics_.kernels;
  Launch launch{.call = {OpView(record, nullptr), {&in, 1}, {&out, 1}}};
  Status status = run_call("the copy kernel", launch, rule);
  if (status.has_value()) {
    record_copy(launch, op);
  }
  return status;
}

// A temporary block for any tensor: it lives as long as a copy or a loan.
Result<HeldStorage> Dispatch::packed(const OpView& op,
                                     const Operand& operand,
                                     const Slot& from,
                                     OnShortage rule) {
  const std::int64_t size = bytes_of(operand, endpoint_.tables().shapes.layout(operand.shape));
  HEARTH_TRY(HeldStorage storage,
             allocate(size, PoolKind::temporary, origin_of(op, operand), rule));
  if (!runs_inline_) [[unlikely]] {
    touched_.record = op.record();
    touched_.lane = {};
  }
  HEARTH_TRY_STATUS(copy_to_contiguous(op, from, *storage, rule));
  return storage;
}

}  // namespace hearth
