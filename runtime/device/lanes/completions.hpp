// Completions processes work that an asynchronous device has ended, or never will end. It reads
// error cells, fulfils readers, wakes lanes and retires memory blocks. Private to runtime. Owned by
// the device actor, touched by the token holder only.
// Invariants: (1) each ticket is fulfilled once, also when the device is lost; (2) host bytes that
// a lost device may still access stay with its memory.
#pragma once

#include <memory>
#include <vector>

#include "lane_queues.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/device/dispatch/completion_waiter.hpp"
#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/dispatch/in_flight.hpp"

namespace hearth {

class Completions final {
 public:
  /// Lifetime: all arguments outlive this object. `waiter`: nullptr for an inline device.
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

  /// Processes all work that has ended by now. Returns whether there was any.
  bool retire();
  /// Fails all work in flight with `error`: it will not end. Readers and lanes receive the error.
  void abandon(const ErrorRef& error);
  /// Called before the actor sleeps; the waiter wakes it when the next work ends.
  void expect();
  /// Records that a wait of the waiter has ended.
  void record_wait_end() noexcept { expected_.clear(); }

 private:
  void finish(KernelEnd& end);
  void finish(UploadEnd& end) noexcept;
  void finish(ReadEnd& end);
  void finish(GroupEnd& end);
  /// Wakes the lanes whose work has ended.
  void wake();

  DeviceEndpoint& endpoint_;
  HandleTable& handles_;
  Dispatch& dispatch_;
  LaneQueues& queues_;
  InFlight& in_flight_;
  const std::shared_ptr<DeviceMemory>& memory_;
  CompletionWaiter* const waiter_;
  std::vector<TimelinePoint> expected_;  // points that the waiter waits for
};

}  // namespace hearth
