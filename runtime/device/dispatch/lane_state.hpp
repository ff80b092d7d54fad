// LaneState: the actor's side of a lane: whether it may run, what it waits for, and what waits for
// it. Private to runtime. Touched by the token holder only.
// Invariant: a parked lane has a deadline and exactly one waker. Wakers are a slot, other lanes'
// progress, a loan, a transfer, a decision, released memory, and the end of work on the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/progress_limit.hpp>
#include <hearth/runtime/priority.hpp>
#include <hearth/streams/fusion_window.hpp>
#include <hearth/streams/lane.hpp>

#include "lane_limit.hpp"
#include "record_blob.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/device/memory/handle_table.hpp"

namespace hearth {

/// A drop that waits until the named uses by other lanes are done.
struct DeferredDrop {
  struct Use {
    LaneId lane;
    std::uint64_t sequence;
  };
  SlotId slot;
  std::vector<Use> uses;
};

/// A record of an update group, moved out of the lane.
struct GroupRecord {
  OpRecord record;
  RecordBlob blob;
};

/// Bytes on loan, and the tensor that receives them when the loan ends.
struct Loan {
  std::uint64_t number = 0;
  Operand out;
  Storage* storage = nullptr;
  OpRecord record = {};  ///< The lend, for errors.
  /// Failure of work on the bytes; poisons the tensor even if the borrower reports success.
  ErrorRef error = {};
  /// Lent host copy if the host cannot access the device's bytes; else empty.
  HostBytes copy = {};
  detail::TimePoint begin = {};  ///< For a trace.
};

/// Deleter of a use of a storage: returns it unless a slot or a loan takes it over.
struct ReleaseStorage {
  HandleTable* handles = nullptr;
  void operator()(Storage* storage) const noexcept { handles->unuse(storage); }
};
using HeldStorage = std::unique_ptr<Storage, ReleaseStorage>;

/// Memory and views that an update group needs to run.
struct GroupMemory {
  std::vector<HeldStorage> outputs = {};  ///< Results, record by record.
  /// Operands, record by record, inputs before outputs.
  std::vector<TensorView> views = {};
  /// Scratch for the kernel that needs most; empty if no kernel needs any.
  HeldStorage scratch = {};
  /// Records, in order, that overwrite bytes which an earlier record of the group reads. No batch
  /// contains both.
  std::vector<std::size_t> overwriters = {};
};

/// A copy between host and device that the device takes in parts. Its record stays at the lane's
/// front until the last part.
struct PartialCopy {
  HeldStorage storage = {};
  std::byte* data = nullptr;   ///< The device's bytes, in that storage.
  TimelinePoint after = {};    ///< Point that each part waits for.
  std::size_t done_bytes = 0;  ///< Number of submitted bytes.
  TimelinePoint point = {};    ///< Point at which those have been copied.
  /// Point after which the device has room for the next part.
  std::optional<TimelinePoint> room = {};
  std::span<std::byte> target = {};  ///< The reader's host bytes.
  detail::TimePoint begin = {};      ///< For a trace.
};

/// A failure of one of the lane's ops.
struct UnreadFailure {
  std::shared_ptr<detail::Failure> failure;
  /// Keeps the failure alive until the device has been idle for a moment. Otherwise the log would
  /// report a failure that the next sync() throws.
  ErrorRef carrier;
};

/// Reason for which a lane is parked. `device`: the lane waits for the end of submitted work.
enum class ParkReason : std::uint8_t {
  none,
  slot,
  lanes,
  loan,
  transfer,
  decision,
  memory,
  device
};

/// Last use of a tensor by a record that ran before its turn, while earlier records still read the
/// tensor.
struct LateEnd {
  std::uint64_t sequence = 0;
  Operand operand;
};

/// Rule for work that finds no memory: `report` fails with a report; `wait` is deferred, unless the
/// request can never fit; `abort` ends the attempt.
enum class OnShortage : std::uint8_t { report, wait, abort };

struct LaneState {
  static constexpr std::uint64_t kUnwatched = std::numeric_limits<std::uint64_t>::max();

  explicit LaneState(Lane& of) : lane(&of), id(of.id()) {}

  Lane* lane;
  LaneId id;
  Priority priority = Priority::normal;
  bool is_ready = false;                  ///< in the ready queue, or held by the row join
  bool is_expected = false;               ///< while ready: the row join expects it
  std::uint8_t turns_without_join = 255;  ///< since it came to a joinable op
  ParkReason parked = ParkReason::none;
  bool has_expired = false;  ///< its deadline passed: the record fails instead of waiting again
  FusionWindow window;       ///< inspected records at its front
  WindowEnd window_end = WindowEnd::sync;  ///< why the last window ended
  std::vector<LateEnd> late_ends;          ///< of records that ran before their turn
  bool lingers = false;                    ///< outside the actor's queues, with its window open
  Deadline linger_until = Deadline::never();
  LaneLimit limits;  ///< when its records are cancelled
  Deadline deadline = Deadline::never();
  std::optional<ProgressLimit> limit;        ///< while parked for wait_limit: end of that limit
  DeviceEndpoint* awaited_device = nullptr;  ///< while parked for bytes: the device that sends them
  std::vector<DeferredDrop> deferred;        ///< consumed drops whose slots other lanes still use
  std::vector<LaneId> watchers;              ///< lanes to notify when this one has advanced
  std::uint64_t watched = kUnwatched;        ///< first record that one of them waits for
  Slot* awaited_slot = nullptr;              ///< while parked for a slot
  std::uint64_t precompiled_until = 0;       ///< first record whose kernel was not requested ahead
  bool in_group = false;
  std::uint64_t group_start = 0;  ///< sequence of the open group's first record
  ErrorRef group_refusal;         ///< why the open group was cancelled before it ran
  std::vector<GroupRecord> group;
  std::vector<GroupRecord> group_drops;  ///< drops inside the group; they run after it
  std::optional<GroupMemory> prepared;   ///< while the group waits for its decision
  std::optional<LastUse> awaited_work;   ///< while the record at its front waits for the device
  HeldStorage lending = {};              ///< bytes to lend once the device's work on them has ended
  HostBytes lending_copy = {};           ///< on its way from the device
  std::optional<PartialCopy> copy;       ///< of the record at its front
  Loan loan;                             ///< the loan that it waits for
  static constexpr std::size_t kMostFailures = 8;
  std::vector<UnreadFailure> failures;  ///< unread failures since its last sync

  /// Number of the last record whose work is done. Records of an open group have left the lane, but
  /// their work is not done; the same holds for a lend until its loan ends.
  [[nodiscard]] std::uint64_t done() const noexcept {
    const std::uint64_t consumed = lane->consumed() - (parked == ParkReason::loan ? 1 : 0);
    return in_group ? std::min(consumed, group_start) : consumed;
  }
};

/// Whether a lane above background priority waits for lanes that may have a lower one.
[[nodiscard]] inline bool waits_urgently(const LaneState& lane) noexcept {
  return lane.priority != Priority::background &&
         (lane.parked == ParkReason::slot || lane.parked == ParkReason::lanes);
}

}  // namespace hearth
