#include "stop_watch.hpp"

#include <utility>

#include "device_endpoint.hpp"
#include "device_message.hpp"

namespace hearth {

// Copies first: while the message is posted the actor may destroy the watch, and this object with
// it.
void StopWatch::Notify::operator()() const noexcept {
  const IntrusivePtr<DeviceEndpoint> receiver = endpoint;
  const LaneId lane_id = lane;
  receiver->post(CancelRecords{.lane = lane_id, .through = 0});
}

StopWatch::StopWatch(std::stop_token stop, IntrusivePtr<DeviceEndpoint> endpoint, LaneId lane)
    : stop_(std::move(stop)), on_stop_(stop_, Notify{std::move(endpoint), lane}) {}

StopWatch::~StopWatch() = default;

}  // namespace hearth
