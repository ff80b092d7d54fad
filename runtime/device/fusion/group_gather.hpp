// GroupGather selects the ops of an ended window that may become one kernel. They begin at the
// lane's front and compute values of one space, elementwise or along its rows. Private to runtime.
// Touched by the token holder only.
// Invariants: (1) the selection depends only on the window's records, not on the progress of other
// work; (2) a bypassed op may run after the group: no op of the group needs it, and its inputs live
// until then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <hearth/streams/kernel/group_kernel.hpp>

#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/dispatch/fused_group.hpp"
#include "runtime/device/dispatch/lane_state.hpp"
#include "runtime/device/memory/handle_table.hpp"

namespace hearth {

/// Whether an op may stand in a group behind its anchor.
[[nodiscard]] bool may_be_fused(const OpView& op, const ExpressionTable& expressions) noexcept;
/// Number of ops for which it counts in a group: a captured expression counts for the ops that it
/// consists of.
[[nodiscard]] std::size_t weight_of(const OpView& op) noexcept;
/// Whether later ops may work on its result before that is stored.
[[nodiscard]] bool may_be_anchor(const OpView& op) noexcept;

/// Maximum extent of a group: not every backend supports all of it.
enum class GroupReach : std::uint8_t {
  chained,  ///< With a group before its anchor.
  single,
  plain,  ///< Without anchor and rows.
};

class GroupGather final {
 public:
  /// Lifetime: all arguments outlive this object. `before` has room for the group before `group`.
  GroupGather(HandleTable& handles,
              Dispatch& dispatch,
              FusedGroup& group,
              FusedGroup& before) noexcept
      : handles_(handles), dispatch_(dispatch), group_(group), before_(before) {}

  /// Fills the group with at most `most_ops` ops. If it stays empty, the first op is in no group.
  void gather(const LaneState& lane, std::size_t most_ops, GroupReach reach);
  /// Number of inspected records, and whether more records would have been inspected, had there
  /// been any.
  [[nodiscard]] std::uint64_t record_count() const noexcept { return record_count_; }
  [[nodiscard]] bool is_cut() const noexcept { return is_cut_; }
  /// Whether the kernel may fail for the values of an anchor's operands.
  [[nodiscard]] bool fails_with_anchor() const noexcept;

  /// Reason for which an op is not taken; "it" is this op. group_boundary.cpp has the text of each.
  enum class Obstacle : std::uint8_t {
    none,
    kind,  ///< Ops of its kind or types are in no group.
    view,  ///< View of a result, which must be in memory.
    ops,   ///< The group has the maximum of ops or results.
    /// Its result has neither the shape of the group's values nor one element for each row.
    shape,
    row,           ///< Works along other rows, or a row's value lies along other axes.
    long_row,      ///< Its rows are too long.
    axes,          ///< Works along axes that are not the last ones.
    order,         ///< Reads a tensor of another shape or order.
    place,         ///< Its result depends on positions that the group does not know.
    row_epilogue,  ///< Works along rows behind an anchor.
    numbers,
    inputs,
    unready_input,
    drop,
    unrelated,      ///< Shares no tensor with the group.
    recomputed,     ///< Recomputes a value for ops that are not in the group.
    lone_anchor,    ///< The device's kernel of it takes no epilogue.
    joined,         ///< Joins ops of other lanes.
    second_chain,   ///< The anchor already has a group before it.
    two_results,    ///< Reads two results of the group.
    inner_result,   ///< Reads a result that is not the last one.
    viewed_result,  ///< Reads a view of a result.
    part_result,    ///< Reads a result that lacks elements at some positions.
    prologue,       ///< The device's kernel of it takes no such prologue.
    needed,         ///< Other ops read the result that it would take.
    repeated,       ///< That result repeats along rows of which the group reads none.
    refused,        ///< The backend refuses it together with the group.
    /// No plan exists for the two together, and an early end of the window creates none.
    unplanned,
    ended  ///< A reduction has read the group's last value and takes no epilogue.
  };
  /// Sets the reason for which the next gatherings have less reach, until one has full reach again.
  /// `words`: text of the backend.
  void expect_less(Obstacle why, std::string words = {}) noexcept {
    less_ = why;
    refusal_ = std::move(words);
  }
  /// Returns why the group did not take the first op that it bypassed. Only for explanations:
  /// inspects the lane again.
  [[nodiscard]] std::string why_ended(const LaneState& lane) const;

