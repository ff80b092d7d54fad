#include <hearth/runtime/stream.hpp>

#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/fiber_mark.hpp>

#include "runtime/client/stream_state.hpp"

namespace hearth {
namespace {

void require_there(const StreamState* state, std::string_view op, SourceLoc loc = {}) {
  if (state == nullptr) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: the stream was moved from", op),
                      .op = std::string(op),
                      .location = loc});
  }
}

}  // namespace

Stream::Stream(const Device& device, SourceLoc loc) {
  DeviceEndpoint& endpoint = device.endpoint();
  if (endpoint.is_closed()) {
    throw_error(endpoint.closed_error(loc));
  }
  try {
    state_ = std::make_unique<StreamState>(IntrusivePtr<DeviceEndpoint>(&endpoint));
  } catch (const std::bad_alloc&) {  // its lane is 96 KiB: programs with many streams run out here
    throw_error(Error{.code = ErrorCode::out_of_memory,
                      .text = fmt::format("Stream: the program has no memory for a stream of {}",
                                          endpoint.name()),
                      .op = "Stream",
                      .device = endpoint.name(),
                      .location = loc});
  }
}

Stream::Stream(const Device& device, StreamOptions options, SourceLoc loc) : Stream(device, loc) {
  if (options.priority > Priority::background) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("Stream: {} is no Priority", static_cast<int>(options.priority)),
              .location = loc});
  }
  state_->set_limits({.deadline = options.deadline, .stop = std::move(options.stop)});
  if (options.priority != Priority::normal) {
    // Before the first record: the actor takes its inbox before it looks at a lane that rang later.
    state_->endpoint().post(SetPriority{.lane = state_->id(), .priority = options.priority});
  }
}

Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

Device Stream::device() const {
  require_there(state_.get(), "Stream::device");
  return Device(IntrusivePtr<DeviceEndpoint>(&state_->endpoint()));
}
std::uint64_t Stream::id() const noexcept {
  return state_ == nullptr ? 0 : state_->id().value;
}

void Stream::set_limits(StreamLimits limits) {
  require_there(state_.get(), "Stream::set_limits");
  state_->set_limits(std::move(limits));
}
void Stream::cancel() noexcept {
  if (state_ != nullptr) {
    state_->cancel();
  }
}

StreamScope::StreamScope(Stream& stream, SourceLoc loc)
    : state_(stream.state_.get()), client_(nullptr), previous_(nullptr) {
  require_there(state_, "StreamScope", loc);
  client_ = &current_client(state_->endpoint(), loc);
  state_->enter(loc);
  detail::enter_thread_scope("StreamScope");
  previous_ = std::exchange(client_->current, state_);
}

StreamScope::~StreamScope() {
  client_->current = previous_;
  state_->leave();
  detail::leave_thread_scope();
}

}  // namespace hearth
