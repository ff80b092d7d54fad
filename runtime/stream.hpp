// Stream: an ordered queue of ops on one device. Every thread has a default one for each device;
// servers make explicit ones. Ops of one stream run in program order; only data dependencies order
// ops of different streams. A deadline, a stop (StreamLimits) or cancel() cancels its work.
// Threads: move-only; one thread at a time uses it, except for cancel(). A StreamScope whose stream
// is in use elsewhere throws stream_misuse.
#pragma once

#include <memory>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/priority.hpp>

namespace hearth {

class DeviceClient;
class StreamState;

/// Limits after which a stream's ops are cancelled. A cancelled op that has not begun does not run.
/// Its results carry `deadline_exceeded` or `cancelled` with the op and its line, and a read throws
/// that at once. An op that has begun completes.
struct StreamLimits {
  /// Point in time after which ops are cancelled: Deadline::in(…).
  Deadline deadline = Deadline::never();
  std::stop_token stop = {};  ///< Stop token whose request cancels the ops.
};

struct StreamOptions {
  /// Priority of the stream's turns on the device: higher ones come first, and none starves.
  Priority priority = Priority::normal;
  /// Initial deadline; set_limits() changes it.
  Deadline deadline = Deadline::never();
  std::stop_token stop = {};  ///< Initial stop token, as StreamLimits::stop.
};

class Stream {
 public:
  /// Opens a stream. Errors: DeviceError device_closed.
  explicit Stream(const Device& device, SourceLoc loc = SourceLoc::current());
  Stream(const Device& device, StreamOptions options, SourceLoc loc = SourceLoc::current());
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Ends the stream; submitted work still runs.
  ~Stream();

  [[nodiscard]] Device device() const;
  /// The stream's number on its device, as in error texts; 0 if it was moved from.
  [[nodiscard]] std::uint64_t id() const noexcept;

  /// Sets the limits of all later submissions; earlier submissions keep theirs. A server sets them
  /// for each request; {} removes them.
  ///
  /// Also limited: a read without a deadline of its own waits at most until `deadline`. A call that
  /// finds the stream full throws DeadlineExceeded then, or DeviceError `cancelled` at a stop. Not
  /// limited: ends of tensor lifetimes, so memory is released; and an update group that has begun,
  /// which runs as a whole. A group that has not begun leaves every parameter unchanged.
  /// Cost: a record with the next op; then a check of the clock or the stop for each op on the
  /// device.
  void set_limits(StreamLimits limits);
  /// Cancels all submitted work that has not begun, like a stop. Later submissions run. To cancel
  /// one request among several of a stream, use its stop token.
  /// Threads: any, as long as the stream lives.
  void cancel() noexcept;

 private:
  friend class StreamScope;
  std::unique_ptr<StreamState> state_;
};

/// Makes `stream` the calling thread's current stream on its device until the scope ends. Scopes
/// nest.
class StreamScope {
 public:
  /// Errors: ArgumentError stream_misuse if it is another thread's current stream.
  explicit StreamScope(Stream& stream, SourceLoc loc = SourceLoc::current());
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;
  ~StreamScope();

 private:
  StreamState* state_;
  DeviceClient* client_;
  StreamState* previous_;
};

}  // namespace hearth
