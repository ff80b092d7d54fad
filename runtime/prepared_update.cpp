#include <hearth/runtime/prepared_update.hpp>

#include <utility>

#include "runtime/client/device_endpoint.hpp"

namespace hearth {

PreparedUpdate::PreparedUpdate() noexcept = default;

PreparedUpdate::PreparedUpdate(IntrusivePtr<DeviceEndpoint> endpoint,
                               LaneId lane,
                               std::shared_ptr<UpdateDecision> decision) noexcept
    : endpoint_(std::move(endpoint)), lane_(lane), decision_(std::move(decision)) {}

PreparedUpdate::PreparedUpdate(PreparedUpdate&& other) noexcept
    : endpoint_(std::exchange(other.endpoint_, nullptr)),
      lane_(other.lane_),
      decision_(std::move(other.decision_)) {}

PreparedUpdate& PreparedUpdate::operator=(PreparedUpdate&& other) noexcept {
  PreparedUpdate taken(std::move(other));
  std::swap(endpoint_, taken.endpoint_);
  std::swap(lane_, taken.lane_);
  std::swap(decision_, taken.decision_);
  return *this;
}

PreparedUpdate::~PreparedUpdate() {
  settle();
}

void PreparedUpdate::settle() {
  const IntrusivePtr<DeviceEndpoint> endpoint = std::exchange(endpoint_, nullptr);
  if (!endpoint) {
    return;
  }
  if (decision_->is_open()) {
    decision_->abort(std::make_shared<const Error>(
        Error{.code = ErrorCode::cancelled,
              .text = "a prepared update was dropped without a decision",
              .device = endpoint->name()}));
  }
  endpoint->post(SettleUpdate{.lane = lane_});
}

}  // namespace hearth
