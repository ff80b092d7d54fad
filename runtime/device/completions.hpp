// What becomes of work that an asynchronous device has ended, or will never end: failures get
// known, readers their bytes, lanes their turn, memory its blocks. Private to runtime. Owned by the
// device actor, touched by the token holder only. Invariant: each ticket is fulfilled once, also
// when the device is lost; host bytes that a lost device may still touch stay with its memory.
#pragma once

#include <memory>
#include <vector>

#include "completion_waiter.hpp"
#include "dispatch.hpp"
#include "in_flight.hpp"
#include "lane_queues.hpp"
#include "runtime/client/device_endpoint.hpp"

namespace hearth {

class Completions final {
 public:
  /// Lifetime: all of these outlive it. `waiter`: nullptr for an inline device.
  Completions(DeviceEndpoint& endpoint,
              HandleTable& handles,
              Dispatch& dispatch,
              LaneQueues& queues,
              InFlight& in_flight,
              const std::shared_ptr<DeviceMemory>& memory,
              CompletionWaiter* waiter) noexcept
      : endpoint_(endpoint),
        handles_(handles),
        dispatch_(dispatch),
        queues_(queues),
        in_flight_(in_flight),
        memory_(memory),
        waiter_(waiter) {}

  /// Takes care of all that has ended by now.
  void retire();
  /// Nothing that is in flight will end any more: whoever waits for it gets the error.
  void abandon(const ErrorRef& error);
  /// Before the actor sleeps: it is woken when the next work ends.
  void expect();
  /// A wait of the waiter's has ended.
  void note_answer() noexcept { expected_.clear(); }

 private:
  void finish(KernelEnd& end);
  void finish(UploadEnd& end) noexcept;
  void finish(ReadEnd& end);
  void finish(GroupEnd& end);
  /// Wakes lanes whose work has ended.
  void wake();

  DeviceEndpoint& endpoint_;
  HandleTable& handles_;
  Dispatch& dispatch_;
  LaneQueues& queues_;
  InFlight& in_flight_;
  const std::shared_ptr<DeviceMemory>& memory_;
  CompletionWaiter* const waiter_;
  std::vector<TimelinePoint> expected_;  // what the waiter waits for
};

}  // namespace hearth
