// InFlight: unended work of a device on each of its streams, and the actions due at its end. Such
// actions fulfil tickets, release host bytes and read error cells. Empty on an inline device.
// Storages are not kept here: the memory knows the last use of each block (memory_strategy.hpp).
// Private to runtime. Owned by the device actor, touched by the token holder only.
// Invariants: (1) an entry leaves once its point has ended, in the order of its stream; (2) of
// entries that end together, ops leave before copies, so that a reader finds the error cells read
// on which its bytes depend.
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

#include "runtime/client/tickets.hpp"
#include "runtime/device/memory/late_failure.hpp"

namespace hearth {

/// Origin of a piece of work.
struct WorkOrigin {
  OpRecord record = {};
  LaneId lane;
};

/// A kernel that may fail, by itself or because of an earlier kernel on which it depends.
struct KernelEnd {
  std::shared_ptr<LateFailure> failure;
  WorkOrigin origin;
  LateFailures before = {};
};
/// End of a copy from host bytes: an upload, or the return of a loan's copy.
struct UploadEnd {
  std::unique_ptr<UploadTicket> ticket;
};
/// A reader's bytes have arrived.
struct ReadEnd {
  std::unique_ptr<ReadTicket> ticket;
  LateFailures failures;
  WorkOrigin origin;
};
/// An update group has run, or has kept the old values because one of these kernels failed.
struct GroupEnd {
  std::unique_ptr<GroupTicket> ticket;
  LateFailures guards;
  WorkOrigin origin;
};

using WorkEnd = std::variant<KernelEnd, UploadEnd, ReadEnd, GroupEnd>;

class InFlight final {
 public:
  /// Limit of ops in flight. At the limit lanes wait until half of them have ended.
  static constexpr std::uint64_t kMostOps = 256;
  static constexpr std::size_t kStreams = 3;

  InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight() = default;

  // ---- submitted work ----
  /// Adds an op that ends at this point.
  void add_op(TimelinePoint point, const OpRecord& record, LaneId lane);
  /// Adds an event of a trace that lasts from the submit of its work to its end. `number`: its
  /// launch's (Launch::timed_as); 0 for a copy.
  void trace(TimelinePoint point, const detail::TraceEvent& event, std::uint32_t number = 0);
  /// Returns a new launch number, for times measured by the device.
  [[nodiscard]] std::uint32_t next_timed() noexcept { return ++timed_; }
  /// Adds an entry that leaves when the point has ended. Returns the entry, valid until then.
  WorkEnd& add(TimelinePoint point, WorkEnd end);
  /// Requests a notification when all of these have ended.
  void await(const LastUse& uses);

  [[nodiscard]] bool has_ended(TimelinePoint point) const noexcept {
    return point.value <= ended_[point.stream];
  }
  [[nodiscard]] bool have_ended(const LastUse& uses) const noexcept;
  /// Returns a number that changes when a stream with open work among these advances.
  [[nodiscard]] std::uint64_t progress_to(const LastUse& uses) const noexcept;
  /// Compares word by word: the call is made for each op, and comparing arrays is a call of memcmp.
  [[nodiscard]] bool is_empty() const noexcept {
    static_assert(kStreams == 3);
    return issued_[0] == ended_[0] && issued_[1] == ended_[1] && issued_[2] == ended_[2];
  }
  /// Whether a lane, a reader or the caller of an update group waits for work.
  [[nodiscard]] bool is_awaited() const noexcept;
  [[nodiscard]] bool is_full() const noexcept { return has_most_ops() || cells.are_short(); }
  /// All work issued so far.
  [[nodiscard]] LastUse issued() const noexcept;
  /// Work for which a lane waits that finds the device full: half of the ops, or all of them if
  /// cells are short. A cell is free once all work issued before its kernel's end has ended.
  [[nodiscard]] LastUse room() const noexcept;
  [[nodiscard]] std::uint64_t ended(std::size_t stream) const noexcept { return ended_[stream]; }

  // ---- ended work ----
  /// Queries the device's progress. Returns true if work has ended since the last call.
  [[nodiscard]] bool poll(Backend& backend);
  /// Completes the trace events of ended work. Times come from the device's clock if it has one.
  /// Otherwise an event begins when it was submitted or when the previous one ended. Events whose
  /// end was observed together share the time; copies share it by bytes.
  void finish_traced(detail::Trace& trace, Backend& backend);
  /// Removes and returns the next entry that has ended.
  [[nodiscard]] std::optional<WorkEnd> take_ended();
  /// Removes and returns all entries of a lost or abandoned device; nothing is in flight
  /// afterwards.
  [[nodiscard]] std::vector<WorkEnd> take_all();
  /// One unended point for each stream: one that is awaited, else the newest.
  [[nodiscard]] std::vector<TimelinePoint> next_points() const;
  /// Begins a new generation: streams start anew.
  void restart() noexcept;

  // ---- for reports ----
  /// The oldest op in flight, and the time since when it is the oldest, if known.
  struct Oldest {
    OpRecord record = {};
    LaneId lane;
    std::optional<detail::TimePoint> since = {};
  };
  /// Returns the oldest op in flight. `ended`: current progress of the device, which may be newer
  /// than the last poll().
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

  void record_issued(TimelinePoint point);
  [[nodiscard]] bool has_most_ops() const noexcept { return issued_[0] - ended_[0] >= kMostOps; }

  std::array<std::uint64_t, kStreams> issued_{};
  std::array<std::uint64_t, kStreams> ended_{};
  std::array<std::deque<Entry>, kStreams> ends_;
  std::array<std::vector<std::uint64_t>, kStreams> awaited_;
  std::deque<Op> ops_;
  std::array<std::deque<Traced>, kStreams> traced_;
  void take_times(BatchTimes* of);
  void share_out(std::size_t stream, std::size_t count, detail::Trace& trace);

  std::uint32_t timed_ = 0;
  /// Times of launches whose events are not complete, by number.
  std::map<std::uint32_t, LaunchTime> times_;
  std::array<detail::TimePoint, kStreams> traced_until_{};
  detail::TimePoint oldest_since_ = {};
};

}  // namespace hearth
