// The model of the window: one device with its actor, two lanes and their producers, memory, work
// in flight, and the world around them, as a state of bytes and the steps that change it. The model
// follows the design; the search (window_search.hpp) takes the steps in every order. README.md
// lists the rules and the checked properties.
// Threads: one. Invariants: (1) a step depends only on the state; (2) a property is required where
// it could break, and the first violation is kept.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "window_program.hpp"

namespace hearth::model {

/// The rules of the design, each of which a test can disable: the search must then find the error.
struct WindowRules {
  // SEAMS 3.1 to 3.8
  bool park_ends_window = true;        ///< 1: a lane that parks issues its window first
  bool cuts_make_no_plan = true;       ///< 2
  bool no_plan_after_cut = true;       ///< 2: until the next program boundary
  bool count_goes_on = true;           ///< 2: a cut does not restart the count of ops and records
  bool failure_cuts = true;            ///< 2: a record that fails at its turn, too
  bool foreign_use_cuts = true;        ///< 2
  bool shortage_cuts = true;           ///< 2: while a lane waits for memory no window stays open
  bool idle_cuts = true;               ///< 2: a linger ends
  bool planner_copies = true;          ///< 3: the ring may reuse the records that the planner reads
  bool records_end_window = true;      ///< 4: ring/2 looked-at records end it
  bool drops_count = true;             ///< 4: as looked-at records
  bool pop_looks_when_crossed = true;  ///< 4: for a producer that waits
  bool turn_end_looks = true;          ///< 4: so does the end of a turn of a lane with records left
  bool windows_are_work = true;        ///< 5: they count against idle
  bool shortage_asks_again = true;     ///< 5: whether the device is idle, at the turn that fails
  bool leaving_wakes = true;           ///< 5: a borrower that leaves a window wakes the actor
  bool actor_has_timer = true;         ///< 5: the actor sleeps no longer than a linger
  bool duties_close_windows = true;    ///< 5: restart, stop and questions do
  bool orphans_issue = true;           ///< 5
  bool watching_cuts = true;           ///< 6: a lane that waits for one of its records does
  bool cut_comes_first = true;         ///< 6: before the watcher is registered, and then it asks
  bool watched_join_cuts = true;       ///< 6: before the watcher is registered, then a check
  bool linger_gives_lane_back = true;  ///< 6: so does joining an awaited or watched record
  bool takes_lane_back = true;         ///< 7: an exchange takes back a lane that was given back
  bool drops_are_events = true;        ///< 8: drops wait for the ops before them
  bool virtual_needs_no_uses = true;   ///< 8: no last uses of other lanes are open
  bool poison_stays_out = true;        ///< 8
  bool in_place_asks = true;           ///< 8: whether another queue's batch holds the bytes
  // views of computed tensors: made when they join
  bool shown_are_done = true;      ///< no work is left at their turn
  bool showing_wakes = true;       ///< wakes lanes that wait for the view
  bool last_uses_show_not = true;  ///< a view that ends its tensor is made at its turn
  bool views_share = true;         ///< bytes that a view shares are not overwritten
  // SEAMS 2
  bool flight_is_work = true;       ///< idle means nothing in flight
  bool flight_holds_blocks = true;  ///< until the point of the batch
  bool batches_wait = true;         ///< for the points of what they read and write over
  bool retiring_wakes = true;       ///< for the points of their inputs and of blocks they reuse
};

enum class TensorState : Byte { uncreated, pending, live, poisoned, gone };
enum class Park : Byte { none, slot, lanes, memory, flight };
enum class Linger : Byte { none, armed, passed };
enum class Producer : Byte {
  running,
  wants_room,
  wants_value,
  borrows_room,
  borrows_value,
  sleeps_room,
  sleeps_value,
  ended
};
enum class Actor : Byte { asleep, asleep_timed, awake, holds, drowsy, stopped };
enum class Ask : Byte { none, posted, waits, impatient, answered };
enum class Stop : Byte { none, posted, runs, limit_passed };
enum class Phase : Byte { free, running, complete };

struct LaneNow {
  Byte pushed = 0;
  Byte consumed = 0;
  Byte looked = 0;        ///< records after `consumed` that wait in the window
  Byte single_until = 0;  ///< the records before this one run one by one
  Byte counted = 0;       ///< the records before this one are in the two counts
  Byte ops_since = 0;     ///< ops since the last program boundary
  Byte records_since = 0;
  bool may_plan = true;
  bool rung = false;    ///< linked, or held by the holder
  bool linked = false;  ///< in the doorbell
  bool ready = false;
  bool orphaned = false;
  bool closed = false;
  bool must_run = false;     ///< chosen to get memory or fail while nothing could move
  bool has_expired = false;  ///< its wait for a tensor expired
  Park park = Park::none;
  Byte awaited = kNone;  ///< the tensor, if parked for a slot
  Linger linger = Linger::none;
  Byte watchers = 0;       ///< a bit for each lane, and kOutside
  Byte watched = kNone;    ///< the first records that one of them waits for end before this one
  RecordSet deferred = 0;  ///< drops that wait for other lanes
  Byte group_from = 0;     ///< one more than the open group's first record
  RecordSet acted = 0;     ///< records that used or released what they name
  RecordSet done = 0;
  RecordSet failed = 0;
  RecordSet rejected = 0;
  RecordSet shown = 0;  ///< views in the lane that are made and have not had their turn
  Producer producer = Producer::running;
  bool producer_announced = false;  ///< waits for room
  bool gave_up = false;             ///< the reader's deadline passed
  bool pushed_late = false;         ///< it had checked before the device closed
};
struct TensorNow {
  TensorState state = TensorState::uncreated;
  Byte block = kNone;  ///< kNone while live: the value has no memory
};
struct BatchNow {
  Phase phase = Phase::free;
  Byte lane = 0;
  RecordSet records = 0;
  Byte after = 0;  ///< batches
  std::array<Byte, 4> in{kNone, kNone, kNone, kNone};
  std::array<Byte, 2> out{kNone, kNone};
};
inline constexpr int kBlocks = 6;
inline constexpr int kBatches = 3;
inline constexpr int kOutside = 2;  ///< as a watcher

struct WindowState {
  std::array<LaneNow, kLanes> lanes{};
  std::array<TensorNow, kMostTensors> tensors{};
  std::array<BatchNow, kBatches> batches{};
  std::array<Byte, kBlocks> content{};  ///< the tensor whose value lies in each block
  Actor actor = Actor::asleep;
  bool token_free = true;
  Byte turn_of = kNone;  ///< the lane whose turn has begun
  Byte last_short = 0;   ///< the last lane that began to wait for memory
  Ask ask = Ask::none;
  Stop stop = Stop::none;
  Byte outside = 0;  ///< the drop without a lane: 0 not yet posted, 1 posted, 2 waits, 3 done
  bool lost = false;
  Byte job_lane = kNone;  ///< the lane whose ring the planner reads, if it does not copy
  Byte job_from = 0;
};
static_assert(std::has_unique_object_representations_v<WindowState>);

/// The steps, each of which may be taken where it has an effect.
enum class WindowStep : Byte {
  push0,
  push1,
  borrow0,
  borrow1,
  sleep0,
  sleep1,
  deadline0,
  deadline1,
  linger0,
  linger1,
  complete0,
  complete1,
  complete2,
  turn0,
  turn1,
  pass,
  actor,
  timer,
  compile,
  drop_outside,
  ask,
  lose_patience,
  stop,
  stop_limit,
};
inline constexpr int kSteps = 24;

class WindowModel {
 public:
  WindowModel(const WindowProgram& program, const WindowRules& rules);

