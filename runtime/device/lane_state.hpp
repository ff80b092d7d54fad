// The actor's side of a lane: whether it may run, what it waits for, what waits for it.
// Private to runtime. Touched by the token holder only.
// Invariant: a parked lane has exactly one waker (a slot, other lanes' progress, a loan, a
// transfer, a decision, released memory, the end of work on the device) and a deadline.
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

#include "handle_table.hpp"
#include "lane_limit.hpp"
#include "record_blob.hpp"
#include "runtime/client/tensor_impl.hpp"

namespace hearth {

/// A drop that waits until other lanes have done their uses.
struct DeferredDrop {
  struct Use {
    LaneId lane;
    std::uint64_t sequence;
  };
  SlotId slot;
  std::vector<Use> uses;
};

/// One record of an update group, moved out of the lane.
struct GroupRecord {
  OpRecord record;
  RecordBlob blob;
};

/// Bytes on loan, and the tensor that they become when the loan ends.
struct Loan {
  std::uint64_t number = 0;
  Operand out;
  Storage* storage = nullptr;
  OpRecord record = {};  ///< The lend, for errors.
  ErrorRef error = {};   ///< Of work on the bytes; poisons the tensor whatever the borrower says.
  /// What was lent where the device's own bytes are out of the host's sight; else empty.
  HostBytes copy = {};
  detail::TimePoint begin = {};  ///< In a trace.
};

/// A use of a storage, which is given back unless a slot or a loan takes it over.
struct GiveBack {
  HandleTable* handles = nullptr;
  void operator()(Storage* storage) const noexcept { handles->unuse(storage); }
};
using HeldStorage = std::unique_ptr<Storage, GiveBack>;

/// What an update group needs to run.
struct GroupMemory {
  std::vector<HeldStorage> outputs = {};  ///< Of the results, record by record.
  std::vector<TensorView> views = {};     ///< Of the operands, inputs before outputs, by record.
  HeldStorage scratch =
      {};  ///< For the kernel that needs most while it runs; empty where none does.
  /// Which records, in their order, overwrite what an earlier one of the group reads: no batch has
  /// both.
  std::vector<std::size_t> overwriters = {};
};

/// A copy between the host and the device that the device takes in parts: its record stays at the
/// lane's front until the last one.
struct PartialCopy {
  HeldStorage storage = {};
  std::byte* data = nullptr;               ///< The device's bytes, in that storage.
  TimelinePoint after = {};                ///< What each part waits for.
  std::size_t done_bytes = 0;              ///< That were taken.
  TimelinePoint point = {};                ///< When those have been copied.
  std::optional<TimelinePoint> room = {};  ///< The device had none for the next part, before this.
  std::span<std::byte> target = {};        ///< The host's bytes of a reader.
  detail::TimePoint begin = {};            ///< In a trace.
};

/// A failure of one of the lane's ops.
struct NotedFailure {
  std::shared_ptr<detail::Failure> failure;
  /// Until the device has been idle for a moment: as long as it is here the failure does not die,
  /// so that the log does not report what a sync() right behind it throws.
  ErrorRef carrier;
};

/// `device`: until the device has ended what it was given.
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

/// The last use of a tensor by a record that was run before its turn, which others before it still
/// read.
struct LateEnd {
  std::uint64_t sequence = 0;
  Operand operand;
};

/// What work does that finds no memory: fails with a report, is put off (unless it can never fit),
/// or ends what it tries.
enum class OnShortage : std::uint8_t { report, wait, give_up };

struct LaneState {
  static constexpr std::uint64_t kUnwatched = std::numeric_limits<std::uint64_t>::max();

  explicit LaneState(Lane& of) : lane(&of), id(of.id()) {}

  Lane* lane;
  LaneId id;
  Priority priority = Priority::normal;
  bool is_ready = false;                  ///< in the ready queue, or held by the row join
  bool is_expected = false;               ///< while ready: the row join counts on it
  std::uint8_t turns_without_join = 255;  ///< since it came to an op that could join
  ParkReason parked = ParkReason::none;
  bool has_expired = false;  ///< its deadline passed: the record fails instead of waiting again
  FusionWindow window;       ///< the records at its front that were looked at
  WindowEnd window_end = WindowEnd::sync;  ///< why the last one ended
  std::vector<LateEnd> late_ends;          ///< of records that are done before their turn
  bool lingers = false;                    ///< out of the actor's hands with its window open
  Deadline linger_until = Deadline::never();
  LaneLimit limits;  ///< when its records are given up
  Deadline deadline = Deadline::never();
  std::optional<ProgressLimit> limit;        ///< while parked for wait_limit: when that ends
  DeviceEndpoint* awaited_device = nullptr;  ///< while parked for bytes that it sends
  std::vector<DeferredDrop> deferred;  ///< drops consumed here, whose slots other lanes still use
  std::vector<LaneId> watchers;        ///< lanes to look at again when this one has moved on
  std::uint64_t watched = kUnwatched;  ///< the first record that one of them waits for
  Slot* awaited_slot = nullptr;        ///< while parked for a slot
  std::uint64_t foreseen = 0;          ///< The first record whose kernel was not asked for ahead.
  bool in_group = false;
  std::uint64_t group_start = 0;  ///< the sequence of the open group's first record
  ErrorRef group_refusal;         ///< why the open group was cancelled before it ran
  std::vector<GroupRecord> group;
  std::vector<GroupRecord> group_drops;  ///< drops that came inside the group; they follow it
  std::optional<GroupMemory> prepared;   ///< while the group waits for its decision
  std::optional<LastUse> awaited_work;   ///< while the record at its front waits for the device
  HeldStorage lending = {};              ///< bytes to lend once the device has ended with them
  HostBytes lending_copy = {};           ///< on its way from the device
  std::optional<PartialCopy> copy;       ///< of the record at its front
  Loan loan;                             ///< the loan it waits for
  static constexpr std::size_t kMostFailures = 8;
  std::vector<NotedFailure> failures;  ///< of its ops since its last sync, not all of them read

  /// How far its records have done their work. An open group's records have left the lane and still
  /// have theirs to do; so has a lend until its loan ends.
  [[nodiscard]] std::uint64_t done() const noexcept {
    const std::uint64_t consumed = lane->consumed() - (parked == ParkReason::loan ? 1 : 0);
    return in_group ? std::min(consumed, group_start) : consumed;
  }
};

/// Whether an urgent lane waits for lanes that may be less urgent.
[[nodiscard]] inline bool waits_urgently(const LaneState& lane) noexcept {
  return lane.priority != Priority::background &&
         (lane.parked == ParkReason::slot || lane.parked == ParkReason::lanes);
}

}  // namespace hearth
