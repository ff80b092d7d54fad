// Like ops of several lanes as one call of the backend.
#include "dispatch.hpp"

#include <cstring>

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>

namespace hearth {
namespace {

std::byte* row_of(const Storage& storage, std::size_t index, std::int64_t size_bytes) noexcept {
  return storage.block.data + static_cast<std::int64_t>(index) * size_bytes;
}

Shape stacked(const Shape& shape, std::size_t count) {
  Shape result = shape;
  result.set(0, shape[0] * static_cast<std::int64_t>(count));
  return result;
}

}  // namespace

// Runs at a lane's front, before the operands are resolved. An op with an unborn or poisoned
// operand runs alone, and that path waits or reports.
std::int64_t Dispatch::joinable_calls(const OpView& op, int input_to_come) {
  if (lost_ || op.record().output_count != 1) {
    return 1;
  }
  const int inputs = op.record().input_count;
  views_.clear();
  for (int i = 0; i < inputs; ++i) {
    const Operand in = op.input(i);
    if (i == input_to_come) {
      views_.push_back(TensorView{nullptr, &endpoint_.tables().shapes.layout(in.shape), in.dtype});
      continue;
    }
    const Slot& slot = handles_.slot(in.slot);
    if (slot.state != SlotState::live || slot.generation != in.generation) {
      return 1;
    }
    views_.push_back(TensorView{slot.data, slot.layout, slot.dtype});
  }
  const Operand out = op.output(0);
  // No memory yet: the backend inspects only shapes and types.
  views_.push_back(TensorView{nullptr, &endpoint_.tables().shapes.layout(out.shape), out.dtype});
  const std::span<const TensorView> views(views_);
  if (!views[0].layout->contiguous) {
    return 1;
  }
  return kernels_->joinable_calls(
      KernelCall{op, views.first(static_cast<std::size_t>(inputs)), views.last(1)});
}

// Compares operands by their contents, not by slots: input 0 is another tensor in each lane. All
// other operands must be the same bytes, which are then read once for all lanes.
bool Dispatch::are_alike(const OpView& a, const OpView& b) {
  const OpRecord& left = a.record();
  const OpRecord& right = b.record();
  if (left.kind != right.kind || left.input_count != right.input_count ||
      left.output_count != right.output_count || left.blob_size_bytes != right.blob_size_bytes ||
      a.output(0).shape != b.output(0).shape ||
      std::memcmp(left.immediate, right.immediate, sizeof left.immediate) != 0 ||
      (left.blob_size_bytes > 0 && std::memcmp(a.blob(), b.blob(), left.blob_size_bytes) != 0)) {
    return false;
  }
  for (int i = 0; i < left.input_count; ++i) {
    const Slot& own = handles_.slot(a.input(i).slot);
    const Slot& other = handles_.slot(b.input(i).slot);
    if (own.state != SlotState::live || other.state != SlotState::live) {
      return false;  // a restart of the device may have come since they were held
    }
    const bool is_same_layout =
        own.layout == other.layout ||
        (own.layout->shape == other.layout->shape && own.layout->strides == other.layout->strides);
    if (!is_same_layout || own.dtype != other.dtype || (i > 0 && own.data != other.data)) {
      return false;
    }
  }
  return true;
}

// Phases: memory for all rows together; one call into that memory; each lane's row into its own
// tensor. Until the last phase nothing has changed, so all ops can still run alone. In the last
// phase, the first lane without memory and all later ones run alone, though their rows are
// computed.
std::size_t Dispatch::run_joined(std::span<LaneState* const> lanes) {
  const OpView first(*lanes[0]->lane->front(), lanes[0]->lane->front_blob());
  const Slot& sample = handles_.slot(first.input(0).slot);
  const detail::Layout& out_layout = endpoint_.tables().shapes.layout(first.output(0).shape);
  const std::int64_t in_bytes = sample.layout->shape.element_count() * size_bytes(sample.dtype);
  const std::int64_t out_bytes =
      out_layout.shape.element_count() * size_bytes(first.output(0).dtype);
  const auto count = static_cast<std::int64_t>(lanes.size());
  // An op without memory here runs alone and reports then.
  constexpr OnShortage kRule = OnShortage::abort;
  if (lost_) {
    return 0;
  }
  const Result<HeldStorage> in = allocate(count * in_bytes, PoolKind::temporary, {}, kRule);
  if (!in.has_value()) {
    return 0;
  }
  const Result<HeldStorage> out = allocate(count * out_bytes, PoolKind::temporary, {}, kRule);
  if (!out.has_value() || !submit_joined(lanes, *in.value(), *out.value(), in_bytes).has_value()) {
    return 0;
  }
  std::size_t done = 0;
  for (; done < lanes.size(); ++done) {
    LaneState& lane = *lanes[done];
    const OpView view(*lane.lane->front(), lane.lane->front_blob());
    const ResolvedOp op(handles_, view, lane.id);  // no input is poisoned: they are alike
    Result<HeldStorage> storage = storage_for(op, 0, kRule);
    if (!storage.has_value()) {
      break;
    }
    statistics_.foreign_uses += op.foreign_uses();
    std::memcpy(storage.value()->block.data,
                row_of(*out.value(), done, out_bytes),
                static_cast<std::size_t>(out_bytes));
    fill(handles_.slot(view.output(0).slot), view.output(0), lane.id, std::move(storage).value());
    consume_inputs(op);
  }
  statistics_.joined_ops += done;
  return done;
}

// The first record stands for all: they are alike except for the rows. The layouts belong to this
// call, because no tensor has that number of rows.
void Dispatch::expect_end_of_join(std::size_t streams) noexcept {
  if (journal_ == nullptr) [[likely]] {
    return;
  }
  try {
    journal_->expect_end(streams > 0 ? fmt::format("it is one call for {} streams", streams) : "");
  } catch (...) {
    journal_.reset();
  }
}

Status Dispatch::submit_joined(std::span<LaneState* const> lanes,
                               const Storage& in,
                               const Storage& out,
                               std::int64_t in_bytes) {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const OpView op(*lanes[i]->lane->front(), lanes[i]->lane->front_blob());
    std::memcpy(row_of(in, i, in_bytes),
                handles_.slot(op.input(0).slot).data,
                static_cast<std::size_t>(in_bytes));
  }
  const OpView first(*lanes[0]->lane->front(), lanes[0]->lane->front_blob());
  const Operand result = first.output(0);
  const detail::Layout in_layout(
      stacked(handles_.slot(first.input(0).slot).layout->shape, lanes.size()));
  const detail::Layout out_layout(
      stacked(endpoint_.tables().shapes.layout(result.shape).shape, lanes.size()));
  views_.clear();
  for (int i = 0; i < first.record().input_count; ++i) {
    const Slot& slot = handles_.slot(first.input(i).slot);
    views_.push_back(
        i == 0 ? TensorView{in.block.data, &in_layout, slot.dtype}
               : TensorView{slot.data, slot.layout, slot.dtype, slot.storage->constant.get()});
  }
  views_.push_back(TensorView{out.block.data, &out_layout, result.dtype});
  const std::span<const TensorView> views(views_);
  Launch launch{.call = {first, views.first(views.size() - 1), views.last(1)}};
  expect_end_of_join(lanes.size());
  Status status = submit_launch(launch, lanes.size(), OnShortage::abort, lanes[0]->id);
  if (!status.has_value()) {
    expect_end_of_join(0);
  }
  return status;
}

}  // namespace hearth
