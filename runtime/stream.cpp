#include <hearth/runtime/stream.hpp>

#include <utility>

#include "stream_state.hpp"

namespace hearth {

Stream::Stream(const Device& device) {
  DeviceEndpoint& endpoint = device.endpoint();
  if (endpoint.is_closed()) {
    throw_error(endpoint.closed_error());
  }
  state_ = std::make_unique<StreamState>(IntrusivePtr<DeviceEndpoint>(&endpoint));
}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

Device Stream::device() const {
  return Device(IntrusivePtr<DeviceEndpoint>(&state_->endpoint()));
}
std::uint32_t Stream::id() const noexcept {
  return state_->id().value;
}

StreamScope::StreamScope(Stream& stream)
    : state_(stream.state_.get()), client_(nullptr), previous_(nullptr) {
  if (state_ == nullptr) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "StreamScope: the stream was moved from"});
  }
  client_ = &current_client(state_->endpoint());
  state_->enter();
  previous_ = std::exchange(client_->current, state_);
}

StreamScope::~StreamScope() {
  client_->current = previous_;
  state_->leave();
}

}  // namespace hearth
