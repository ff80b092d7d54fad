// Runs neighbouring elementwise ops as one kernel, once their window has ended. Private to runtime.
// Owned by the device actor, touched by the token holder only. Invariants: (1) whether ops are
// fused changes no bit of a result; (2) plans are made for windows alone that lie between two
// program boundaries, so that they follow from the program, not from time: a cut uses a plan that
// is there; (3) where a group cannot run, nothing has happened, and its ops run singly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <hearth/runtime/fusion.hpp>
#include <hearth/streams/kernel/expression.hpp>

#include "dispatch.hpp"
#include "fused_group.hpp"
#include "lane_queues.hpp"
#include "plan_store.hpp"

namespace hearth {

class GroupRunner final {
 public:
  /// Lifetime: all of these outlive it.
  GroupRunner(Fusion fusion,
              HandleTable& handles,
              Dispatch& dispatch,
              LaneQueues& queues,
              const InFlight& in_flight) noexcept
      : fuses_(fusion == Fusion::on),
        handles_(handles),
        dispatch_(dispatch),
        queues_(queues),
        in_flight_(in_flight) {}

  [[nodiscard]] bool fuses() const noexcept { return fuses_; }
  /// Runs the ops at the lane's front that make one kernel. False: the first has its turn alone.
  [[nodiscard]] bool run(LaneState& lane);
  [[nodiscard]] std::size_t plan_count() const noexcept { return plans_.size(); }

 private:
  /// Takes in the ops from the lane's front that may be one kernel, at most so many.
  void gather(LaneState& lane, std::size_t most_ops);
  /// Results whose drop comes behind the group, in the same window, with no use before it: a name
  /// that goes out of scope later.
  void find_later_drops(const LaneState& lane);
  [[nodiscard]] FusedGroup::Made* find_open(SlotId id) noexcept;
  /// What the group cannot take in.
  enum class Obstacle : std::uint8_t { kind, ops, shape, numbers, inputs, unready_input, drop };

  /// Whether the group takes the record; else `obstacle_` says why not.
  [[nodiscard]] bool take(const LaneState& lane, const OpView& op, std::size_t most_ops);
  [[nodiscard]] bool take_op(const LaneState& lane, const OpView& op);
  [[nodiscard]] bool take_drop(const OpView& op);
  /// Where the op gets this input from, or false: it is not there, or one too many.
  [[nodiscard]] bool add_source(const LaneState& lane,
                                const Operand& operand,
                                std::uint32_t& needs);
  [[nodiscard]] bool refuse(Obstacle why) noexcept {
    obstacle_ = why;
    return false;
  }
  /// For the journal, where there is one: why the first op runs alone, why what was gathered ends
  /// where it does, and that its kernel did not run.
  void note_alone(const OpView& first) const noexcept;
  void note_end(const LaneState& lane) const noexcept;
  void note_refusal() const noexcept;
  [[nodiscard]] std::string why_ended(const LaneState& lane) const;
  /// Whether no record of the lane may be in a group with the first.
  [[nodiscard]] static bool stands_alone(const LaneState& lane);
  [[nodiscard]] bool can_begin(LaneState& lane, const OpRecord& first) const;
  void write_form();
  /// The kernel of the group that was gathered, or null.
  [[nodiscard]] const Expression* plan(bool may_make);

  const bool fuses_;
  HandleTable& handles_;
  Dispatch& dispatch_;
  LaneQueues& queues_;
  const InFlight& in_flight_;
  PlanStore plans_;
  FusedGroup group_;
  Obstacle obstacle_ = Obstacle::kind;
};

}  // namespace hearth
