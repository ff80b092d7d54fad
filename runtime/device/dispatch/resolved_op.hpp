// ResolvedOp: an op and the slots of its inputs, each looked up once. It states whether an input
// is not yet created or poisoned, and the number of inputs from other lanes. Private to runtime. A
// value of one turn, touched by the token holder only: a waiting lane resolves again. Invariant:
// slots keep their address as long as the handle table lives, so the pointers outlive the tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/op_record.hpp>

#include "runtime/device/memory/handle_table.hpp"

namespace hearth {

class ResolvedOp final {
 public:
  ResolvedOp(HandleTable& handles, const OpView& op, LaneId lane) : op_(op), lane_(lane) {
    const std::size_t count = op.record().input_count;
    if (count > inline_slots_.size()) {
      heap_slots_.resize(count);
      slots_ = heap_slots_.data();
    }
    for (std::size_t i = 0; i < count; ++i) {
      look_up(handles, i, lane);
    }
  }
  ResolvedOp(const ResolvedOp&) = delete;
  ResolvedOp& operator=(const ResolvedOp&) = delete;
  ~ResolvedOp() = default;

  [[nodiscard]] const OpView& op() const noexcept { return op_; }
  [[nodiscard]] OpKind kind() const noexcept { return op_.kind(); }
  [[nodiscard]] LaneId lane() const noexcept { return lane_; }
  [[nodiscard]] int input_count() const noexcept { return op_.record().input_count; }
  [[nodiscard]] Slot& slot(int input) const noexcept {
    return *slots_[static_cast<std::size_t>(input)];
  }
  /// The first input that no record has created yet, or nullptr. If set, the lane waits.
  [[nodiscard]] Slot* uncreated() const noexcept { return uncreated_; }
  /// Error of the first poisoned input, or null.
  [[nodiscard]] ErrorRef poison() const noexcept {
    return poisoned_ != nullptr ? poisoned_->error : nullptr;
  }
  /// Number of inputs that another lane made and has not published.
  [[nodiscard]] std::uint64_t foreign_uses() const noexcept { return foreign_uses_; }

 private:
  void look_up(HandleTable& handles, std::size_t index, LaneId lane) {
    const Operand operand = op_.input(static_cast<int>(index));
    Slot& slot = handles.slot(operand.slot);
    slots_[index] = &slot;
    if (is_uncreated(slot, operand)) {
      uncreated_ = uncreated_ == nullptr ? &slot : uncreated_;
      return;
    }
    HEARTH_ASSERT(slot.generation == operand.generation && slot.state != SlotState::empty,
                  "an operand was freed before its use");
    if (slot.late) [[unlikely]] {
      handles.settle(slot);
    }
    foreign_uses_ += slot.home != lane && !slot.is_published ? 1U : 0U;
    if (slot.state == SlotState::poisoned && poisoned_ == nullptr) {
      poisoned_ = &slot;
    }
  }

  OpView op_;
  LaneId lane_;
  Slot* uncreated_ = nullptr;
  const Slot* poisoned_ = nullptr;
  std::uint64_t foreign_uses_ = 0;
  // Uninitialised, and on the stack except for many inputs: resolving must cost no more than the
  // lookups.
  std::array<Slot*, kInlineOperands> inline_slots_;
  std::vector<Slot*> heap_slots_;
  Slot** slots_ = inline_slots_.data();
};

}  // namespace hearth
