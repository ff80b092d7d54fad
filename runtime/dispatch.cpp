#include "dispatch.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "memory_shortage.hpp"
#include "tickets.hpp"
#include "view_layout.hpp"

namespace hearth {
namespace {

/// What a backend throws is the op's failure, like what it returns.
template <class Call>
Status guarded(const char* what, const Call& call) {
  try {
    return call();
  } catch (...) {
    return Error{.code = ErrorCode::kernel_failed,
                 .text = fmt::format("{} threw: {}", what, what_was_thrown())};
  }
}

/// Out of line, like all that is for failures only: every op allocates.
[[gnu::noinline]] Status strategy_threw() {
  return Error{.code = ErrorCode::internal,
               .text = fmt::format("the memory strategy threw: {}", what_was_thrown())};
}

bool is_optimizer(OpKind kind) noexcept {
  return op_info(kind).op_class == OpClass::optimizer;
}

BlockOrigin origin_of(const OpView& op, const Operand& out) noexcept {
  return {.kind = op.kind(),
          .dtype = out.dtype,
          .source = op.record().source,
          .path = op.record().path,
          .shape = out.shape};
}

std::int64_t bytes_of(const Operand& operand, const Layout& layout) noexcept {
  return layout.shape.element_count() * size_bytes(operand.dtype);
}

}  // namespace

Slot* Dispatch::find_unborn_input(const OpView& op) {
  for (int i = 0; i < op.record().input_count; ++i) {
    const Operand operand = op.input(i);
    Slot& slot = handles_.slot(operand.slot);
    if (is_unborn(slot, operand)) {
      return &slot;
    }
    HEARTH_ASSERT(slot.generation == operand.generation && slot.state != SlotState::empty,
                  "an operand was freed before its use");
  }
  return nullptr;
}

ErrorRef Dispatch::first_poison(const OpView& op) {
  if (lost_) {
    return lost_;
  }
  for (int i = 0; i < op.record().input_count; ++i) {
    const Slot& slot = handles_.slot(op.input(i).slot);
    if (slot.state == SlotState::poisoned) {
      return slot.error;
    }
  }
  return nullptr;
}

ErrorRef Dispatch::look_at_inputs(const OpView& op, const LaneState& lane) {
  const Slot* poisoned = nullptr;
  for (int i = 0; i < op.record().input_count; ++i) {
    const Slot& slot = handles_.slot(op.input(i).slot);
    statistics_.foreign_uses += slot.home != lane.id && !slot.is_published ? 1U : 0U;
    if (slot.state == SlotState::poisoned && poisoned == nullptr) {
      poisoned = &slot;
    }
  }
  if (lost_) {
    return lost_;
  }
  return poisoned != nullptr ? poisoned->error : nullptr;
}

void Dispatch::run(const OpView& op, LaneState& lane) {
  if (ErrorRef poison = look_at_inputs(op, lane)) {
    fail(op, lane, std::move(poison));
    return;
  }
  if (op_info(op.kind()).op_class == OpClass::view) {
    run_view(op, lane);
  } else {
    run_kernel(op, lane);
  }
}

bool Dispatch::run_or_wait(const OpView& op, LaneState& lane) {
  const std::uint64_t foreign_uses = statistics_.foreign_uses;
  const bool is_short = attempt([&] { run(op, lane); });
  if (is_short) {
    statistics_.foreign_uses = foreign_uses;
  }
  return !is_short;
}

bool Dispatch::upload_or_wait(const OpView& op, LaneState& lane) {
  return !attempt([&] { upload(op, lane); });
}

template <class Run>
bool Dispatch::attempt(const Run& run) {
  const std::uint64_t releases = handles_.release_count();
  const ShortageRule rule(*this, OnShortage::wait);
  run();
  if (!is_short_) {
    return false;
  }
  handles_.forget_releases(releases);
  ++rungs_.wait_count;
  return true;
}

Result<GroupMemory> Dispatch::prepare_group(std::span<const GroupRecord> group,
                                            LaneState& lane,
                                            bool* is_short) {
  if (is_short == nullptr) {
    return memory_of_group(group, lane);
  }
  Result<GroupMemory> memory = GroupMemory();
  *is_short = attempt([&] { memory = memory_of_group(group, lane); });
  return memory;
}

void Dispatch::fail(const OpView& op, LaneState& lane, ErrorRef error) {
  ++statistics_.poisoned_ops;
  storages_.clear();
  poison_outputs(op, lane, error);
  consume_inputs(op);
}

void Dispatch::run_kernel(const OpView& op, LaneState& lane) {
  storages_.clear();
  for (int i = 0; i < op.record().output_count; ++i) {
    Result<HeldStorage> storage = storage_for(op, i);
    if (!storage.has_value()) {
      if (is_short_) {
        storages_.clear();
      } else {
        fail(op, lane, with_provenance(storage.error(), op, lane.id));
      }
      return;
    }
    storages_.push_back(std::move(storage).value());
  }
  const Status status = submit(op, storages_);
  if (!status.has_value()) {
    fail(op, lane, blame(status, op, lane.id));
    return;
  }
  make_outputs(op, lane, storages_);
  consume_inputs(op);
}

Status Dispatch::submit(const OpView& op, std::span<const HeldStorage> storages) {
  const int inputs = op.record().input_count;
  views_.clear();
  for (int i = 0; i < inputs; ++i) {
    const Slot& slot = handles_.slot(op.input(i).slot);
    views_.push_back(TensorView{slot.data, slot.layout, slot.dtype});
  }
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Operand operand = op.output(static_cast<int>(i));
    views_.push_back(TensorView{
        storages[i]->block.data, &endpoint_.tables().shapes.layout(operand.shape), operand.dtype});
  }
  const std::span<const TensorView> views(views_);
  Status status = submit_views(op,
                               views.first(static_cast<std::size_t>(inputs)),
                               views.subspan(static_cast<std::size_t>(inputs)));
  return handles_.is_checked() && status.has_value() ? check_blocks(op, storages) : status;
}