  [[nodiscard]] WindowState start() const;
  /// Takes the step; returns false if it has no effect here.
  [[nodiscard]] bool take(WindowState& state, WindowStep step);
  /// Requires the properties of a state without further steps.
  void require_end(const WindowState& state);
  /// The violation in the last call, if any.
  [[nodiscard]] const std::optional<std::string>& wrong() const noexcept { return wrong_; }
  /// Appends later events to `story`; nullptr ends this.
  void tell(std::string* story) noexcept { story_ = story; }

 private:
  // window_world.cpp: events outside the token
  [[nodiscard]] bool take_step(WindowState& state, WindowStep step);
  [[nodiscard]] bool push(int lane);
  [[nodiscard]] bool end_producer(int lane);
  void reject_by_producer(int lane);
  [[nodiscard]] bool borrow(int lane);
  [[nodiscard]] bool fall_asleep(int lane);
  [[nodiscard]] bool wake_reader(int lane);
  [[nodiscard]] bool pass_deadline(int lane);
  [[nodiscard]] bool pass_linger(int lane);
  [[nodiscard]] bool complete(int index);
  [[nodiscard]] bool step_actor();
  [[nodiscard]] bool ring_timer();
  [[nodiscard]] bool compile();
  [[nodiscard]] bool drop_outside();
  [[nodiscard]] bool post_question();
  [[nodiscard]] bool post_stop();
  void ring(int lane);
  void ring_inbox();
  void wake_actor();
  [[nodiscard]] bool has_rung() const;
  [[nodiscard]] bool is_over(int lane, int record) const;
  [[nodiscard]] bool has_room(int lane) const;

