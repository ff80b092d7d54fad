// The loans of a device's bytes: their begin, their end, and the quarantine of those that ran out.
// Private to runtime. Owned by the device actor, touched by the token holder only. Invariants: (1)
// the lane of a loan is parked until the loan ends; (2) bytes that the borrower may still touch are
// nobody else's: they stay in quarantine until the borrower lets go.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device_memory.hpp"
#include "dispatch.hpp"
#include "lane_queues.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/device_message.hpp"
#include "wait_report.hpp"

namespace hearth {

struct LendTicket;

class Loans final {
 public:
  /// Lifetime: all of these outlive it; a region that is lent keeps `memory`, which is the actor's.
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
  /// Work of the borrower on the bytes.
  void run(RunOnLoan& run);
  /// The borrower gives the bytes back; the status poisons the lent tensor.
  void end(const EndLoan& end);
  /// The borrower keeps the bytes too long: the loan ends as at its deadline.
  void recall(const RecallLoan& recall);
  /// The lane's loan ends without its bytes, at its deadline or because the device is lost. The
  /// caller unparks the lane.
  void expire(LaneState& lane);
  /// A restart: the regions keep their bytes, and their ends find nothing here.
  void forget() noexcept { quarantine_.clear(); }

 private:
  /// The bytes to lend, empty with the `error` if there are none. False: the lane waits for memory.
  [[nodiscard]] bool find_bytes(const ResolvedOp& op,
                                LaneState& lane,
                                HeldStorage& storage,
                                ErrorRef& error);
  /// The taker looks at the bytes by itself, so what makes them has to have ended. False: the lane
  /// waits, and keeps the bytes meanwhile.
  [[nodiscard]] bool await_bytes(const ResolvedOp& op,
                                 LaneState& lane,
                                 HeldStorage& storage,
                                 ErrorRef& error);
  /// Where the host cannot touch the device's bytes a copy of them comes down. False: the lane
  /// waits for it, or goes on with it as `step` says, and keeps both.
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
  std::vector<Loan> quarantine_;  // bytes of loans that ran out, until the borrower lets go
};

}  // namespace hearth