Status Dispatch::check_blocks(const OpView& op, std::span<const HeldStorage> storages) {
  return guarded("the check of the memory strategy", [&]() -> Status {
    for (const HeldStorage& storage : storages) {
      HEARTH_TRY_STATUS(handles_.check(*storage));
    }
    for (int i = 0; i < op.record().input_count; ++i) {
      HEARTH_TRY_STATUS(handles_.check(*handles_.slot(op.input(i).slot).storage));
    }
    return {};
  });
}

Status Dispatch::submit_views(const OpView& op,
                              std::span<const TensorView> inputs,
                              std::span<const TensorView> outputs) {
  const KernelCall call{op, inputs, outputs};
  const TraceScope span(endpoint_.tables().trace, op_info(op.kind()).name, endpoint_.name());
  ++statistics_.kernels;
  return guarded("the kernel", [&] { return backend_->submit(call); });
}

Storage* Dispatch::reusable_storage(const OpView& op, int output_index) {
  const Operand out = op.output(output_index);
  const Layout& out_layout = endpoint_.tables().shapes.layout(out.shape);
  const bool optimizer = is_optimizer(op.kind());
  if (output_index > 0 && !optimizer) {
    return nullptr;
  }
  const int first = optimizer ? updated_input(output_index) : 0;
  const int last = optimizer ? first + 1 : static_cast<int>(op.record().input_count);
  for (int i = first; i < last; ++i) {
    const Operand operand = op.input(i);
    if (operand.use != Use::read_last || operand.dtype != out.dtype) {
      continue;
    }
    const Slot& slot = handles_.slot(operand.slot);
    if (slot.storage != nullptr && slot.storage->uses == 1 && slot.layout->contiguous &&
        slot.data == slot.storage->block.data &&
        slot.layout->shape.element_count() == out_layout.shape.element_count() &&
        (optimizer || backend_->may_alias(op.kind(), i))) {
      return slot.storage;
    }
  }
  return nullptr;
}

Result<HeldStorage> Dispatch::allocate(std::int64_t size_bytes,
                                       PoolKind kind,
                                       const BlockOrigin& origin) {
  Storage* storage = nullptr;
  try {
    Acquire outcome = Acquire::ok;
    storage = handles_.allocate(size_bytes, kind, outcome, origin);
    if (storage == nullptr) {
      return shortage(size_bytes, outcome);
    }
  } catch (...) {
    return strategy_threw();
  }
  return hold(storage);
}

Status Dispatch::shortage(std::int64_t size_bytes, Acquire outcome) {
  const std::int64_t budget = handles_.memory().report().budget_bytes;
  // 0: a strategy that does not tell.
  const bool can_ever_fit = budget == 0 || size_bytes <= budget;
  if (on_shortage_ == OnShortage::give_up || (on_shortage_ == OnShortage::wait && can_ever_fit)) {
    is_short_ = true;  // nobody will read what the error says
    return Error{.code = ErrorCode::out_of_memory, .text = "others may release memory yet"};
  }
  ++rungs_.refuse_count;
  return out_of_memory_error(handles_, endpoint_.tables(), size_bytes, outcome);
}

