// The update groups of a device's lanes: their records are kept until the group ends, and then run
// as a whole or not at all. Kernels in flight that may have failed decide about it on the device
// (Launch::guards): nothing waits for them. Private to runtime. Owned by the device actor, touched
// by the token holder only. Invariants: (1) a group that does not run leaves the named tensors as
// they were; (2) drops that came inside a group follow it; (3) a prepared group holds all that it
// needs, and its lane waits for the decision.
#pragma once

#include <hearth/runtime/update_decision.hpp>

#include "dispatch.hpp"
#include "drops.hpp"
#include "lane_queues.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "wait_report.hpp"
#include "work_wait.hpp"

namespace hearth {

struct GroupTicket;
struct JointUpdate;

class UpdateGroups final {
 public:
  UpdateGroups(DeviceEndpoint& endpoint,
               Dispatch& dispatch,
               LaneQueues& queues,
               InFlight& in_flight,
               Drops& drops,
               const WaitReport& report) noexcept
      : endpoint_(endpoint),
        dispatch_(dispatch),
        queues_(queues),
        in_flight_(in_flight),
        drops_(drops),
        report_(report) {}

  /// Keeps a record of the lane's open group.
  static void keep(LaneState& lane, const OpView& op);
  /// group_end: runs the lane's group, or gives it up.
  [[nodiscard]] Step finish(LaneState& lane, const OpView& op);
  /// The lane's group does not run: its new tensors keep the old values.
  void give_up(LaneState& lane, const ErrorRef& error);
  /// The decision on the lane's update may be there.
  void settle(LaneId id);
  /// The lane ends in the middle of its group.
  void abandon_open(LaneState& lane);

 private:
  /// The first operand of the group that no record has made yet, and that it has to wait for.
  [[nodiscard]] Slot* find_unborn(const LaneState& lane);
  /// The kernels on which the group depends and of which the host does not know yet whether they
  /// failed: the device decides by them. Null once they are known.
  [[nodiscard]] LateFailures open_failures(const LaneState& lane);
  /// A group that happens on several devices or on none is decided by the host: first it has to
  /// know how these kernels came out.
  [[nodiscard]] Waited wait_for_failures(LaneState& lane, const OpView& op);
  /// The group has been given to the device; its reader is notified when it has run.
  void report(const OpView& op, LaneState& lane, LateFailures guards);
  /// Gets the memory of the lane's group; parks the lane while the group's decision is open.
  /// `status`: why it must not run.
  [[nodiscard]] Step prepare(LaneState& lane, GroupTicket& ticket, Status& status);
  /// The part of prepare() that happens once.
  [[nodiscard]] Step get_memory(LaneState& lane, Status& status);
  /// Nobody decides any more: the device is lost, or the deadline has passed.
  void abort_if_over(const LaneState& lane, UpdateDecision& decision) const;
  void announce(LaneState& lane, JointUpdate& joint);
  /// Runs the group, or gives it up with this status; `guards`: the kernels that decide whether its
  /// results count.
  [[nodiscard]] Status end(LaneState& lane, Status status, const LateFailures& guards);

  DeviceEndpoint& endpoint_;
  Dispatch& dispatch_;
  LaneQueues& queues_;
  InFlight& in_flight_;
  Drops& drops_;
  const WaitReport& report_;
};

}  // namespace hearth
