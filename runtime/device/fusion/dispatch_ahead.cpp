// Kernels that do not exist yet. While one is compiled, other threads compile the kernels of later
// records in the lane. Their operands are predicted from the records: a wrong prediction costs only
// time.
#include "runtime/device/dispatch/dispatch.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <hearth/streams/op_table.hpp>

#include "group_gather.hpp"
#include "runtime/device/dispatch/view_layout.hpp"

namespace hearth {
namespace {

bool reads(const OpView& op, const OpView& result_of) noexcept {
  for (int i = 0; i < op.record().input_count; ++i) {
    for (int out = 0; out < result_of.record().output_count; ++out) {
      if (op.input(i).slot == result_of.output(out).slot &&
          op.input(i).generation == result_of.output(out).generation) {
        return true;
      }
    }
  }
  return false;
}

bool is_kernel(const OpView& op) noexcept {
  const OpClass of = op_info(op.kind()).op_class;
  return of != OpClass::lifetime && of != OpClass::view;
}

}  // namespace

/// Predicted layouts of future results, and layouts of existing tensors.
class LayoutsToCome {
 public:
  LayoutsToCome(HandleTable& handles, const RuntimeTables& tables) noexcept
      : handles_(handles), tables_(tables) {}

  [[nodiscard]] TensorView of(const Operand& operand) {
    const Slot& slot = handles_.slot(operand.slot);
    if (slot.state == SlotState::live && slot.generation == operand.generation) {
      return {slot.data, slot.layout, slot.dtype};
    }
    const auto found = std::ranges::find_if(views_, [&](const auto& view) {
      return view.first.slot == operand.slot && view.first.generation == operand.generation;
    });
    return {new_block(),
            found == views_.end() ? &tables_.shapes.layout(operand.shape) : &found->second,
            operand.dtype};
  }
  /// A pointer aligned like a new block, for kernels that depend on the alignment of their
  /// operands.
  [[nodiscard]] std::byte* new_block() noexcept { return block_.data(); }
  void add_view(const OpView& op) {
    const Operand result = op.output(0);
    const ViewLayout view =
        view_layout(op, *of(op.input(0)).layout, tables_.shapes.layout(result.shape));
    if (view.possible) {
      views_.emplace_back(result, view.layout);
    }
  }

 private:
  HandleTable& handles_;
  const RuntimeTables& tables_;
  std::vector<std::pair<Operand, detail::Layout>> views_;
  alignas(256) std::array<std::byte, 256> block_{};
};

KernelCall Dispatch::call_to_come(const OpView& op,
                                  LayoutsToCome& layouts,
                                  std::vector<TensorView>& views) const {
  const std::size_t inputs = op.record().input_count;
  views.clear();
  for (int i = 0; i < op.record().input_count; ++i) {
    views.push_back(layouts.of(op.input(i)));
  }
  for (int i = 0; i < op.record().output_count; ++i) {
    const Operand operand = op.output(i);
    views.push_back(
        {layouts.new_block(), &endpoint_.tables().shapes.layout(operand.shape), operand.dtype});
  }
  const std::span<const TensorView> all(views);
  return {.op = op,
          .inputs = all.first(inputs),
          .outputs = all.subspan(inputs),
          .expression = expression_of(op)};
}

// If host memory is short or a backend throws, kernels are compiled one after the other.
void Dispatch::precompile(LaneState& lane) noexcept {
  try {
    precompile_ahead(lane);
  } catch (...) {
    log_mistake("a look ahead for kernels");  // each kernel is requested again at its turn
  }
}

// Neighbours that may form a group are left out: they need the group's kernel, which is known when
// they are gathered. On a device without fusion they are compiled one after the other.
void Dispatch::precompile_ahead(LaneState& lane) {
  LayoutsToCome layouts(handles_, endpoint_.tables());
  std::vector<std::pair<std::uint64_t, OpView>> kernels;
  std::vector<TensorView> views;
  lane.precompiled_until =
      std::max(lane.precompiled_until, lane.lane->at(0).sequence + 1);  // that one waits itself
  for (std::uint64_t ahead = 0; const OpRecord* record = lane.lane->peek(ahead); ++ahead) {
    if (lane.window.is_done(*record)) {
      continue;  // its inputs may have ended
    }
    const OpView op(*record, lane.lane->peek_blob(ahead));
    if (op_info(op.kind()).op_class == OpClass::view) {
      layouts.add_view(op);
    } else if (is_kernel(op)) {
      kernels.emplace_back(record->sequence, op);
    }
  }
  const auto may_join = [this](const OpView& op) { return may_be_fused(op, expressions()); };
  const auto joins = [&](std::size_t first) {
    return first + 1 < kernels.size() && may_join(kernels[first + 1].second) &&
           (may_join(kernels[first].second) ||
            (may_be_anchor(kernels[first].second) && may_anchor(kernels[first].second))) &&
           reads(kernels[first + 1].second, kernels[first].second);
  };
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto& [sequence, op] = kernels[i];
    if (sequence < lane.precompiled_until) {
      continue;
    }
    lane.precompiled_until = sequence + 1;
    if (op.kind() != OpKind::custom && !joins(i) && (i == 0 || !joins(i - 1))) {
      kernels_->precompile(call_to_come(op, layouts, views));
    }
  }
}

// While a group's kernel is compiled its ops may run singly. If they need missing kernels, too,
// waiting for the group's one kernel is cheaper than for several.
Status Dispatch::submit_group(const FusedGroup& group,
                              const GroupKernels& kernels,
                              LaneState& lane) {
  Status status = submit_call(group, kernels, lane.id, true);
  if (!status.has_value() && is_compiling_) [[unlikely]] {
    precompile(lane);
    if (!could_run_singly(group)) {
      const DeviceEndpoint::CompileScope compiles(endpoint_);
      status = submit_call(group, kernels, lane.id, false);
    }
  }
  return status;
}

bool Dispatch::could_run_singly(const FusedGroup& group) const {
  LayoutsToCome layouts(handles_, endpoint_.tables());
  std::vector<TensorView> views;
  return std::ranges::all_of(group.members, [&](const FusedGroup::Member& member) {
    return member.role == FusedGroup::Role::views || member.is_recomputed ||
           kernels_->has_kernel(call_to_come(member.op, layouts, views));
  });
}

}  // namespace hearth
