#include <hearth/runtime/stream.hpp>

#include <utility>

#include "stream_state.hpp"

namespace hearth {

Stream::Stream(const Device& device) : state_(std::make_unique<StreamState>(IntrusivePtr<DeviceEndpoint>(&device.endpoint()))) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

Device Stream::device() const { return Device(IntrusivePtr<DeviceEndpoint>(&state_->endpoint())); }
std::uint32_t Stream::id() const noexcept { return state_->id().value; }

StreamScope::StreamScope(Stream& stream) : state_(stream.state_.get()), previous_(nullptr) {
  if (state_ == nullptr) {
    throw_error(Error{.code = ErrorCode::invalid_argument, .text = "StreamScope: the stream was moved from"});
  }
  static_cast<void>(current_stream(state_->endpoint()));  // makes the thread's client
  state_->enter();
  auto* client = current_context().find<DeviceClient>(state_->endpoint().key());
  previous_ = std::exchange(client->current, state_);
}

StreamScope::~StreamScope() {
  current_context().find<DeviceClient>(state_->endpoint().key())->current = previous_;
  state_->leave();
}

}  // namespace hearth