 private:
  /// Maximum number of bypassed ops between two ops of the group; and of records.
  static constexpr int kMostPassedOps = 4;
  static constexpr std::uint64_t kMostPassedRecords = 48;

  using Member = FusedGroup::Member;
  using Input = FusedGroup::Input;

  /// Source of an op's input: a value of the group or a tensor, and the shape in which the op sees
  /// it.
  struct Source {
    const Member* member = nullptr;  ///< The value or view as it stands in the group.
    GroupSource root = {};
    Slot* slot = nullptr;
    Operand operand = {};
  };
  /// How a shape lies in the group's space.
  enum class Fit : std::uint8_t { full, row_kept, row_dropped, none };

  void gather_records(const LaneState& lane);
  /// Whether the gathered ops cannot be the group, so that it is gathered again with less.
  [[nodiscard]] bool must_shrink() noexcept;
  /// Whether a recomputed value would be stored for a later op outside the group. Then the value is
  /// better recomputed with that op.
  [[nodiscard]] bool stores_recomputed_value() const noexcept;
  [[nodiscard]] bool take(const LaneState& lane, const OpView& op);
  [[nodiscard]] bool take_drop(const OpView& op);
  [[nodiscard]] bool take_anchor(const LaneState& lane, const OpView& op);
  /// Makes the gathered ops the group before this op, if the op can read their one result.
  [[nodiscard]] bool take_chained_anchor(const LaneState& lane, const OpView& op);
  /// Lets a reduction outside the group read its last value while that is computed. The reduction
  /// ends the group.
  [[nodiscard]] bool take_last(const LaneState& lane, const OpView& op);
  /// Input of the op that is the group's last value, in full, and that the op's kernel can compute
  /// itself; -1 if none.
  [[nodiscard]] int chained_input(const OpView& op);
  /// Reason for which a value of the group cannot feed input `input` of the op.
  [[nodiscard]] Obstacle obstacle_to_feed(const OpView& op, int input, const Member& member) const;
  /// Whether the group before has only the result that feeds the anchor.
  [[nodiscard]] bool closes_chain() noexcept;
  [[nodiscard]] bool take_op(const LaneState& lane, const OpView& op);
  [[nodiscard]] bool take_view(const OpView& op);
  /// Finds the op's inputs. Returns false if one does not exist yet.
  [[nodiscard]] bool find_sources(const OpView& op);
  [[nodiscard]] bool find_tensor(const Operand& operand, Slot& slot);
  /// The current gathering's data on the slot's tensor.
  [[nodiscard]] GatherMark& mark_of(Slot& slot) const noexcept {
    if (slot.mark.gathering != gathering_) {
      slot.mark = {.gathering = gathering_};
    }
    return slot.mark;
  }
  /// Marks the operands of a bypassed record.
  void pass(const OpView& op, std::uint64_t ahead);
  /// Adds an op or a view to the group.
  void take_in(const Member& member);
  /// Whether the op shares a tensor or value with the group.
  [[nodiscard]] bool is_connected() const noexcept;
  /// Determines the extent of the op's result; returns false if it does not fit the group's space.
  [[nodiscard]] bool place_elementwise(const OpView& op, GroupExtent& extent);
  [[nodiscard]] bool place_full(GroupExtent& extent);
  /// Whether the op reads one number for each row in a space whose rows have one element. Its
  /// result is then also one number for each row, although it has the shape of the space.
  [[nodiscard]] bool is_of_short_rows() const;
  [[nodiscard]] bool place_row(const Operand& out, GroupExtent& extent);
  [[nodiscard]] bool place_along_rows(const OpView& op, GroupExtent& extent);
  [[nodiscard]] bool place_view(const Operand& out, GroupExtent& extent);
  /// Makes the shape the space if the gathered values fit it: values of one element, or one value
  /// for each of its rows.
  [[nodiscard]] bool widen(ShapeId to);
  /// Whether trailing axes of the space that this shape keeps as 1 can be its rows.
  [[nodiscard]] bool begin_rows(const Shape& kept);
  void forget_rows() noexcept;
  [[nodiscard]] bool is_full(const Source& source) const;
  [[nodiscard]] Fit fit_of(ShapeId id) const;
  /// Adds the sources of an op to the group. Returns false if there are too many.
  [[nodiscard]] bool enter_sources(const LaneState& lane, GroupExtent extent, Member& member);
  [[nodiscard]] bool enter_input(const LaneState& lane,
                                 const Source& source,
                                 GroupExtent extent,
                                 Member& member);
  void enter_ends(const OpView& op);
  void enter_end(const FusedGroup::End& end);
  /// Whether a later record may still change the group.
  [[nodiscard]] bool goes_on() const noexcept;
  /// Determines the results that are stored and the tensors that end.
  void settle();
  void leave_out_unneeded();
  void leave_out_unread();
  void leave_out_rows() noexcept;
  [[nodiscard]] std::span<const GroupSource> sources_of(const Member& member) const noexcept {
    return std::span(group_.sources).subspan(member.first_source, member.source_count);
  }
  /// Marks the tensor as ending with the group.
  void record_last(const Operand& operand);
  /// Marks the tensor as ending with the group before, if that reads it.
  [[nodiscard]] bool record_last_before(const Slot& slot) noexcept;
  void mark_recomputed(Member& member);
  [[nodiscard]] bool ends_in_group(const FusedGroup::End& end) noexcept;
  [[nodiscard]] const Shape& shape_of(ShapeId id) const;
  /// Text of why_ended() after the op's name: about the layout of its values, or about its relation
  /// to the group.
  [[nodiscard]] std::string words_of(Obstacle why, const OpView& op) const;
  [[nodiscard]] std::string words_of_place(Obstacle why, const OpView& op) const;
  [[nodiscard]] std::string words_of_chain(Obstacle why, const OpView& op) const;
  [[nodiscard]] std::string words_of_prologue(const OpView& op) const;
  [[nodiscard]] std::string words_of_joined(const OpView& op) const;
  [[nodiscard]] static bool is_of_place(Obstacle why) noexcept {
    return why >= Obstacle::shape && why <= Obstacle::row_epilogue;
  }
  [[nodiscard]] bool reads_result(const OpView& op) const;
  /// The group that existed when the record was bypassed.
  [[nodiscard]] const FusedGroup& group_at(std::uint64_t ahead) const noexcept;
  [[nodiscard]] bool refuse(Obstacle why) noexcept {
    obstacle_ = why;
    return false;
  }

  HandleTable& handles_;
  Dispatch& dispatch_;
  FusedGroup& group_;
  FusedGroup& before_;
  std::vector<Source> found_;
  std::uint64_t gathering_ = 0;  // number of gatherings
  std::uint64_t ahead_ = 0;      // position of the current record
  int passed_ops_ = 0;
  std::size_t open_ = 0;  // results whose end has not been found yet
  std::size_t most_ops_ = 0;
  GroupReach reach_ = GroupReach::chained;
  bool is_chain_closed_ = true;
  bool is_ended_ = false;             // a reduction has read its last value
  bool has_recomputed_ = false;       // it took a recomputing op from behind bypassed ops
  bool bypasses_recomputed_ = false;  // those are bypassed
  std::uint64_t record_count_ = 0;
  bool is_cut_ = false;
  std::size_t ops_ = 0;
  Obstacle obstacle_ = Obstacle::none;
  Obstacle first_obstacle_ = Obstacle::none;
  std::uint64_t first_passed_ = 0;
  Obstacle less_ = Obstacle::refused;  // reason for less than full reach
  std::string refusal_;
};

}  // namespace hearth
