// Stream: an ordered queue of ops on one device. Every thread has a default one per device; servers
// make explicit ones. Ops of one stream run in program order; between streams only data edges order
// them. Its work can be given up: by a deadline or a stop (StreamLimits), or by cancel(). Threads:
// move-only; used by one thread at a time, but for cancel(). A StreamScope that finds its stream in
// use elsewhere throws stream_misuse.
#pragma once

#include <memory>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/priority.hpp>

namespace hearth {

class DeviceClient;
class StreamState;

/// When a stream's ops are given up. An op that has not begun then does not run: what it should
/// have made carries `deadline_exceeded` or `cancelled` with the op and its line, and a read of it
/// throws that at once. What has begun ends.
struct StreamLimits {
  Deadline deadline = Deadline::never();  ///< A point in time: Deadline::in(…).
  std::stop_token stop = {};              ///< Given up at its request.
};

struct StreamOptions {
  /// Streams of a device take turns; those of a higher priority come first, and none starves.
  Priority priority = Priority::normal;
  /// The first limits; set_limits() sets others.
  Deadline deadline = Deadline::never();
  std::stop_token stop = {};  ///< As StreamLimits::stop.
};

class Stream {
 public:
  /// Errors: DeviceError device_closed.
  explicit Stream(const Device& device, SourceLoc loc = SourceLoc::current());
  Stream(const Device& device, StreamOptions options, SourceLoc loc = SourceLoc::current());
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Ends the stream; what it submitted still runs.
  ~Stream();

  [[nodiscard]] Device device() const;
  /// The stream's number on its device, as error texts name it; 0 when it was moved from.
  [[nodiscard]] std::uint64_t id() const noexcept;

  /// Of all that is submitted from here on, in place of those before, which stay those of what was
  /// submitted under them. A server sets them anew for each request; {} takes them away.
  ///
  /// Also limited: a read without a deadline of its own waits until `deadline` at most, and a call
  /// that finds the stream full throws DeadlineExceeded then, or DeviceError `cancelled` at a stop,
  /// instead of waiting for room. Not limited: lifetimes, so that memory is given back; and an
  /// update group that has begun, which runs as a whole. One that has not begun leaves every
  /// parameter as it was. Cost: a record with the next op; then a look at the clock, or at the
  /// stop, for each op on the device.
  void set_limits(StreamLimits limits);
  /// Gives up all that was submitted so far and has not begun, as a stop does. The stream goes on:
  /// what is submitted from here on runs. Threads: any, as long as the stream lives. For one
  /// request among several of a stream, use its stop.
  void cancel() noexcept;

 private:
  friend class StreamScope;
  std::unique_ptr<StreamState> state_;
};

/// Makes `stream` the calling thread's current stream on its device until the scope ends. Scopes
/// nest.
class StreamScope {
 public:
  /// Errors: ArgumentError stream_misuse when another thread has it as its current stream.
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