Result<HeldStorage> Dispatch::storage_for(const OpView& op, int output_index) {
  const Operand out = op.output(output_index);
  const std::int64_t size = bytes_of(out, endpoint_.tables().shapes.layout(out.shape));
  if (Storage* reused = reusable_storage(op, output_index)) {
    handles_.replace(*reused, origin_of(op, out), size);
    return hold(reused);
  }
  const PoolKind kind = op.record().has(RecordFlag::exclusive) || is_optimizer(op.kind())
                            ? PoolKind::exclusive
                            : PoolKind::temporary;
  return allocate(size, kind, origin_of(op, out));
}

void Dispatch::wake_waiting(Slot& slot) {
  if (!slot.waiting.empty()) {
    woken.insert(woken.end(), slot.waiting.begin(), slot.waiting.end());
    slot.waiting.clear();
  }
}

void Dispatch::fill(Slot& slot, const Operand& operand, LaneId home, HeldStorage&& storage) {
  const Layout* const layout = &endpoint_.tables().shapes.layout(operand.shape);
  std::byte* const data = storage->block.data;
  handles_.make_live(slot, operand, home, storage.release(), data, layout);
  wake_waiting(slot);
}

void Dispatch::make_outputs(const OpView& op, LaneState& lane, std::span<HeldStorage> storages) {
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Operand operand = op.output(static_cast<int>(i));
    fill(handles_.slot(operand.slot), operand, lane.id, std::move(storages[i]));
  }
}

void Dispatch::poison_outputs(const OpView& op, LaneState& lane, const ErrorRef& error) {
  for (int i = 0; i < op.record().output_count; ++i) {
    const Operand operand = op.output(i);
    Slot& slot = handles_.slot(operand.slot);
    if (slot.state == SlotState::empty) {
      handles_.make_poisoned(slot, operand, lane.id, error);
    } else {
      handles_.poison(slot, error);  // an exception came after it was made
    }
    wake_waiting(slot);
  }
}

void Dispatch::consume_inputs(const OpView& op) noexcept {
  for (int i = 0; i < op.record().input_count; ++i) {
    const Operand operand = op.input(i);
    if (operand.use == Use::read_last) {
      release_slot(operand.slot);
    }
  }
}

void Dispatch::release_slot(SlotId id) noexcept {
  handles_.clear(handles_.slot(id));
  endpoint_.slots.give_back(id);
}

ErrorRef Dispatch::with_provenance(const Error& error, const OpView& op, LaneId lane) const {
  Error full = error;
  full.op = op_info(op.kind()).name;
  full.module_path = endpoint_.tables().paths.path(op.record().path);
  full.device = endpoint_.name();
  full.lane = lane.value;
  full.sequence = op.record().sequence;
  full.location = endpoint_.tables().sources.location(op.record().source);
  return std::make_shared<const Error>(std::move(full));
}

ErrorRef Dispatch::thrown_by(const OpView& op, LaneId lane) const {
  return with_provenance(Error{.code = ErrorCode::internal, .text = what_was_thrown()}, op, lane);
}

ErrorRef Dispatch::blame(const Status& status, const OpView& op, LaneId lane) {
  Error said = status.error();
  if (said.code == ErrorCode::deadline_exceeded && said.report.empty()) {
    said.report = fmt::format("watchdog report, who waits for whom:{}\n  device {}: {}",
                              endpoint_.tables().watchdog->waits(),
                              endpoint_.name(),
                              endpoint_.what_holder_does());
  }
  ErrorRef error = with_provenance(said, op, lane);
  if (error->code == ErrorCode::device_lost && !lost_) {
    lost_ = error;
  }
  return error;
}

void Dispatch::run_view(const OpView& op, LaneState& lane) {
  const Operand in = op.input(0);
  const Operand out = op.output(0);
  Slot& from = handles_.slot(in.slot);
  const Layout& interned = endpoint_.tables().shapes.layout(out.shape);
  const ViewLayout view = view_layout(op, *from.layout, interned);
  if (!view.possible) {
    // Only reshape gets here: the elements must be laid out anew. The kernel reads the input through its own shape.
    Result<HeldStorage> storage = packed(op, out, from);
    if (is_short_) {
      return;
    }
    if (!storage.has_value()) {
      fail(op, lane, blame(storage.status(), op, lane.id));
      return;
    }
    fill(handles_.slot(out.slot), out, lane.id, std::move(storage).value());
    consume_inputs(op);
    return;
  }
  HandleTable::share(*from.storage);
  std::byte* data = from.data + view.offset_elements * size_bytes(from.dtype);
  Slot& to = handles_.slot(out.slot);
  if (view.layout.contiguous) {
    handles_.make_live(to, out, lane.id, from.storage, data, &interned);
  } else {
    handles_.make_view(to, out, lane.id, from.storage, data, view.layout);
  }
  wake_waiting(to);
  consume_inputs(op);
}

