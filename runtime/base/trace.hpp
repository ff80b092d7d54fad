// Trace: what ran when, while somebody wants to know it. Each thread keeps its own events, so that
// nobody waits for another to write one down.
// Owned by the Watchdog of a Runtime, which every wait has at hand. Threads: any.
// Invariants: (1) while the trace is off, the possibility costs one load; (2) an event takes no
// lock but for one in kChunkEvents; (3) all threads together keep no more than the most that was
// asked for: what comes later is counted, not kept.
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

/// Where an event is drawn: a track of its device, one of its thread, or a counter of its device.
enum class TraceTrack : std::uint8_t {
  kernels,      ///< Of a device: kernels and groups of ops that run as one.
  uploads,      ///< Of a device: bytes of the host that come in.
  readbacks,    ///< Of a device: bytes that the host reads.
  collectives,  ///< Of a device: bytes on loan to others, and what they have combined there.
  waits,        ///< Of a thread: it waits for a device, or runs the device's loop meanwhile.
  parts,        ///< Of a thread: a part of the program that it named.
  memory,       ///< A counter: bytes of live tensors, and bytes reserved.
  queue,        ///< A counter: ops that wait in streams, and ops in flight.
};

/// Something that took time, or the state of a counter at `begin`. Plain data.
struct TraceEvent {
  std::string_view name;    ///< Lives as long as the trace: see Trace::keep().
  std::string_view device;  ///< "cpu:0"; empty for what belongs to a thread. Lives as long.
  TimePoint begin = {};
  TimePoint end = {};
  SourceLoc location = {};  ///< The user's call; line 0 = unknown.
  LaneId lane = {};         ///< The stream; 0 = none.
  std::int64_t value = 0;   ///< Bytes moved; of a counter, its first figure …
  std::int64_t other = 0;   ///< … and its second one.
  PathId path = {};         ///< Of the module's tensor that took part; 0 = none.
  ShapeId shape = {};       ///< Of the result, where `has_shape`.
  std::uint32_t op_count = 0;
  DType dtype = DType::f32;
  TraceTrack track = TraceTrack::kernels;
  bool has_shape = false;
  /// Of several that nothing told apart: their time is shared out.
  bool is_shared_out = false;
  bool has_device_time = false;  ///< By the device's own clock.
  /// Nothing kept the device from running it beside its neighbours: the time is what it added.
  bool is_side_by_side = false;
  /// Of a device without a clock: from when it got the work to when somebody saw it ended.
  bool is_as_seen = false;
};

/// What a trace has kept, thread by thread, each in the order of its events' ends.
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

  /// Whether events are kept; ask before reading a clock.
  [[nodiscard]] bool is_on() const noexcept {
    return session_.load(std::memory_order_acquire) != 0;  // partner: start, stop
  }
  /// Whether somebody would read which layer an op belongs to: a trace, or a memory trace.
  [[nodiscard]] bool wants_layers() const noexcept {
    return readers_.load(std::memory_order_acquire) != 0;  // partner: add_reader
  }
  void add_reader() noexcept { readers_.fetch_add(1, std::memory_order_acq_rel); }
  void remove_reader() noexcept { readers_.fetch_sub(1, std::memory_order_acq_rel); }

  /// Keeps events from now on; `most_events` counts whole chunks of kChunkEvents.
  /// Errors: invalid_argument when it is on already.
  [[nodiscard]] Status start(std::size_t most_events = kDefaultMostEvents) HEARTH_EXCLUDES(mutex_);
  /// Ends, and gives what was kept. An event that another thread is at may be missing.
  /// Errors: invalid_argument when it is not on.
  [[nodiscard]] Result<TraceLog> stop() HEARTH_EXCLUDES(mutex_);

  /// Keeps an event of the calling thread, or counts it where there is no more room. Nothing
  /// happens while the trace is off. Cost: 10 ns.
  void add(const TraceEvent& event) noexcept;
  /// A text that lives as long as the trace, equal to this one.
  [[nodiscard]] std::string_view keep(std::string_view text) HEARTH_EXCLUDES(mutex_);

 private:
  struct Session;
  struct Buffer;
  struct Attachment;
  [[nodiscard]] Attachment* attach(std::uint64_t session) noexcept HEARTH_EXCLUDES(mutex_);

  const std::uint64_t key_;                // of the threads' attachments
  std::atomic<std::uint64_t> session_{0};  // its number, unique in the process; 0: off
  std::atomic<std::uint32_t> readers_{0};
  Mutex mutex_;
  std::shared_ptr<Session> open_ HEARTH_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> texts_ HEARTH_GUARDED_BY(mutex_);
};

/// An event of the calling thread from here to the end of the scope, if the trace is on here. What
/// is known later is written into `event` meanwhile.
class TraceSpan final {
 public:
  /// Null: no trace.
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
