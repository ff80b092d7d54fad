// FusedGroup: ops of a lane that become one kernel, and the tensors that they read, make and end.
// Its form is the key of a plan. Private to runtime. Reused from group to group; touched by the
// token holder only.
// Invariants: (1) it points into the lane's ring, so it is valid for one turn; (2) its form holds
// no scalar operand, tensor, size or position in the stream. The same lines of a program therefore
// have the same form in each step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hearth/streams/kernel/group_kernel.hpp>

#include "lane_state.hpp"
#include "runtime/device/memory/handle_table.hpp"

namespace hearth {

struct FusedGroup {
  /// A tensor that exists before the group runs.
  struct Input {
    Operand operand;
    Slot* slot = nullptr;
    GroupExtent extent = GroupExtent::full;
    bool is_last = false;  ///< The group is its last use.
  };
  using Role = GroupRole;
  struct Member {
    OpView op;
    Operand operand;
    Slot* slot = nullptr;     ///< Slot of the operand.
    std::uint64_t ahead = 0;  ///< Position of its record after the lane's front.
    /// Bit i: it depends on input i; inputs of the anchor from bit 16 on.
    std::uint32_t needs = 0;
    std::uint8_t first_source = 0;
    std::uint8_t source_count = 0;
    Role role = Role::computes;
    GroupExtent extent = GroupExtent::full;
    bool is_internal =
        false;  ///< Internal: no consumer outside the group; never written to memory.
    /// Recomputed: not stored, but has a consumer outside; its own record also runs later.
    bool is_recomputed = false;
    bool feeds_next_anchor =
        false;  ///< The anchor of the next group reads it while it is computed.

    [[nodiscard]] bool is_output() const noexcept {
      return feeds_next_anchor || (!is_internal && !is_recomputed);
    }
  };
  /// End of a tensor by a record of the group.
  struct End {
    std::uint64_t ahead = 0;
    Operand operand;
    bool is_drop = false;
    bool is_own = false;  ///< Its record is recomputed and ends the tensor itself.
    /// Deferred to its record's turn, because an earlier bypassed record reads the tensor.
    bool is_deferred = false;
  };
  static constexpr std::uint32_t kFirstAnchorNeed = 16;

  std::vector<Input> inputs;
  std::vector<Input> anchor_inputs;
  std::vector<Member> members;
  std::vector<GroupSource> sources;
  std::vector<End> ends;
  std::vector<SlotId> drops;  ///< Tensors that end with the group and that it does not read.
  std::vector<std::uint64_t> form;
  /// One more than the position of its last record, counted from the lane's front.
  std::uint64_t records = 0;
  std::size_t parameters = 0;
  std::uint64_t foreign_uses = 0;
  ShapeId space = {};  ///< Shape of full values, once there are any.
  bool has_space = false;
  int row_axes = 0;  ///< Number of trailing axes of the space that form a row; 0 without rows.
  /// Group with one result, which the anchor of this group alone reads, as input `before_input`,
  /// while it is computed; null without one. The code that fills in this group owns it.
  FusedGroup* before = nullptr;
  int before_input = 0;

  void clear() noexcept {
    inputs.clear();
    anchor_inputs.clear();
    members.clear();
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
    for (const Member& each : members) {
      count += each.is_output() ? 1U : 0U;
    }
    return count;
  }
  /// Maximum number of results.
  [[nodiscard]] std::size_t most_outputs() const noexcept {
    return row_axes > 0 ? kMostRowOutputs : kMostGroupOutputs;
  }
  /// Largest number of its first ops that need at most `most_outputs` results outside: for
  /// consumers outside the group or for the remaining ops.
  [[nodiscard]] std::size_t ops_with_outputs(std::size_t most_outputs) const;
  /// Number of ops that the kernel computes.
  [[nodiscard]] std::size_t op_count() const noexcept {
    std::size_t count = before != nullptr ? before->op_count() : 0;
    for (const Member& each : members) {
      count += each.role != Role::views && !each.is_recomputed ? 1U : 0U;
    }
    return count;
  }
  /// Whether it has an expression besides its anchor.
  [[nodiscard]] bool computes() const noexcept {
    return std::ranges::any_of(members,
                               [](const Member& each) { return each.role == Role::computes; });
  }
  /// The one result of a group before another.
  [[nodiscard]] const Member& next_anchor_input() const noexcept {
    return *std::ranges::find(members, true, &Member::feeds_next_anchor);
  }
  [[nodiscard]] bool has_anchor() const noexcept {
    return !members.empty() && members.front().role == Role::anchor;
  }
};

}  // namespace hearth
