// What the records of a lane do to its window: ops and drops join it, all else ends it, and what
// has left it runs one by one. Private to runtime. Owned by the device actor, touched by the token
// holder only. Invariants (SEAMS 3; the model of tests/model has them all): (1) joining takes none
// of the device's memory and touches no data, though a view may be made then; (2) what an op of a
// window will make is pending in its slot; (3) an op that must wait, or fails, is at its lane's
// front before it does.
#pragma once

#include <cstdint>
#include <optional>

#include "dispatch.hpp"
#include "handle_table.hpp"
#include "lane_queues.hpp"

namespace hearth {

class WindowRunner final {
 public:
  /// Lifetime: all of these outlive it.
  WindowRunner(Fusion fusion, HandleTable& handles, Dispatch& dispatch, LaneQueues& queues) noexcept
      : looks_ahead_(fusion != Fusion::off),
        handles_(handles),
        dispatch_(dispatch),
        queues_(queues) {}

  [[nodiscard]] bool looks_ahead() const noexcept { return looks_ahead_; }

  enum class Look : std::uint8_t {
    joined,  ///< It stays in the lane, in the window.
    ended,   ///< The window has ended before it; its records have their turn first.
    alone,   ///< It has its turn: it is at the lane's front.
  };
  /// Looks at the first record behind the lane's window.
  [[nodiscard]] Look look(LaneState& lane, const OpView& op);
  /// A record at the lane's front is done and about to leave.
  static void note_done(LaneState& lane, const OpRecord& record) noexcept;

 private:
  /// Whether the record has its turn whatever the window could do with it.
  [[nodiscard]] static bool stands_alone(const LaneState& lane, const OpRecord& record) noexcept {
    return lane.window.runs_singly(record) || lane.in_group || lane.has_expired ||
           lane.awaited_work.has_value();
  }
  [[nodiscard]] Look join(LaneState& lane, const OpView& op);
  /// The op must not join: it ends the window, or has its turn.
  [[nodiscard]] Look stay_out(LaneState& lane, WindowEnd why);
  [[nodiscard]] Look enter(LaneState& lane, const OpView& op);
  /// A view of a tensor that is there joins as one that is done, so that it stands in nobody's way.
  [[nodiscard]] bool enter_shown(LaneState& lane, const OpView& op);
  /// The record has joined. `is_awaited`: somebody waits for what it makes.
  void settle(LaneState& lane, const OpRecord& record, bool is_full, bool is_awaited);
  /// Whether the op joins, and nothing has to be settled before.
  [[nodiscard]] bool is_plain(const LaneState& lane, const OpRecord& record);
  /// Why the op must not join.
  [[nodiscard]] std::optional<WindowEnd> obstacle(const LaneState& lane, const OpView& op);
  /// The op's results are pending. True: a lane waits for one of them.
  [[nodiscard]] bool make_pending(const LaneState& lane, const OpView& op);

  const bool looks_ahead_;
  HandleTable& handles_;
  Dispatch& dispatch_;
  LaneQueues& queues_;
};

}  // namespace hearth
