// What each kind of record does: ops, lifetimes, transfers, loans, update groups; and when a record
// is given up. Private to runtime. Owned by the device actor, touched by the token holder only.
// Invariant: a record is consumed once, and its ticket answered once, also where our own code
// throws; one that waits has changed nothing.
#pragma once

#include <memory>

#include "device_memory.hpp"
#include "dispatch.hpp"
#include "drops.hpp"
#include "lane_queues.hpp"
#include "loans.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/device_message.hpp"
#include "update_groups.hpp"
#include "wait_report.hpp"

namespace hearth {

class Records final {
 public:
  /// Lifetime: all of these outlive it.
  Records(DeviceEndpoint& endpoint,
          HandleTable& handles,
          Dispatch& dispatch,
          LaneQueues& queues,
          InFlight& in_flight,
          const WaitReport& report,
          const std::shared_ptr<DeviceMemory>& memory) noexcept
      : endpoint_(endpoint),
        handles_(handles),
        dispatch_(dispatch),
        queues_(queues),
        in_flight_(in_flight),
        report_(report),
        drops(endpoint, handles, dispatch, queues),
        loans(endpoint, handles, dispatch, queues, in_flight, report, memory),
        groups(endpoint, dispatch, queues, in_flight, drops, report) {}

  /// Consumes the record at the lane's front, which the caller then takes out, or parks the lane.
  [[nodiscard]] Step consume(LaneState& lane, const OpView& op);
  /// Whether the lane's next record is given up as its stream's limits say; changes nothing.
  [[nodiscard]] static bool is_over(LaneState& lane) noexcept;

  // ---- messages about records that wait ----
  void accept_transfer(TransferArrived& arrival);
  void give_up(const GiveUp& give);

 private:
  [[nodiscard]] Step consume_lifetime(LaneState& lane, const OpView& op);
  /// Whether the record is given up as its stream's limits say; then it is done. Lifetimes and open
  /// update groups never are.
  [[nodiscard]] bool is_given_up(LaneState& lane, const OpView& op);
  static void forget_waits(LaneState& lane) noexcept;
  [[nodiscard]] Step run_op(LaneState& lane, const OpView& view);
  [[nodiscard]] Step step_after(Ran ran, LaneState& lane) {
    const bool is_over = ran == Ran::done || ran == Ran::failed;
    return is_over ? Step::consumed : come_again(lane, ran);
  }
  /// The record stays at the lane's front: it is short of memory, or a copy in part.
  [[nodiscard]] Step come_again(LaneState& lane, Ran ran);
  /// run_op() where an input is still to be made.
  [[nodiscard]] Step wait_for_input(LaneState& lane, const OpView& op, Slot& unborn);
  /// The device has not ended in time what the record had to wait for.
  [[nodiscard]] Step fail_hung(LaneState& lane, const OpView& op);
  [[nodiscard]] Step upload(LaneState& lane, const OpView& op);
  void publish(const OpView& op);
  [[nodiscard]] Step sync(LaneState& lane, const OpView& op);

  DeviceEndpoint& endpoint_;
  HandleTable& handles_;
  Dispatch& dispatch_;
  LaneQueues& queues_;
  InFlight& in_flight_;
  const WaitReport& report_;

 public:
  Drops drops;
  Loans loans;
  UpdateGroups groups;
};

}  // namespace hearth
