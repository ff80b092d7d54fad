// What a device has been given and has not ended yet, on each of its streams, and what is to be
// done when it has: tickets to fulfil, host bytes to let go, error cells to read. On an inline
// device it is always empty. Storages are not kept here: memory knows the last use of each block
// (memory_strategy.hpp). Private to runtime. Owned by the device actor, touched by the token holder
// only. Invariants: (1) what was kept for a point leaves once the point has ended, in the order of
// its stream; (2) of what ends together, ops leave before copies, so that a reader finds the error
// cells known that its bytes depend on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/memory/memory_strategy.hpp>
#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/trace.hpp>
#include <hearth/streams/op_record.hpp>

#include "late_failure.hpp"
#include "runtime/client/tickets.hpp"

namespace hearth {

/// Where a piece of work came from.
struct WorkOrigin {
  OpRecord record = {};
  LaneId lane;
};

/// A kernel that may have failed; of itself, or because one before it had that it depends on.
struct KernelEnd {
  std::shared_ptr<LateFailure> failure;
  WorkOrigin origin;
  LateFailures before = {};
};
/// The device has done with the host's bytes, which it takes, or gives for a loan.
struct UploadEnd {
  std::unique_ptr<UploadTicket> ticket;
};
/// A reader's bytes are there.
struct ReadEnd {
  std::unique_ptr<ReadTicket> ticket;
  LateFailures failures;
  WorkOrigin origin;
};
/// An update group has run, or has kept the old values where one of these kernels failed.
struct GroupEnd {
  std::unique_ptr<GroupTicket> ticket;
  LateFailures guards;
  WorkOrigin origin;
};

using WorkEnd = std::variant<KernelEnd, UploadEnd, ReadEnd, GroupEnd>;

class InFlight final {
 public:
  /// Ops in flight at which lanes wait until half of them have ended.
  static constexpr std::uint64_t kMostOps = 256;
  static constexpr std::size_t kStreams = 3;

  InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight() = default;

  // ---- what is given to the device ----
  /// An op up to this point.
  void add_op(TimelinePoint point, const OpRecord& record, LaneId lane);
  /// An event of a trace that began when its work was given to the device, and ends with it.
  /// `number`: its launch's (Launch::timed_as); 0: a copy.
  void trace(TimelinePoint point, const detail::TraceEvent& event, std::uint32_t number = 0);
  /// A launch's number, for the times of the device.
  [[nodiscard]] std::uint32_t next_timed() noexcept { return ++timed_; }
  /// To be taken out when the point has ended; the entry, valid until then.
  WorkEnd& add(TimelinePoint point, WorkEnd end);
  /// Somebody waits until all of these have ended, and wants to know then.
  void await(const LastUse& uses);

  [[nodiscard]] bool has_ended(TimelinePoint point) const noexcept {
    return point.value <= ended_[point.stream];
  }
  [[nodiscard]] bool have_ended(const LastUse& uses) const noexcept;
  /// A number that changes when a stream gets on that still has some of these to end.
  [[nodiscard]] std::uint64_t progress_to(const LastUse& uses) const noexcept;
  /// Word by word: asked for each op, and the comparison of arrays is a call of memcmp.
  [[nodiscard]] bool is_empty() const noexcept {
    static_assert(kStreams == 3);
    return issued_[0] == ended_[0] && issued_[1] == ended_[1] && issued_[2] == ended_[2];
  }
  [[nodiscard]] bool is_full() const noexcept { return has_most_ops() || cells.are_short(); }
  /// All that was issued up to now.
  [[nodiscard]] LastUse issued() const noexcept;
  /// What a lane waits for that finds it full: half of the ops, or, where cells are short, all: a
  /// cell is free when nothing is in flight any more that was issued before its kernel's end.
  [[nodiscard]] LastUse room() const noexcept;
  [[nodiscard]] std::uint64_t ended(std::size_t stream) const noexcept { return ended_[stream]; }

  // ---- what has ended ----
  /// Asks the device. True: something has ended since the last time.
  [[nodiscard]] bool look(Backend& backend);
  /// The events of what has ended, by the device's own clock, where it has one, and else as far as
  /// it can be seen from here: each begins when it was given to the device or the one before it
  /// ended. Those that were seen to have ended together share the time: copies by their bytes.
  void finish_traced(detail::Trace& trace, Backend& backend);
  /// The next that has ended and was not taken yet.
  [[nodiscard]] std::optional<WorkEnd> take_ended();
  /// Everything, for a device that is lost or given up; nothing is in flight any more.
  [[nodiscard]] std::vector<WorkEnd> take_all();
  /// A point of each stream on which somebody waits, else its newest; those that have not ended.
  [[nodiscard]] std::vector<TimelinePoint> next_points() const;
  /// A new generation: streams begin anew.
  void restart() noexcept;

  // ---- for reports ----
  /// The oldest op that has not ended, and since when it is the oldest, if that was noticed.
  struct Oldest {
    OpRecord record = {};
    LaneId lane;
    std::optional<detail::TimePoint> since = {};
  };
  /// `ended`: how far the device is with ops now, of which this may not know yet: nobody waits for
  /// each of them.
  [[nodiscard]] std::optional<Oldest> oldest(std::uint64_t ended) const;
  [[nodiscard]] std::uint64_t issued_ops() const noexcept { return issued_[kOpStream]; }

  CellNumbers cells;

 private:
  struct Entry {
    std::uint64_t value = 0;
    WorkEnd end;
  };
  struct Op {
    std::uint64_t value = 0;
    WorkOrigin origin;
  };

  struct Traced {
    std::uint64_t value = 0;
    detail::TraceEvent event;
    std::uint32_t number = 0;
  };

  void note_issued(TimelinePoint point);
  [[nodiscard]] bool has_most_ops() const noexcept { return issued_[0] - ended_[0] >= kMostOps; }

  std::array<std::uint64_t, kStreams> issued_{};
  std::array<std::uint64_t, kStreams> ended_{};
  std::array<std::deque<Entry>, kStreams> ends_;
  std::array<std::vector<std::uint64_t>, kStreams> awaited_;
  std::deque<Op> ops_;
  std::array<std::deque<Traced>, kStreams> traced_;
  void take_times(Backend& backend);
  void share_out(std::size_t stream, std::size_t count, detail::Trace& trace);

  std::uint32_t timed_ = 0;
  std::map<std::uint32_t, LaunchTime> times_;  ///< Of launches whose events wait, by number.
  std::array<detail::TimePoint, kStreams> traced_until_{};
  detail::TimePoint oldest_since_ = {};
};

}  // namespace hearth
