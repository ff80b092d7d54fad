// WindowRunner adds records to a lane's window: ops and drops join it, all other records end it.
// Records of an ended window run as groups (GroupRunner) or one by one. Private to runtime. Owned
// by the device actor, touched by the token holder only. Invariants (the model in tests/model
// checks all of them): (1) joining takes no device memory and touches no data, though it may create
// a view; (2) the future result of an op in a window is pending in its slot; (3) an op that must
// wait, or fails, is at its lane's front before it does.
#pragma once

#include <cstdint>
#include <optional>

#include "lane_queues.hpp"
#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/memory/handle_table.hpp"

namespace hearth {

class WindowRunner final {
 public:
  /// Lifetime: all arguments outlive this object.
  WindowRunner(Fusion fusion, HandleTable& handles, Dispatch& dispatch, LaneQueues& queues) noexcept
      : looks_ahead_(fusion != Fusion::off),
        handles_(handles),
        dispatch_(dispatch),
        queues_(queues) {}

  [[nodiscard]] bool looks_ahead() const noexcept { return looks_ahead_; }

  enum class Admission : std::uint8_t {
    joined,  ///< The record stays in the lane, in the window.
    ended,   ///< The window has ended before the record; the window's records run first.
    alone,   ///< The record is at the lane's front and runs now.
  };
  /// Processes the first record after the lane's window.
  [[nodiscard]] Admission admit(LaneState& lane, const OpView& op);
  /// Called when a record at the lane's front is done and about to leave.
  static void on_record_done(LaneState& lane, const OpRecord& record) noexcept;

 private:
  /// Whether the record runs without a window.
  [[nodiscard]] static bool runs_alone(const LaneState& lane, const OpRecord& record) noexcept {
    return lane.window.runs_singly(record) || lane.in_group || lane.has_expired ||
           lane.awaited_work.has_value();
  }
  [[nodiscard]] Admission join(LaneState& lane, const OpView& op);
  /// Ends the window before an op that must not join, or lets the op run.
  [[nodiscard]] Admission decline(LaneState& lane, WindowEnd why);
  [[nodiscard]] Admission enter(LaneState& lane, const OpView& op);
  /// Adds a view of an existing tensor as a completed record, so that it blocks no group.
  [[nodiscard]] bool enter_view(LaneState& lane, const OpView& op);
  /// Updates the window after the record has joined. `is_awaited`: a lane waits for its result.
  void settle(LaneState& lane, const OpRecord& record, bool is_full, bool is_awaited);
  /// Whether the op joins, and no special case applies.
  [[nodiscard]] bool is_plain(const LaneState& lane, const OpRecord& record);
  /// Reason for which the op must not join.
  [[nodiscard]] std::optional<WindowEnd> obstacle(const LaneState& lane, const OpView& op);
  /// Marks the op's results as pending. Returns true if a lane waits for one of them.
  [[nodiscard]] bool make_pending(const LaneState& lane, const OpView& op);

  const bool looks_ahead_;
  HandleTable& handles_;
  Dispatch& dispatch_;
  LaneQueues& queues_;
};

}  // namespace hearth
