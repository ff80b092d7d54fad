// Stream: an ordered queue of ops on one device. Every thread has a default one per device; servers make explicit ones.
// Ops of one stream run in program order; between streams only data edges order them.
// Threads: move-only; used by one thread at a time. A StreamScope that finds its stream in use elsewhere throws stream_misuse.
#pragma once

#include <memory>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/priority.hpp>

namespace hearth {

class DeviceClient;
class StreamState;

struct StreamOptions {
  /// Streams of a device take turns; those of a higher priority come first, and none starves.
  Priority priority = Priority::normal;
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
  /// The stream's number on its device, as error texts name it.
  [[nodiscard]] std::uint64_t id() const noexcept;

 private:
  friend class StreamScope;
  std::unique_ptr<StreamState> state_;
};

/// Makes `stream` the calling thread's current stream on its device until the scope ends. Scopes nest.
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