  // window_loop.cpp: the loop of the token's holder
  [[nodiscard]] int borrower() const;
  [[nodiscard]] bool has_holder() const;
  [[nodiscard]] bool pass();
  [[nodiscard]] bool turn(int lane);
  void collect();
  void retire(BatchNow& batch);
  [[nodiscard]] bool close_windows_for_duties();
  [[nodiscard]] bool serve_memory_waits();
  [[nodiscard]] bool end_lingers();
  [[nodiscard]] bool answer();
  [[nodiscard]] bool finish_stop();
  void restart();
  void lose();
  void leave();
  [[nodiscard]] bool is_enough() const;
  [[nodiscard]] bool is_idle() const;
  [[nodiscard]] bool has_ready() const;
  [[nodiscard]] bool has_window() const;
  [[nodiscard]] bool has_flight() const;
  [[nodiscard]] bool has_parked(Park why) const;
  void end_turn(int lane);
  void finish_turn(int lane);
  void close_lane(int lane);
  void make_ready(int lane);
  void park(int lane, Park why, Byte awaited);
  void unpark(int lane);
  void reclaim(int lane);

  // window_records.cpp: effects of records
  enum class Step : Byte { consumed, joined, parked, put_off };
  enum class End : Byte { boundary, cut };
  void consume(int lane);
  [[nodiscard]] Step consume_op(int lane, Byte record);
  [[nodiscard]] Step consume_drop(int lane, Byte record);
  [[nodiscard]] Step consume_read(int lane, Byte record);
  [[nodiscard]] Step consume_adopt(int lane, Byte record);
  [[nodiscard]] Step consume_group_end(int lane, Byte record);
  [[nodiscard]] Step end_group(int lane, Byte record, bool fails);
  void fail_front(int lane, Byte waited);
  [[nodiscard]] Step run_single(int lane, Byte record);
  [[nodiscard]] bool must_fail(int lane);
  void join(int lane, Byte record);
  void settle_join(int lane, Byte record, bool is_awaited);
  [[nodiscard]] bool may_show(int lane, Byte record) const;
  void show(int lane, Byte record);
  void count(int lane, Byte record);
  void end_window(int lane, End end, const char* why);
  void make_plan(int lane);
  void issue_window(int lane);
  [[nodiscard]] bool try_fused(int lane);
  /// The first operand that is not computed, after cutting windows that would compute it; kNone if
  /// there is none.
  [[nodiscard]] Byte unborn_operand(int lane, Byte record);
  [[nodiscard]] bool is_poisoned(Byte record_lane, Byte record) const;
  void fail(int lane, Byte index);
  void run_drop(int lane, Byte record);
  [[nodiscard]] bool are_done(Byte tensor, int lane, int watcher, bool lane_waits);
  void settle(int lane);
  void settle_outside();
  void notify_watchers(int lane);
  [[nodiscard]] Byte done_until(int lane) const;
  void pop(int lane, int records);
  void look_for_producer(int lane);

  // window_device.cpp: memory and kernels
  /// Makes equivalent states equal: clears what no lane can observe any more.
  void normalize(WindowState& state) const;
  [[nodiscard]] Byte free_block(Byte taken) const;
  /// Whether another tensor shares its bytes.
  [[nodiscard]] bool is_shared(Byte tensor) const;
  [[nodiscard]] bool is_in_flight(Byte block, int but_not_of) const;
  [[nodiscard]] Park issue(int lane, RecordSet records, RecordSet virtual_outputs);
  [[nodiscard]] bool bind(BatchNow& batch, RecordSet virtual_outputs) const;
  [[nodiscard]] Byte block_for(int lane, const WindowRecord& record, Byte taken) const;
  void finish_issue(const BatchNow& batch);
  void run_batch(const BatchNow& batch);
  [[nodiscard]] Byte points_of(const BatchNow& batch) const;
  void release(Byte tensor);
  void wake_memory_waits();
  void wake_slot_waits(Byte tensor);

  void require(bool condition, const std::string& text) {
    if (!condition && !wrong_) {
      wrong_ = text;
    }
  }
  template <class Text>
  void say(const Text& text) {
    if (story_ != nullptr) {
      story_->append("    ").append(text()).append("\n");
    }
  }
  [[nodiscard]] LaneNow& lane_of(int lane) { return state_->lanes[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] const LaneNow& lane_of(int lane) const {
    return state_->lanes[static_cast<std::size_t>(lane)];
  }
  [[nodiscard]] TensorNow& tensor_of(Byte tensor) { return state_->tensors[tensor]; }
  [[nodiscard]] const TensorNow& tensor_of(Byte tensor) const { return state_->tensors[tensor]; }
  [[nodiscard]] static std::string name_of(int lane) { return "lane " + std::to_string(lane); }

  const WindowProgram program_;
  const WindowPlan plan_;
  const WindowRules rules_;
  WindowState* state_ = nullptr;
  std::optional<std::string> wrong_;
  std::string* story_ = nullptr;
};

}  // namespace hearth::model
