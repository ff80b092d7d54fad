// LaneQueues: the place of each lane of a device (ready, held by the row join, parked, or
// lingering). It also has the wakers of parked lanes and the ends of windows. Private to runtime.
// Owned by the device actor, touched by the token holder only, except next_deadline() and the
// lanes' progress.
// Invariants: (1) a lane is in one of these places, or empty and waiting for its next ring; (2) a
// parked lane's record stays at its front and is consumed again when the waker comes; (3) a parked
// lane has no window; a lane with a window is ready, in its turn, or lingering.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include <hearth/runtime/fusion.hpp>

#include "lane_states.hpp"
#include "ready_lanes.hpp"
#include "row_join.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/device/dispatch/in_flight.hpp"

namespace hearth {

/// Outcome of the record at a lane's front. `parked`: it stays and its lane waits. `yields`: it
/// stays and continues at its lane's next turn, after the other lanes' turns.
enum class Step : std::uint8_t { consumed, parked, yields };

class LaneQueues final {
 public:
  /// Lifetime: both arguments outlive this object.
  LaneQueues(DeviceEndpoint& endpoint, const InFlight& in_flight) noexcept
      : endpoint_(endpoint), in_flight_(in_flight) {}

  // ---- all lanes ----
  /// Returns the state of an open lane; creates it at the first call.
  [[nodiscard]] LaneState& meet(LaneId id);
  /// Returns nullptr if the actor has not met the lane, or the lane has ended.
  [[nodiscard]] LaneState* find(LaneId id) const noexcept { return lanes_.find(id); }
  /// Removes a lane that has ended. Requires that it is in no queue.
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
  /// Whether no lane can run and no lingering lane holds ops in a window.
  [[nodiscard]] bool is_idle() const noexcept {
    return ready_.empty() && join_.is_empty() && lingering_.empty();
  }
  /// Removes the completed record from the lane's front.
  void finish_record(LaneState& lane) noexcept {
    ++record_count_;
    lane.has_expired = false;
    lane.lane->pop();
  }
  /// Counts progress of an asynchronous device.
  void record_work_ended() noexcept { ++work_count_; }
  /// Number of completed records.
  [[nodiscard]] std::uint64_t record_count() const noexcept { return record_count_; }

  // ---- windows ----
  /// Keeps the lane's window open after its turn although no record follows. The lane returns when
  /// it is rung, when its window is ended, or after kLinger (never in a deterministic runtime). The
  /// caller sets next_deadline().
  void linger(LaneState& lane);
  /// Ends the lane's window, if it has one: its records run in the next turns, as groups or singly.
  void end_window(LaneState& lane, WindowEnd why);
  [[nodiscard]] bool has_lingering() const noexcept { return !lingering_.empty(); }
  [[nodiscard]] const std::vector<LaneState*>& lingering() const noexcept { return lingering_; }
  /// Ends the windows of all lingering lanes.
  void end_lingering(WindowEnd why);
  [[nodiscard]] const std::array<std::uint64_t, kWindowEndCount>& window_ends() const noexcept {
    return window_ends_;
  }
  [[nodiscard]] std::uint64_t whole_windows() const noexcept { return whole_windows_; }

  // ---- parked ----
  void park(LaneState& lane, ParkReason reason, Deadline deadline);
  void park_on(Slot& slot, LaneState& lane, Deadline deadline);
  /// Parks for the runtime's wait_limit. The limit is renewed while work advances that may end the
  /// wait.
  void park_by_default(LaneState& lane, ParkReason reason);
  void park_on(Slot& slot, LaneState& lane);
  void park_for_bytes(LaneState& lane, DeviceEndpoint& source);
  [[nodiscard]] Step park_for_memory(LaneState& lane) {
    park_by_default(lane, ParkReason::memory);
    return Step::parked;
  }
  /// Guarantees that the next park() does not throw.
  void reserve_park() { parked_.reserve(parked_.size() + 1); }
  /// Rule for work of the lane that finds no memory. Only a runnable lane or work in flight can
  /// release memory: a parked lane may itself wait for this one.
  [[nodiscard]] OnShortage on_shortage(const LaneState& lane) const noexcept {
    return lane.has_expired || (is_idle() && in_flight_.is_empty()) ? OnShortage::report
                                                                    : OnShortage::wait;
  }
  void unpark(LaneState& lane);
  /// Wakes the lanes whose slot was filled, and clears the list.
  void unpark_all(std::vector<LaneState*>& woken);
  /// Removes the lane from the slot that it waits for. Called before unpark().
  static void leave_slot(LaneState& lane) noexcept;
  /// Whether a lane whose deadline has passed continues to wait, because other work advanced.
  [[nodiscard]] bool renew(LaneState& lane) const;
  [[nodiscard]] const std::vector<LaneState*>& parked() const noexcept { return parked_; }
  [[nodiscard]] bool has_memory_waits() const noexcept { return memory_waits_ > 0; }
  /// Wakes all lanes that wait for memory.
  void unpark_memory_waits();
  [[nodiscard]] LaneState& youngest_memory_wait() const;

  /// The earliest deadline of a parked or lingering lane, or of a shutdown. The actor's thread
  /// sleeps until then while a borrower runs the loop. Threads: any.
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
  /// Ends the window of the slot's producer, because a lane waits for the slot.
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
  int urgent_waits_ = 0;  // parked lanes above background priority that wait for other lanes
  int memory_waits_ = 0;  // parked lanes that wait for memory
  std::uint64_t record_count_ = 0;
  std::uint64_t work_count_ = 0;  // number of times that work was found to have ended
  std::atomic<Deadline> next_deadline_{Deadline::never()};
};

}  // namespace hearth
