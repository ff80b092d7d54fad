// Records runs each kind of record: ops, lifetimes, transfers, loans, update groups; and gives
// records up. Private to runtime. Owned by the device actor, touched by the token holder only.
// Invariant: a record is consumed once and its ticket answered once, even if our own code throws; a
// waiting record has changed nothing.
#pragma once

#include <memory>

#include "drops.hpp"
#include "loans.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/device_message.hpp"
#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/lanes/lane_queues.hpp"
#include "runtime/device/lanes/wait_report.hpp"
#include "runtime/device/memory/device_memory.hpp"
#include "update_groups.hpp"

namespace hearth {

class Records final {
 public:
  /// Lifetime: all arguments outlive this object.
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

  /// Consumes the record at the lane's front, which the caller then removes, or parks the lane.
  [[nodiscard]] Step consume(LaneState& lane, const OpView& op);
  /// Whether the stream's limits cancel the lane's next record. Changes nothing.
  [[nodiscard]] static bool is_expired(LaneState& lane) noexcept;

  // ---- messages about waiting records ----
  void accept_transfer(TransferArrived& arrival);
  void cancel(const CancelRecords& give);

 private:
  [[nodiscard]] Step consume_lifetime(LaneState& lane, const OpView& op);
  /// Cancels the record if the stream's limits require it, and returns whether it did. Lifetimes
  /// and open update groups are never cancelled.
  [[nodiscard]] bool cancel_if_expired(LaneState& lane, const OpView& op);
  static void forget_waits(LaneState& lane) noexcept;
  [[nodiscard]] Step run_op(LaneState& lane, const OpView& view);
  [[nodiscard]] Step step_after(Ran ran, LaneState& lane) {
    const bool is_consumed = ran == Ran::done || ran == Ran::failed;
    return is_consumed ? Step::consumed : keep_for_retry(lane, ran);
  }
  /// Keeps the record at the lane's front after a shortage of memory or a partial copy.
  [[nodiscard]] Step keep_for_retry(LaneState& lane, Ran ran);
  /// Continues run_op() for an op with an input that is not created yet.
  [[nodiscard]] Step wait_for_input(LaneState& lane, const OpView& op, Slot& uncreated);
  /// Fails a record whose wait for the device exceeded its limit.
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
