// Which ops of a window that has ended may become one kernel: those from the lane's front on that
// work on values of one space, element by element or along its rows. Private to runtime. Touched by
// the token holder only. Invariants: (1) what it takes depends on the records of the window alone,
// not on how far time has come; (2) an op that it leaves alone may run after the group: no op of
// the group needs it, and what it reads lasts until then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <hearth/streams/kernel/group_kernel.hpp>

#include "dispatch.hpp"
#include "fused_group.hpp"
#include "handle_table.hpp"
#include "lane_state.hpp"

namespace hearth {

/// Whether an op may stand in a group behind its anchor.
[[nodiscard]] bool may_be_fused(const OpView& op, const ExpressionTable& expressions) noexcept;
/// For how many ops of a group it counts: a captured expression for those that it is made of.
[[nodiscard]] std::size_t weight_of(const OpView& op) noexcept;
/// Whether the ops behind it may work on its result before that is stored.
[[nodiscard]] bool may_be_anchor(const OpView& op) noexcept;

/// How much a group may have: not every backend takes all of it.
enum class GroupReach : std::uint8_t {
  chained,  ///< A group before its anchor, too.
  single,
  plain,  ///< No anchor, and no rows.
};

class GroupGather final {
 public:
  /// Lifetime: all of these outlive it. `before` is room for the group before that one.
  GroupGather(HandleTable& handles,
              Dispatch& dispatch,
              FusedGroup& group,
              FusedGroup& before) noexcept
      : handles_(handles), dispatch_(dispatch), group_(group), before_(before) {}

  /// Fills the group, with at most so many ops. Empty: the first op stands in none.
  void gather(const LaneState& lane, std::size_t most_ops, GroupReach reach);
  /// How many records it has looked at, and whether it would have gone on, had there been more.
  [[nodiscard]] std::uint64_t record_count() const noexcept { return record_count_; }
  [[nodiscard]] bool is_cut() const noexcept { return is_cut_; }
  /// Whether the kernel may fail for what is in an anchor's operands.
  [[nodiscard]] bool fails_with_anchor() const noexcept;

  /// Why an op is not taken. The words for each are in group_boundary.cpp.
  enum class Obstacle : std::uint8_t {
    none,
    kind,           ///< Ops of its kind, or of its types, are in no group.
    view,           ///< It is a view of a result, which has to be in memory then.
    ops,            ///< The group has as many ops, or results, as it may have.
    shape,          ///< Its result lies neither as the group's values nor as one for each row.
    row,            ///< It works along other rows, or a value of a row lies along other axes.
    long_row,       ///< Its rows are too long.
    axes,           ///< It works along axes that are not the last ones.
    order,          ///< It reads a tensor of another shape, or that lies in another order.
    place,          ///< Its result depends on places that the group does not know.
    behind_anchor,  ///< It works along rows behind an anchor.
    numbers,
    inputs,
    unready_input,
    drop,
    stranger,      ///< It shares nothing with the group.
    again,         ///< It makes a value again, for ops that are not in the group.
    lone_anchor,   ///< The device's kernel of it takes no others in.
    joined,        ///< It runs with those of other streams.
    second_chain,  ///< There is a group before the anchor already.
    two_results,   ///< It reads two results of the group,
    inner_result,  ///< or one that is not the last,
    shown_result,  ///< or a view of it,
    part_result,   ///< or one that has no element at each place.
    prologue,      ///< The device's kernel of it makes no such input itself.
    needed,        ///< Others need the result that it would be handed.
    repeated,      ///< That result repeats along rows of which the group reads none.
    refused,       ///< The backend does not take it together with the group.
    unplanned,     ///< There is no plan for the two together, and a cut makes none.
    ended          ///< A reduction has read the group's last value, and takes none in.
  };
  /// Why the gatherings that follow have less reach than there is; until one has all of it again.
  /// `words`: what the backend said.
  void expect_less(Obstacle why, std::string words = {}) noexcept {
    less_ = why;
    refusal_ = std::move(words);
  }
  /// Why the group has not taken the first op that it left alone. For who asks alone: it looks at
  /// the lane again.
  [[nodiscard]] std::string why_ended(const LaneState& lane) const;

 private:
  /// Ops that a group leaves alone between two of its own, at most; and records.
  static constexpr int kMostPassedOps = 4;
  static constexpr std::uint64_t kMostPassedRecords = 48;

  using Made = FusedGroup::Made;
  using Input = FusedGroup::Input;

  /// Where an op gets an input from: a value of the group, or a tensor; and in which shape it sees
  /// it.
  struct Source {
    const Made* made = nullptr;  ///< As it stands in the group, be it a view.
    GroupSource root = {};
    Slot* slot = nullptr;
    Operand operand = {};
  };
  /// How a shape lies in the group's space.
  enum class Fit : std::uint8_t { full, row_kept, row_dropped, none };

