// Loans of a device's bytes: their begin, their end, and the quarantine of expired ones. Private to
// runtime. Owned by the device actor, touched by the token holder only.
// Invariants: (1) the lane of a loan is parked until the loan ends; (2) bytes that the borrower may
// still access have no other user: they stay in quarantine until the borrower releases them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/device_message.hpp"
#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/lanes/lane_queues.hpp"
#include "runtime/device/lanes/wait_report.hpp"
#include "runtime/device/memory/device_memory.hpp"

namespace hearth {

struct LendTicket;

class Loans final {
 public:
  /// Lifetime: all arguments outlive this object. A lent region holds `memory`, the actor's.
  Loans(DeviceEndpoint& endpoint,
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
        memory_(memory) {}

  /// Begins a loan; its lane waits for the end.
  [[nodiscard]] Step lend(LaneState& lane, const ResolvedOp& resolved);
  /// Runs the borrower's work on the bytes.
  void run(RunOnLoan& run);
  /// Ends a loan that the borrower returns. A failed status poisons the lent tensor.
  void end(const EndLoan& end);
  /// Ends a loan whose borrower keeps the bytes too long, as at its deadline.
  void recall(const RecallLoan& recall);
  /// Ends the lane's loan without its bytes, at its deadline or because the device is lost. The
  /// caller unparks the lane.
  void expire(LaneState& lane);
  /// Forgets the quarantine at a restart: the regions keep their bytes, and their ends are ignored.
  void forget() noexcept { quarantine_.clear(); }

 private:
  /// Finds the bytes to lend; if there are none, `storage` is empty and `error` set. Returns false
  /// if the lane waits for memory.
  [[nodiscard]] bool find_bytes(const ResolvedOp& op,
                                LaneState& lane,
                                HeldStorage& storage,
                                ErrorRef& error);
  /// Waits until the producer of the bytes has ended, because the borrower accesses them directly.
  /// Returns false if the lane waits; it keeps the bytes meanwhile.
  [[nodiscard]] bool await_bytes(const ResolvedOp& op,
                                 LaneState& lane,
                                 HeldStorage& storage,
                                 ErrorRef& error);
  /// Copies the bytes to the host if the host cannot access the device's. Returns false if the lane
  /// waits or continues the copy as `step` states; it keeps both meanwhile.
  [[nodiscard]] bool await_copy(
      const ResolvedOp& op, LaneState& lane, HeldStorage& storage, ErrorRef& error, Step& step);
  void hand_over(LaneState& lane, LendTicket& ticket);
  /// The lane, if it waits for this loan.
  [[nodiscard]] LaneState* find_borrowed(LaneId id, std::uint64_t loan) const noexcept;
  void expire(LaneState& lane, const ErrorRef& error);
  [[nodiscard]] Status outcome_of(const LaneState& lane, const Status& status) const;
  void unpark(LaneState& lane);

  DeviceEndpoint& endpoint_;
  HandleTable& handles_;
  Dispatch& dispatch_;
  LaneQueues& queues_;
  InFlight& in_flight_;
  const WaitReport& report_;
  const std::shared_ptr<DeviceMemory>& memory_;
  std::uint64_t next_number_ = 1;
  std::vector<Loan> quarantine_;  // expired loans, until the borrower releases the bytes
};

}  // namespace hearth
