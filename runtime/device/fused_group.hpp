// Ops of a lane that become one kernel: what it reads, makes and ends, and its form, by which a
// plan is found. Private to runtime. Reused from group to group; touched by the token holder only.
// Invariants: (1) it points into the lane's ring, so that it ends with the turn; (2) its form holds
// no number that is computed with, and no tensor, size or place in the stream: the same lines of a
// program have the same form at each step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hearth/streams/kernel/group_kernel.hpp>

#include "handle_table.hpp"
#include "lane_state.hpp"

namespace hearth {

struct FusedGroup {
  /// A tensor that is there before the group runs.
  struct Input {
    Operand operand;
    Slot* slot = nullptr;
    GroupExtent extent = GroupExtent::full;
    bool is_last = false;  ///< It goes with the group.
  };
  using Role = GroupRole;
  struct Made {
    OpView op;
    Operand operand;
    Slot* slot = nullptr;     ///< Of the operand.
    std::uint64_t ahead = 0;  ///< Where its record lies behind the lane's front.
    std::uint32_t needs = 0;  ///< Bit i: it is made of input i; of the anchor's, from bit 16 on.
    std::uint8_t first_source = 0;
    std::uint8_t source_count = 0;
    Role role = Role::computes;
    GroupExtent extent = GroupExtent::full;
    bool is_over = false;  ///< Nobody outside of the group needs it: it never reaches memory.
    bool is_left = false;  ///< Somebody does, but it is not stored: its record has its turn too.
    bool is_handed_on = false;  ///< The anchor of the group behind reads it, as it is made.

    [[nodiscard]] bool is_output() const noexcept { return is_handed_on || (!is_over && !is_left); }
  };
  /// The end of a tensor, by a record that the group has taken.
  struct End {
    std::uint64_t ahead = 0;
    Operand operand;
    bool is_drop = false;
    bool is_own = false;  ///< Its record is left alone, and ends it.
    bool is_off = false;  ///< It comes with its record's turn, as somebody reads the tensor before.
  };
  static constexpr std::uint32_t kFirstAnchorNeed = 16;

  std::vector<Input> inputs;
  std::vector<Input> anchor_inputs;
  std::vector<Made> made;
  std::vector<GroupSource> sources;
  std::vector<End> ends;
  std::vector<SlotId> drops;  ///< Of tensors that the group does not read.
  std::vector<std::uint64_t> form;
  std::uint64_t records = 0;  ///< The last that it takes, and one, counted from the lane's front.
  std::size_t parameters = 0;
  std::uint64_t foreign_uses = 0;
  ShapeId space = {};  ///< Of full values, once there are any.
  bool has_space = false;
  int row_axes = 0;  ///< How many trailing axes of the space are a row; 0: it knows no rows.
  /// A group with one result, which the anchor of this one reads as input `before_input` while it
  /// is made, and nobody else; null: there is none. Whoever fills this one in owns it.
  FusedGroup* before = nullptr;
  int before_input = 0;

  void clear() noexcept {
    inputs.clear();
    anchor_inputs.clear();
    made.clear();
    sources.clear();
    ends.clear();
    drops.clear();
    form.clear();
    records = 0;
    parameters = 0;
    foreign_uses = 0;
    has_space = false;
    row_axes = 0;
    before = nullptr;
    before_input = 0;
  }
  [[nodiscard]] std::size_t output_count() const noexcept {
    std::size_t count = 0;
    for (const Made& each : made) {
      count += each.is_output() ? 1U : 0U;
    }
    return count;
  }
  /// How many results it may have.
  [[nodiscard]] std::size_t most_outputs() const noexcept {
    return row_axes > 0 ? kMostRowOutputs : kMostGroupOutputs;
  }
  /// The most of its ops, the first ones, of which so many results at most are needed outside: by
  /// others, or by those that stay behind.
  [[nodiscard]] std::size_t ops_with_outputs(std::size_t most_outputs) const;
  /// Of which the kernel does the work.
  [[nodiscard]] std::size_t op_count() const noexcept {
    std::size_t count = before != nullptr ? before->op_count() : 0;
    for (const Made& each : made) {
      count += each.role != Role::shows && !each.is_left ? 1U : 0U;
    }
    return count;
  }
  /// Whether there is more of it than its anchor: an expression of its own.
  [[nodiscard]] bool computes() const noexcept {
    return std::ranges::any_of(made, [](const Made& each) { return each.role == Role::computes; });
  }
  /// The one result of a group before another.
  [[nodiscard]] const Made& handed_on() const noexcept {
    return *std::ranges::find(made, true, &Made::is_handed_on);
  }
  [[nodiscard]] bool has_anchor() const noexcept {
    return !made.empty() && made.front().role == Role::anchor;
  }
};

}  // namespace hearth
