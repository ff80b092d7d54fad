// StopWatch: a stop request that cancels the ops of a stream. The client makes it; the lane holds
// it from its limit record to the next one. Private to runtime.
// Threads: made and destroyed by one at a time; the stop may come from any thread.
#pragma once

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/pending.hpp>

namespace hearth {

class DeviceEndpoint;

/// Watches the stop token of the ops behind one limit record. A stop request makes the actor
/// recheck the lane, which may be parked.
class StopWatch final {
 public:
  StopWatch(std::stop_token stop, IntrusivePtr<DeviceEndpoint> endpoint, LaneId lane);
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;
  ~StopWatch();

  [[nodiscard]] bool is_stopped() const noexcept { return stop_.stop_requested(); }

 private:
  struct Notify {
    IntrusivePtr<DeviceEndpoint> endpoint;
    LaneId lane;
    void operator()() const noexcept;
  };

  const std::stop_token stop_;
  const std::stop_callback<Notify> on_stop_;
};

}  // namespace hearth
