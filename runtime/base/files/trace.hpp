// Trace: records what ran when, while it is on. Each thread keeps its own events, so that no thread
// waits for another to record one.
// Owned by the Watchdog of a Runtime, which every wait can reach. Threads: any.
// Invariants: (1) a trace that is off costs one load; (2) an event takes no lock but for one in
// kChunkEvents; (3) all threads together keep at most the requested number of events: later ones
// are counted, not kept.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/base/sync.hpp>

namespace hearth::detail {

/// Track of an event in the drawing: of its device, of its thread, or a counter of its device.
enum class TraceTrack : std::uint8_t {
  kernels,      ///< Device: kernels and groups of ops that run as one.
  uploads,      ///< Device: uploads from the host.
  readbacks,    ///< Device: downloads to the host.
  collectives,  ///< Device: bytes on loan to others, and the results combined there.
  waits,        ///< Thread: waits for a device, or runs the device's loop meanwhile.
  parts,        ///< Thread: a part of the program that it named.
  memory,       ///< Counter: bytes of live tensors, and bytes reserved.
  queue,        ///< Counter: ops that wait in streams, and ops in flight.
};

/// An interval, or the state of a counter at `begin`. Plain data.
struct TraceEvent {
  std::string_view name;  ///< Lives as long as the trace: see Trace::keep().
  /// "cpu:0"; empty for an event of a thread. Lives as long as the trace.
  std::string_view device;
  TimePoint begin = {};
  TimePoint end = {};
  SourceLoc location = {};  ///< The user's call; line 0 = unknown.
  LaneId lane = {};         ///< The stream; 0 = none.
  std::int64_t value = 0;   ///< Bytes moved, or a counter's first value.
  std::int64_t other = 0;   ///< A counter's second value.
  PathId path = {};         ///< Path of the module's tensor that took part; 0 = none.
  ShapeId shape = {};       ///< Shape of the result if `has_shape`.
  std::uint32_t op_count = 0;
  DType dtype = DType::f32;
  TraceTrack track = TraceTrack::kernels;
  bool has_shape = false;
  /// Time is divided evenly among several events that could not be timed separately.
  bool is_shared_out = false;
  bool has_device_time = false;  ///< Measured by the device's own clock.
  /// May have run concurrently with its neighbours: the time is what it added.
  bool is_side_by_side = false;
  /// Device without a clock: from submission until a host thread saw the work ended.
  bool is_as_seen = false;
};

/// Events of a trace, by thread, each in the order of its events' ends.
struct TraceLog {
  struct Thread {
    std::uint64_t id = 0;
    std::string name;
    std::vector<TraceEvent> events;
  };
  TimePoint begin;
  std::vector<Thread> threads;
  std::uint64_t dropped_count = 0;

  [[nodiscard]] std::size_t event_count() const noexcept;
};

class Trace final {
 public:
  static constexpr std::size_t kChunkEvents = 1024;
  static constexpr std::size_t kDefaultMostEvents = std::size_t{1} << 20U;

  Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();

  /// Returns whether events are kept; check it before reading a clock.
  [[nodiscard]] bool is_on() const noexcept {
    return session_.load(std::memory_order_acquire) != 0;  // partner: start, stop
  }
  /// Returns whether a trace or a memory trace needs the layers of ops.
  [[nodiscard]] bool wants_layers() const noexcept {
    return readers_.load(std::memory_order_acquire) != 0;  // partner: add_reader
  }
  void add_reader() noexcept { readers_.fetch_add(1, std::memory_order_acq_rel); }
  void remove_reader() noexcept { readers_.fetch_sub(1, std::memory_order_acq_rel); }

  /// Starts keeping events; `most_events` counts whole chunks of kChunkEvents.
  ///
  /// Errors: invalid_argument if the trace is already on.
  [[nodiscard]] Status start(std::size_t most_events = kDefaultMostEvents) HEARTH_EXCLUDES(mutex_);
  /// Stops the trace and returns the kept events. An event that another thread is recording may be
  /// missing.
  ///
  /// Errors: invalid_argument if the trace is not on.
  [[nodiscard]] Result<TraceLog> stop() HEARTH_EXCLUDES(mutex_);

  /// Keeps an event of the calling thread, or counts it if no room is left. Does nothing while the
  /// trace is off.
  ///
  /// Cost: 10 ns.
  void add(const TraceEvent& event) noexcept;
  /// Returns an equal text that lives as long as the trace.
  [[nodiscard]] std::string_view keep(std::string_view text) HEARTH_EXCLUDES(mutex_);

 private:
  struct Session;
  struct Buffer;
  struct Attachment;
  [[nodiscard]] Attachment* attach(std::uint64_t session) noexcept HEARTH_EXCLUDES(mutex_);

  const std::uint64_t key_;                // of the threads' attachments
  std::atomic<std::uint64_t> session_{0};  // number of the session, unique in the process; 0: off
  std::atomic<std::uint32_t> readers_{0};
  Mutex mutex_;
  std::shared_ptr<Session> open_ HEARTH_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> texts_ HEARTH_GUARDED_BY(mutex_);
};

/// An event of the calling thread from here to the end of the scope, if the trace is on here.
/// Fields known later are written into `event` meanwhile.
class TraceSpan final {
 public:
  /// `trace`: null for no trace.
  explicit TraceSpan(Trace* trace, TraceEvent what = {}) noexcept;
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan();

  [[nodiscard]] bool is_on() const noexcept { return trace_ != nullptr; }

 private:
  Trace* trace_;  // nullptr: off when the scope began

 public:
  TraceEvent event;
};

}  // namespace hearth::detail
