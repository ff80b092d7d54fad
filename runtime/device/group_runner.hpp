// Runs ops of a window that has ended as one kernel: neighbours that work element by element or
// along rows, behind a contraction where they follow one. Private to runtime.
// Owned by the device actor, touched by the token holder only. Invariants: (1) whether ops are
// fused changes no bit of a result that is not f16 or bf16; (2) plans are made for windows alone
// that lie between two program boundaries, so that they follow from the program, not from time: a
// cut uses a plan that is there; (3) where a group cannot run, nothing has happened, and its ops
// run singly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include <hearth/runtime/fusion.hpp>
#include <hearth/streams/kernel/expression.hpp>

#include "dispatch.hpp"
#include "fused_group.hpp"
#include "group_call.hpp"
#include "group_gather.hpp"
#include "group_recall.hpp"
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
        in_flight_(in_flight),
        gather_(handles, dispatch, group_, before_),
        recall_(handles, dispatch) {}

  [[nodiscard]] bool fuses() const noexcept { return fuses_; }
  /// Runs the ops that make one kernel with the lane's first. False: that has its turn alone.
  [[nodiscard]] bool run(LaneState& lane);
  /// The record at the lane's front was run with others: it leaves, and ends what it still has to.
  void finish_done(LaneState& lane, const OpRecord& record);
  [[nodiscard]] std::size_t plan_count() const noexcept { return plans_.size(); }
  [[nodiscard]] std::uint64_t plan_hits() const noexcept { return plan_hits_; }
  [[nodiscard]] std::uint64_t plan_misses() const noexcept { return plan_misses_; }

 private:
  enum class Gathered : std::uint8_t {
    nothing,    ///< Nothing that is worth a kernel.
    shapeless,  ///< What would be a kernel but cannot tell its space from what it reads.
    unneeded,   ///< Ops whose results nobody needs: none of them runs.
    group,
  };
  /// Takes in what may be one kernel.
  [[nodiscard]] Gathered gather(const LaneState& lane, GroupReach reach);
  /// Runs what was gathered, if there are plans for it.
  [[nodiscard]] Fused run_gathered(LaneState& lane, bool may_plan);
  /// Runs the group that came before, if it comes again; unsupported: it has to be gathered.
  [[nodiscard]] Fused run_recalled(LaneState& lane);
  [[nodiscard]] Fused run_planned(LaneState& lane, const GroupKernels& kernels);
  /// Whether the group's kernel can tell its space from what it reads, where it has rows.
  [[nodiscard]] bool shows_space(const FusedGroup& group) const;
  [[nodiscard]] bool reads_full(const FusedGroup& group, const FusedGroup::Made& made) const;
  /// Marks what was taken, and lets what is at the front go.
  void finish(LaneState& lane);
  /// What the record has left to end, as it was run before its turn.
  void end_late_uses(LaneState& lane, std::uint64_t sequence);
  /// For the journal, where there is one (group_boundary.cpp): why the first op runs alone, why
  /// what was gathered ends where it does, why less is gathered, and why its ops run one by one.
  void note_alone(LaneState& lane, const OpView& first) const noexcept;
  void note_end(const LaneState& lane, Gathered gathered) const noexcept;
  void note_lone_record(const LaneState& lane) const noexcept;
  void note_less() noexcept;
  void note_single(const LaneState& lane, std::uint64_t last, Fused fused) noexcept;
  [[nodiscard]] std::string why_alone(LaneState& lane, const OpView& first) const;
  /// Whether no record of the lane may be in a group with the first.
  [[nodiscard]] static bool stands_alone(const LaneState& lane);
  [[nodiscard]] bool can_begin(LaneState& lane, const OpRecord& first) const;
  /// Whether a group may begin with the op on this device.
  [[nodiscard]] bool may_stand_first(const OpView& op) const;
  static void write_form(FusedGroup& group);
  /// A source in ten bits, never 0 with one added.
  [[nodiscard]] static std::uint64_t code_of(const FusedGroup& group, GroupSource source) noexcept;
  /// Of the group and the one before it: what the backend will say of the two together.
  [[nodiscard]] std::uint64_t chain_key();
  [[nodiscard]] bool is_refused_chain();
  void note_refused_chain();
  /// The plan of a group that was gathered, or null.
  [[nodiscard]] const PlanStore::Plan* plan(FusedGroup& group, bool may_make);
  [[nodiscard]] const PlanStore::Plan& make_plan(const FusedGroup& group);

  /// What would be wrong if what was gathered ran now (GroupLegality); empty: nothing.
  [[nodiscard]] std::string breach_of_group(const LaneState& lane) const;

  const bool fuses_;
  HandleTable& handles_;
  Dispatch& dispatch_;
  LaneQueues& queues_;
  const InFlight& in_flight_;
  PlanStore plans_;
  std::uint64_t plan_hits_ = 0;
  std::uint64_t plan_misses_ = 0;
  std::uint64_t evictions_ = 0;
  std::unordered_map<std::uint64_t, std::string> refused_chains_;  // and why
  std::string_view refusal_;  // why what was gathered did not run, as the backend or its plan says
  std::string why_single_;    // the ops up to a record run one by one, where there is a journal
  std::uint64_t single_through_ = 0;
  LaneId lane_single_;
  bool lacks_plan_ = false;  // More would have been taken, had there been a plan: not to be learnt.
  FusedGroup group_;
  FusedGroup before_;  // room for the group before it
  GroupGather gather_;
  GroupRecall recall_;
  std::uint64_t looked_ = 0;  // records on which it depends what was gathered,
  bool is_cut_ = false;       // and whether on their end too
  GroupReach reach_ = GroupReach::chained;
};

}  // namespace hearth