  void gather_records(const LaneState& lane);
  /// Whether what was gathered cannot be the group: then it is gathered anew, with less.
  [[nodiscard]] bool must_take_less() noexcept;
  /// Whether what is made again for a later op would have to be written for it, as that op is not
  /// in the group: then it is better made where that op runs.
  [[nodiscard]] bool hands_on_what_is_made_again() const noexcept;
  [[nodiscard]] bool take(const LaneState& lane, const OpView& op);
  [[nodiscard]] bool take_drop(const OpView& op);
  [[nodiscard]] bool take_anchor(const LaneState& lane, const OpView& op);
  /// What was gathered becomes the group before this op's, if that can read its one result.
  [[nodiscard]] bool take_anchor_behind(const LaneState& lane, const OpView& op);
  /// A reduction that is no part of the group reads its last value as that is made; with it the
  /// group ends.
  [[nodiscard]] bool take_last(const LaneState& lane, const OpView& op);
  /// Which input of the op is the group's last value, in full, and can be made as the op reads it;
  /// -1: none.
  [[nodiscard]] int chained_input(const OpView& op);
  /// Why a value of the group cannot be handed to input `input` of the op.
  [[nodiscard]] Obstacle obstacle_to_hand_on(const OpView& op, int input, const Made& made) const;
  /// Whether the group before has no result but the one that is handed on.
  [[nodiscard]] bool closes_chain() noexcept;
  [[nodiscard]] bool take_op(const LaneState& lane, const OpView& op);
  [[nodiscard]] bool take_view(const OpView& op);
  /// What the op works on, or false: an input is not there.
  [[nodiscard]] bool find_sources(const OpView& op);
  [[nodiscard]] bool find_tensor(const Operand& operand, Slot& slot);
  /// What is known of the slot's tensor.
  [[nodiscard]] GatherMark& mark_of(Slot& slot) const noexcept {
    if (slot.mark.gathering != gathering_) {
      slot.mark = {.gathering = gathering_};
    }
    return slot.mark;
  }
  /// A record that is left alone uses these.
  void pass(const OpView& op, std::uint64_t ahead);
  /// An op, or a view, is the group's.
  void take_in(const Made& made);
  /// Whether the op shares a tensor or value with the group.
  [[nodiscard]] bool is_connected() const noexcept;
  /// The extent of the op's result, if the group's space has room for it.
  [[nodiscard]] bool place_elementwise(const OpView& op, GroupExtent& extent);
  [[nodiscard]] bool place_full(GroupExtent& extent);
  /// Whether what the op reads is one number a row, in a space whose rows have one element: so is
  /// its result then, though it has the shape of the space.
  [[nodiscard]] bool is_of_short_rows() const;
  [[nodiscard]] bool place_row(const Operand& out, GroupExtent& extent);
  [[nodiscard]] bool place_along_rows(const OpView& op, GroupExtent& extent);
  [[nodiscard]] bool place_view(const Operand& out, GroupExtent& extent);
  /// Makes the shape the space, where what was gathered fits it: values of one element, or one
  /// value for each of its rows.
  [[nodiscard]] bool widen(ShapeId to);
  /// Whether trailing axes of the space that this shape keeps as 1 can be its rows.
  [[nodiscard]] bool begin_rows(const Shape& kept);
  void forget_rows() noexcept;
  [[nodiscard]] bool is_full(const Source& source) const;
  [[nodiscard]] Fit fit_of(ShapeId id) const;
  /// Enters the sources of an op that is taken. False: they are too many.
  [[nodiscard]] bool enter_sources(const LaneState& lane, GroupExtent extent, Made& made);
  [[nodiscard]] bool enter_input(const LaneState& lane,
                                 const Source& source,
                                 GroupExtent extent,
                                 Made& made);
  void enter_ends(const OpView& op);
  void enter_end(const FusedGroup::End& end);
  /// Whether a record that follows may still change the group.
  [[nodiscard]] bool goes_on() const noexcept;
  /// Which results are needed outside, and which tensors go.
  void settle();
  void leave_out_unneeded();
  void leave_out_unread();
  void leave_out_rows() noexcept;
  [[nodiscard]] std::span<const GroupSource> sources_of(const Made& made) const noexcept {
    return std::span(group_.sources).subspan(made.first_source, made.source_count);
  }
  /// The tensor goes with the group.
  void note_last(const Operand& operand);
  /// If the group before reads it.
  [[nodiscard]] bool note_last_before(const Slot& slot) noexcept;
  void leave_alone(Made& made);
  [[nodiscard]] bool ends_in_group(const FusedGroup::End& end) noexcept;
  [[nodiscard]] const Shape& shape_of(ShapeId id) const;
  /// The words of why_ended(), behind the name of the op: where its values would lie, or what it
  /// has of the group's.
  [[nodiscard]] std::string words_of(Obstacle why, const OpView& op) const;
  [[nodiscard]] std::string words_of_place(Obstacle why, const OpView& op) const;
  [[nodiscard]] std::string words_of_chain(Obstacle why, const OpView& op) const;
  [[nodiscard]] std::string words_of_prologue(const OpView& op) const;
  [[nodiscard]] std::string words_of_joined(const OpView& op) const;
  [[nodiscard]] static bool is_of_place(Obstacle why) noexcept {
    return why >= Obstacle::shape && why <= Obstacle::behind_anchor;
  }
  [[nodiscard]] bool reads_result(const OpView& op) const;
  /// The group that was there when the record was left alone.
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
  std::uint64_t gathering_ = 0;  // counts them
  std::uint64_t ahead_ = 0;      // of the record at hand
  int passed_ops_ = 0;
  std::size_t open_ = 0;  // results whose end was not found yet
  std::size_t most_ops_ = 0;
  GroupReach reach_ = GroupReach::chained;
  bool is_chain_closed_ = true;
  bool is_ended_ = false;      // a reduction has read its last value
  bool has_again_ = false;     // an op that makes a value again was taken from behind others
  bool leaves_again_ = false;  // those are left alone
  std::uint64_t record_count_ = 0;
  bool is_cut_ = false;
  std::size_t ops_ = 0;
  Obstacle obstacle_ = Obstacle::none;
  Obstacle first_obstacle_ = Obstacle::none;
  std::uint64_t first_passed_ = 0;
  Obstacle less_ = Obstacle::refused;  // why there is not all reach, where that is so
  std::string refusal_;
};

}  // namespace hearth
