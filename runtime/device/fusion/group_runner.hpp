// GroupRunner runs ops of an ended window as one kernel: neighbours that work elementwise or along
// rows, behind a contraction if they follow one. Private to runtime. Owned by the device actor,
// touched by the token holder only.
// Invariants: (1) fusion changes no bit of a result that is not f16 or bf16; (2) plans are created
// only for windows between two program boundaries, so that they depend on the program and not on
// time. A window that ended early uses existing plans; (3) if a group cannot run, nothing has
// happened and its ops run singly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include <hearth/runtime/fusion.hpp>
#include <hearth/streams/kernel/expression.hpp>

#include "group_gather.hpp"
#include "group_recall.hpp"
#include "plan_store.hpp"
#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/dispatch/fused_group.hpp"
#include "runtime/device/dispatch/group_call.hpp"
#include "runtime/device/lanes/lane_queues.hpp"

namespace hearth {

class GroupRunner final {
 public:
  /// Lifetime: all arguments outlive this object.
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
  /// Runs the ops that form one kernel with the lane's first op. Returns false if the first op must
  /// run alone.
  [[nodiscard]] bool run(LaneState& lane);
  /// Removes a record at the lane's front that ran in a group, and ends its remaining tensors.
  void finish_done(LaneState& lane, const OpRecord& record);
  [[nodiscard]] std::size_t plan_count() const noexcept { return plans_.size(); }
  [[nodiscard]] std::uint64_t plan_hits() const noexcept { return plan_hits_; }
  [[nodiscard]] std::uint64_t plan_misses() const noexcept { return plan_misses_; }

 private:
  enum class Gathered : std::uint8_t {
    nothing,    ///< No group that is worth a kernel.
    shapeless,  ///< A kernel that cannot derive its space from its inputs.
    unneeded,   ///< Ops without needed results: none of them runs.
    group,
  };
  /// Gathers the ops of one kernel.
  [[nodiscard]] Gathered gather(const LaneState& lane, GroupReach reach);
  /// Runs the gathered group if there are plans for it.
  [[nodiscard]] Fused run_gathered(LaneState& lane, bool may_plan);
  /// Runs a remembered group if its records recur. Unsupported: the group must be gathered.
  [[nodiscard]] Fused run_recalled(LaneState& lane);
  [[nodiscard]] Fused run_planned(LaneState& lane, const GroupKernels& kernels);
  /// Whether the group's kernel can derive its space from its inputs, if it has rows.
  [[nodiscard]] bool shows_space(const FusedGroup& group) const;
  [[nodiscard]] bool reads_full(const FusedGroup& group, const FusedGroup::Member& member) const;
  /// Marks the group's records as done and removes those at the front.
  void finish(LaneState& lane);
  /// Ends the remaining tensors of a record that ran before its turn.
  void end_late_uses(LaneState& lane, std::uint64_t sequence);
  /// Explanations for the journal, if there is one (group_boundary.cpp). Each function notes one
  /// reason: why the first op runs alone, why the group ends, why less is gathered, or why its ops
  /// run singly.
  void record_alone(LaneState& lane, const OpView& first) const noexcept;
  void record_end(const LaneState& lane, Gathered gathered) const noexcept;
  void record_lone_record(const LaneState& lane) const noexcept;
  void record_reduced_reach() noexcept;
  void record_single(const LaneState& lane, std::uint64_t last, Fused fused) noexcept;
  [[nodiscard]] std::string why_alone(LaneState& lane, const OpView& first) const;
  /// Whether no record of the lane may be in a group with the first.
  [[nodiscard]] static bool runs_alone(const LaneState& lane);
  [[nodiscard]] bool can_begin(LaneState& lane, const OpRecord& first) const;
  /// Whether a group may begin with the op on this device.
  [[nodiscard]] bool may_begin_group(const OpView& op) const;
  static void write_form(FusedGroup& group);
  /// Codes a source in ten bits; never 0 with one added.
  [[nodiscard]] static std::uint64_t code_of(const FusedGroup& group, GroupSource source) noexcept;
  /// Key of the backend's answer about the group together with the group before it.
  [[nodiscard]] std::uint64_t chain_key();
  [[nodiscard]] bool is_refused_chain();
  void record_refused_chain();
  /// Plan of a gathered group, or null.
  [[nodiscard]] const PlanStore::Plan* plan(FusedGroup& group, bool may_make);
  [[nodiscard]] const PlanStore::Plan& make_plan(const FusedGroup& group);

  /// Breach of GroupLegality if the gathered group ran now; empty if there is none.
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
  std::unordered_map<std::uint64_t, std::string> refused_chains_;  // with the reason
  std::string_view refusal_;  // why the gathered group did not run; text of the backend or its plan
  std::string why_single_;    // why the ops up to single_through_ run singly, if there is a journal
  std::uint64_t single_through_ = 0;
  LaneId lane_single_;
  bool lacks_plan_ = false;  // a missing plan made the group smaller, so it is not remembered
  FusedGroup group_;
  FusedGroup before_;  // room for the group before it
  GroupGather gather_;
  GroupRecall recall_;
  std::uint64_t looked_ = 0;  // inspected records, on which the group depends,
  bool is_cut_ = false;       // and whether it depends on their end, too
  GroupReach reach_ = GroupReach::chained;
};

}  // namespace hearth
