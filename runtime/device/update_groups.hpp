// UpdateGroups keeps the records of each lane's update group until the group ends, then runs all or
// none of them. If kernels in flight may have failed, the device decides (Launch::guards): no lane
// waits for them. Private to runtime. Owned by the device actor, touched by the token holder only.
// Invariants: (1) a group that does not run leaves the named tensors unchanged; (2) drops inside a
// group run after it; (3) a prepared group holds all that it needs, and its lane waits for the
// decision.
#pragma once

#include <hearth/runtime/update_decision.hpp>

#include "drops.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/lanes/lane_queues.hpp"
#include "runtime/device/lanes/wait_report.hpp"
#include "runtime/device/lanes/work_wait.hpp"

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
  /// Handles group_end: runs or abandons the lane's group.
  [[nodiscard]] Step finish(LaneState& lane, const OpView& op);
  /// Abandons the lane's group: its new tensors keep the old values.
  void abandon(LaneState& lane, const ErrorRef& error);
  /// Wakes a lane that waits for the decision on its update.
  void settle(LaneId id);
  /// Abandons the open group of a lane that ends.
  void abandon_open(LaneState& lane);

 private:
  /// The first operand of the group that no record has created yet and that the group must wait
  /// for.
  [[nodiscard]] Slot* find_uncreated(const LaneState& lane);
  /// Kernels on which the group depends and whose outcome the host does not know: the device
  /// decides by them. Null if there are none.
  [[nodiscard]] LateFailures open_failures(const LaneState& lane);
  /// Waits until the host knows the outcome of these kernels: it decides groups that span several
  /// devices.
  [[nodiscard]] Waited wait_for_failures(LaneState& lane, const OpView& op);
  /// Reports a submitted group: its reader is notified when it has run.
  void report(const OpView& op, LaneState& lane, LateFailures guards);
  /// Allocates the memory of the lane's group; parks the lane while the decision is open. `status`:
  /// why the group must not run.
  [[nodiscard]] Step prepare(LaneState& lane, GroupTicket& ticket, Status& status);
  /// Allocates the group's memory, once.
  [[nodiscard]] Step get_memory(LaneState& lane, Status& status);
  /// Aborts an open decision if the device is lost or the deadline has passed.
  void abort_if_over(const LaneState& lane, UpdateDecision& decision) const;
  void announce(LaneState& lane, JointUpdate& joint);
  /// Runs the group, or abandons it with this status. `guards`: kernels that decide whether its
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