Status Dispatch::copy_to_contiguous(const Slot& from, Storage& to) {
  OpRecord record;
  record.kind = OpKind::copy;
  record.input_count = 1;
  record.output_count = 1;
  const Layout target(from.layout->shape);
  const TensorView in{from.data, from.layout, from.dtype};
  const TensorView out{to.block.data, &target, from.dtype};
  ++statistics_.kernels;
  return guarded("the copy kernel", [&] {
    return backend_->submit(KernelCall{OpView(record, nullptr), {&in, 1}, {&out, 1}});
  });
}

Result<HeldStorage> Dispatch::packed(const OpView& op, const Operand& operand, const Slot& from) {
  const std::int64_t size = bytes_of(operand, endpoint_.tables().shapes.layout(operand.shape));
  HEARTH_TRY(HeldStorage storage, allocate(size, PoolKind::temporary, origin_of(op, operand)));
  HEARTH_TRY_STATUS(copy_to_contiguous(from, *storage));
  return storage;
}

void Dispatch::upload(const OpView& op, LaneState& lane) {
  std::unique_ptr<UploadTicket> ticket = take_ticket<UploadTicket>(op);
  ErrorRef error = lost_;
  if (!error && ticket->transfer) {
    error = ticket->transfer->error;
    ticket->bytes = ticket->transfer->bytes;
  }
  if (error) {
    fail(op, lane, std::move(error));
    return;
  }
  Result<HeldStorage> storage = storage_for(op, 0);
  if (is_short_) {
    static_cast<void>(ticket.release());  // the record keeps it
    return;
  }
  if (!storage.has_value()) {
    fail(op, lane, with_provenance(storage.error(), op, lane.id));
    return;
  }
  const Status status = guarded(
      "the upload", [&] { return backend_->upload(storage.value()->block.data, ticket->bytes); });
  if (!status.has_value()) {
    fail(op, lane, blame(status, op, lane.id));
    return;
  }
  const Operand out = op.output(0);
  fill(handles_.slot(out.slot), out, lane.id, std::move(storage).value());
}

void Dispatch::readback(const OpView& op, LaneState& lane) {
  const std::unique_ptr<ReadTicket> ticket = take_ticket<ReadTicket>(op);
  ErrorRef error = look_at_inputs(op, lane);
  if (!error) {
    const Status status = download(op, ticket->target);
    if (!status.has_value()) {
      error = blame(status, op, lane.id);
    }
  }
  consume_inputs(op);
  tell(endpoint_, "the reader of a tensor", ticket->finish, *ticket, std::move(error));
}

ErrorRef Dispatch::finish(const OpView& op, LaneId lane) {
  if (lost_) {
    return lost_;
  }
  const Status status = guarded("the wait for the device", [&] { return backend_->finish(); });
  return status.has_value() ? nullptr : blame(status, op, lane);
}

Status Dispatch::download(const OpView& op, std::span<std::byte> target) {
  const Slot& slot = handles_.slot(op.input(0).slot);
  const auto bring = [&](const std::byte* data) {
    return guarded("the download", [&] { return backend_->download(target, data); });
  };
  if (slot.layout->contiguous) {
    return bring(slot.data);
  }
  HEARTH_TRY(const HeldStorage storage, packed(op, op.input(0), slot));
  return bring(storage->block.data);
}

Result<HeldStorage> Dispatch::prepare_loan(const OpView& op, LaneState& lane) {
  ErrorRef error = look_at_inputs(op, lane);
  Result<HeldStorage> storage = error ? Result<HeldStorage>(error) : storage_to_lend(op);
  if (!storage.has_value()) {
    error = error ? error : blame(storage.status(), op, lane.id);
    fail(op, lane, error);
    return error;
  }
  consume_inputs(op);
  return storage;
}

Result<HeldStorage> Dispatch::storage_to_lend(const OpView& op) {
  const Operand in = op.input(0);
  const Slot& from = handles_.slot(in.slot);
  if (in.use == Use::read_last && from.storage->uses == 1 && from.layout->contiguous &&
      from.data == from.storage->block.data) {
    HandleTable::share(*from.storage);
    return hold(from.storage);
  }
  return packed(op, op.output(0), from);
}

void Dispatch::finish_loan(const Operand& out,
                           LaneId lane,
                           HeldStorage storage,
                           const Status& status) {
  Slot& slot = handles_.slot(out.slot);
  if (status.has_value()) {
    fill(slot, out, lane, std::move(storage));
    return;
  }
  ++statistics_.poisoned_ops;
  handles_.make_poisoned(slot, out, lane, status.shared_error());
  wake_waiting(slot);
}

}  // namespace hearth
