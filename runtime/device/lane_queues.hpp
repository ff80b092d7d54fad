// Where each lane of a device is: in the queue of those that can run, held by the row join, parked,
// or lingering; what wakes the parked ones, and the ends of windows. Private to runtime. Owned by
// the device actor, touched by the token holder only, but for next_deadline() and the lanes'
// progress. Invariants: (1) a lane is in one of these places, or empty and left to its next ring;
// (2) a parked lane's record stays at its front, and is consumed anew when the lane's waker comes;
// (3) a parked lane has no window, and a lane with a window that is neither ready nor in its turn
// lingers.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include <hearth/runtime/fusion.hpp>

#include "in_flight.hpp"
#include "lane_states.hpp"
#include "ready_lanes.hpp"
#include "row_join.hpp"
#include "runtime/client/device_endpoint.hpp"

namespace hearth {

/// What became of the record at a lane's front: it is done; it stays and its lane waits; it stays,
/// and goes on at its lane's next turn, behind the other lanes'.
enum class Step : std::uint8_t { consumed, parked, yields };

class LaneQueues final {
 public:
  /// Lifetime: both outlive it.
  LaneQueues(DeviceEndpoint& endpoint, const InFlight& in_flight) noexcept
      : endpoint_(endpoint), in_flight_(in_flight) {}

  // ---- all lanes ----
  /// The state of an open lane; made the first time.
  [[nodiscard]] LaneState& meet(LaneId id);
  /// nullptr when the actor has not met the lane, or it has ended.
  [[nodiscard]] LaneState* find(LaneId id) const noexcept { return lanes_.find(id); }
  /// A lane that is in no queue ends.
  void erase(LaneId id) noexcept { lanes_.erase(id); }
  template <class Fn>
  void for_each(const Fn& fn) const {
    lanes_.for_each(fn);
  }
  [[nodiscard]] std::size_t lane_count() const noexcept { return lanes_.size(); }
  void set_priority(LaneId id, Priority priority);

  // ---- ready ----
  void make_ready(LaneState& lane) {
    if (!lane.is_ready && lane.parked == ParkReason::none) {
      if (lane.lingers) [[unlikely]] {
        end_linger(lane);
      }
      lane.is_ready = true;
      ready_.push(lane);
      join_.expect(lane);
    }
  }
  [[nodiscard]] LaneState& take_ready() { return ready_.take(urgent_waits_ > 0); }
  [[nodiscard]] const ReadyLanes& ready() const noexcept { return ready_; }
  [[nodiscard]] RowJoin& join() noexcept { return join_; }
  /// Whether no lane can run, and none holds ops up in a window.
  [[nodiscard]] bool is_idle() const noexcept {
    return ready_.empty() && join_.is_empty() && lingering_.empty();
  }
  /// The record at the lane's front is done and leaves.
  void finish_record(LaneState& lane) noexcept {
    ++record_count_;
    lane.has_expired = false;
    lane.lane->pop();
  }
  /// An asynchronous device has got on.
  void note_work_ended() noexcept { ++work_count_; }
  /// Records done so far.
  [[nodiscard]] std::uint64_t record_count() const noexcept { return record_count_; }

  // ---- windows ----
  /// The lane's window stays open although no record follows: after its turn, out of the actor's
  /// hands. It comes back when it is rung, cut, or after kLinger. The caller sets next_deadline().
  void linger(LaneState& lane);
  /// Ends the lane's window, where it has one: the records in it run one by one at its next turns.
  void end_window(LaneState& lane, WindowEnd why);
  [[nodiscard]] bool has_lingering() const noexcept { return !lingering_.empty(); }
  [[nodiscard]] const std::vector<LaneState*>& lingering() const noexcept { return lingering_; }
  /// Ends the windows of all that linger.
  void end_lingering(WindowEnd why);
  [[nodiscard]] const std::array<std::uint64_t, kWindowEndCount>& window_ends() const noexcept {
    return window_ends_;
  }
  [[nodiscard]] std::uint64_t whole_windows() const noexcept { return whole_windows_; }

  // ---- parked ----
  void park(LaneState& lane, ParkReason reason, Deadline deadline);
  void park_on(Slot& slot, LaneState& lane, Deadline deadline);
  /// For as long as the runtime's wait_limit, and on while somebody gets on who may end the wait.
  void park_by_default(LaneState& lane, ParkReason reason);
  void park_on(Slot& slot, LaneState& lane);
  void park_for_bytes(LaneState& lane, DeviceEndpoint& source);
  [[nodiscard]] Step park_for_memory(LaneState& lane) {
    park_by_default(lane, ParkReason::memory);
    return Step::parked;
  }
  /// The next park() throws nothing.
  void reserve_park() { parked_.reserve(parked_.size() + 1); }
  /// What the lane's work does that finds no memory. Only what runs now, here or on the device, can
  /// release some: a lane that is parked may itself wait for this one.
  [[nodiscard]] OnShortage on_shortage(const LaneState& lane) const noexcept {
    return lane.has_expired || (is_idle() && in_flight_.is_empty()) ? OnShortage::report
                                                                    : OnShortage::wait;
  }
  void unpark(LaneState& lane);
  /// Lanes whose slot was made.
  void unpark_all(std::vector<LaneState*>& woken);
  /// Before unpark(): the slot that the lane waits for forgets it.
  static void leave_slot(LaneState& lane) noexcept;
  /// Whether a lane whose deadline has passed waits on, because somebody got on.
  [[nodiscard]] bool renew(LaneState& lane) const;
  [[nodiscard]] const std::vector<LaneState*>& parked() const noexcept { return parked_; }
  [[nodiscard]] bool has_memory_waits() const noexcept { return memory_waits_ > 0; }
  /// All that wait for memory.
  void unpark_memory_waits();
  [[nodiscard]] LaneState& youngest_memory_wait() const;

  /// The earliest deadline of a parked lane, for the actor's thread, which may sleep while a
  /// borrower runs the loop. Threads: any.
  [[nodiscard]] Deadline next_deadline() const noexcept {
    return next_deadline_.load(std::memory_order_acquire);  // partner: set_next_deadline
  }
  void set_next_deadline(Deadline deadline) noexcept {
    next_deadline_.store(deadline, std::memory_order_release);  // partner: next_deadline
  }

 private:
  static constexpr std::chrono::nanoseconds kLinger = std::chrono::microseconds(200);

  [[nodiscard]] std::uint64_t progress_for(const LaneState& lane, ParkReason reason) const;
  void end_linger(LaneState& lane) noexcept;
  /// A lane waits for this slot: no window may hold its maker up.
  void end_window_of(const Slot& slot);

  DeviceEndpoint& endpoint_;
  const InFlight& in_flight_;
  LaneStates lanes_;
  ReadyLanes ready_;
  RowJoin join_;
  std::vector<LaneState*> parked_;  // in the order in which they were parked
  std::vector<LaneState*> lingering_;
  std::array<std::uint64_t, kWindowEndCount> window_ends_{};
  std::uint64_t whole_windows_ = 0;
  int urgent_waits_ = 0;  // parked lanes above background that wait for others
  int memory_waits_ = 0;  // of the parked lanes
  std::uint64_t record_count_ = 0;
  std::uint64_t work_count_ = 0;  // how often work was found to have ended
  std::atomic<Deadline> next_deadline_{Deadline::never()};
};

}  // namespace hearth
