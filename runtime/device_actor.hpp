// The device actor: a loop with a token that consumes a device's lanes and drives its backend.
// Normally on a thread of its own; on a host device a thread that waits for a result may hold the token for a while and run the loop
// on its own core. Private to runtime.
// Threads: the token holder only, but for thread_main (the actor's thread) and reject_all (a stopped device's producer).
// Invariants: (1) one holder at a time; (2) the loop never blocks and never runs user code: what must wait parks its lane; (3) lanes
// take turns of at most kTurnRecords records, so that none starves; (4) no exception leaves the loop.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/memory/make_memory_strategy.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/parker.hpp>
#include <hearth/runtime/device.hpp>

#include "device_endpoint.hpp"
#include "dispatch.hpp"
#include "handle_table.hpp"
#include "lane_states.hpp"
#include "ready_lanes.hpp"
#include "row_join.hpp"

namespace hearth {

struct GroupTicket;

struct DeviceActorOptions {
  std::int64_t budget_bytes = 0;
  MemoryPooling pooling = MemoryPooling::default_pooling;
  /// Instead of `pooling`, when set.
  std::function<std::unique_ptr<MemoryStrategy>(PageProvider&, std::int64_t)> make_memory = {};
};

/// The backend and its memory. Loans that outlive the actor keep it, so that lent bytes stay mapped until they are given back.
struct DeviceMemory {
  /// Errors: ArgumentError when make_memory gives nothing; what it throws.
  DeviceMemory(std::unique_ptr<Backend> with, const DeviceActorOptions& options);

  std::unique_ptr<Backend> backend;
  std::unique_ptr<MemoryStrategy> strategy;
};

class DeviceActor {
 public:
  DeviceActor(IntrusivePtr<DeviceEndpoint> endpoint,
              std::unique_ptr<Backend> backend,
              const DeviceActorOptions& options);
  DeviceActor(const DeviceActor&) = delete;
  DeviceActor& operator=(const DeviceActor&) = delete;
  ~DeviceActor();

  /// The actor's thread: runs until a stop message has been obeyed.
  void thread_main();
  /// A waiting thread that has claimed the token: runs until `until` says so, the deadline passes or nothing is runnable; then gives
  /// the token back.
  template <class Until>
  void run_borrowed(const Until& until, Deadline deadline) noexcept {
    run_borrowed_erased(
        [](const void* context) noexcept { return (*static_cast<const Until*>(context))(); },
        &until,
        deadline);
  }

  /// Consumes everything in a lane of a stopped device, failing what waits for it.
  static void reject_all(DeviceEndpoint& endpoint, Lane& lane, const ErrorRef& error);

  // ---- for control messages ----
  /// Calls `question` when all that is queued now has been consumed, or after some turns on a device that is never idle.
  void when_idle(DeviceEndpoint::ControlFn question);
  /// Begins the shutdown: all that is queued is run, up to the deadline; then the loop ends.
  void stop(Deadline limit) noexcept;
  /// A drop that came through the inbox: no lane orders it, so it waits for all the uses it names.
  void drop_from_outside(SlotId slot, const LastUsesBlob& uses);
  /// Bytes from another device are there.
  void transfer_arrived(LaneId lane);
  /// The end of a loan; `status` poisons the lent tensor.
  void end_loan(LaneId lane, std::uint64_t loan, const Status& status);
  /// Work on lent bytes failed: whatever the borrower says at the end, the tensor carries this.
  void spoil_loan(LaneId lane, std::uint64_t loan, ErrorRef error);
  /// The borrower keeps the bytes too long: the loan ends as at its deadline.
  void recall_loan(LaneId lane, std::uint64_t loan, const ErrorRef& error);
  /// Gives this generation up: from now on everything fails with `error`, unless the device is lost already.
  void lose(ErrorRef error);
  /// A new generation on a fresh backend. What the old one still owns is lost.
  void restart(std::unique_ptr<Backend> backend);
  /// The lane's turns come with this priority from now on.
  void set_priority(LaneId lane, Priority priority);
  /// The lane's update group may have been decided.
  void settle_update(LaneId lane);
  /// What its lanes wait for, a line each.
  [[nodiscard]] std::string describe();
  [[nodiscard]] MemoryStatistics memory() const;
  [[nodiscard]] MemoryReport memory_report() const;
  void reset_peak() noexcept { memory_->strategy->reset_peak(); }
  [[nodiscard]] std::int64_t trim() noexcept { return memory_->strategy->trim(); }
  [[nodiscard]] HandleTable& handles() noexcept { return handles_; }
  [[nodiscard]] DeviceStatistics statistics() noexcept;
  /// The lanes that it keeps books of.
  [[nodiscard]] std::size_t lane_count() const noexcept { return lanes_.size(); }
  [[nodiscard]] Backend& backend() noexcept { return *memory_->backend; }

 private:
  using UntilFn = bool (*)(const void* context) noexcept;
  static constexpr int kTurnRecords = 16;
  static constexpr int kTimedSleeps = 20;
  static constexpr int kQuestionTurns = 1000;

  enum class Step : std::uint8_t { consumed, parked };

  void run_borrowed_erased(UntilFn until, const void* context, Deadline deadline) noexcept;
  /// Runs turns until nothing is runnable (true) or `until` says so (false).
  bool run(UntilFn until, const void* context, Deadline deadline) noexcept;
  void collect();
  void answer_questions();
  /// Lanes that wait for memory go on when some was released; when nobody else can run, the youngest fails.
  void serve_memory_waits();
  /// Only what runs now can release some: a lane that is parked may itself wait for this one.
  [[nodiscard]] bool may_wait_for_memory(const LaneState& lane) const noexcept {
    return !lane.has_expired && !is_idle();
  }
  [[nodiscard]] bool is_idle() const noexcept { return ready_.empty() && join_.is_empty(); }
  void obey(DeviceEndpoint::ControlFn& message);
  void take_turn(LaneState& lane, UntilFn until, const void* context);
  /// Whether the lane's front shall wait for like ops of other lanes; then it is held.
  [[nodiscard]] bool hold_for_join(LaneState& lane, const OpView& op);
  /// Runs the op held longest and those like it (true), once no lane is left that could join; lets all go when it is enough.
  [[nodiscard]] bool run_held(bool is_enough);
  void run_join_group();
  /// What a record's work brings about for other lanes.
  void after_record();
  [[nodiscard]] Step consume(LaneState& lane, const OpView& op);
  [[nodiscard]] Step consume_lifetime(LaneState& lane, const OpView& op);
  [[nodiscard]] Step run_op(LaneState& lane, const OpView& op);
  static void keep_for_group(LaneState& lane, const OpView& op);
  void drop(LaneState& lane, const OpView& op);
  [[nodiscard]] std::vector<DeferredDrop::Use> uses_of_drop(const LastUsesBlob& blob) const;
  [[nodiscard]] Step adopt(LaneState& lane, const OpView& op);
  [[nodiscard]] Step upload(LaneState& lane, const OpView& op);
  [[nodiscard]] Step lend(LaneState& lane, const OpView& op);
  [[nodiscard]] Step finish_group(LaneState& lane, const OpView& op);
  /// Gets the memory of the lane's group; parks the lane while the group's decision is open. `status`: why it must not run.
  [[nodiscard]] Step prepare_group(LaneState& lane, GroupTicket& ticket, Status& status);
  /// Runs the lane's group, or gives it up.
  [[nodiscard]] Status end_group(LaneState& lane, Status status);
  void settle(std::vector<DeferredDrop>& drops, LaneId watcher);
  /// The lanes that must still move on before these uses are done; registers `lane` with the first of them.
  [[nodiscard]] bool are_done(std::span<const DeferredDrop::Use> uses, LaneId watcher);
  [[nodiscard]] bool has_done(LaneId lane, std::uint64_t sequence) const;

  [[nodiscard]] LaneState& state_of(LaneId id);
  void make_ready(LaneState& lane);
  void park(LaneState& lane, ParkReason reason, Deadline deadline);
  void park_on(Slot& slot, LaneState& lane, Deadline deadline);
  [[nodiscard]] std::string describe(const LaneState& lane);
  /// The report of a deadline that passed here.
  [[nodiscard]] std::string report();
  /// The error of an op that waited in vain, with a report.
  [[nodiscard]] ErrorRef late(const OpView& op, const LaneState& lane, const char* text);
  void unpark(LaneState& lane);
  void expire(LaneState& lane);
  /// The lane, if it waits for this loan.
  [[nodiscard]] LaneState* find_borrowed(LaneId lane, std::uint64_t loan) const noexcept;
  void expire_loan(LaneState& lane, const ErrorRef& error);
  [[nodiscard]] Status blame_loan(const LaneState& lane, const Status& status) const;
  /// The device is lost: lets go of everyone who waits here for what will not come.
  void note_loss();
  void become_lost();
  /// Makes the lanes ready that waited for a slot which is made now.
  void wake_readers();
  void notify_watchers(LaneState& lane);
  void close_lane(LaneState& lane);
  void finish_stop() noexcept;
  void sleep(int& timed_sleeps, std::uint64_t& seen_records);

  IntrusivePtr<DeviceEndpoint> endpoint_;
  const DeviceActorOptions options_;
  std::shared_ptr<DeviceMemory> memory_;
  HandleTable handles_;
  Dispatch dispatch_;
  LaneStates lanes_;
  ReadyLanes ready_;
  RowJoin join_;
  std::vector<LaneState*> parked_;
  std::vector<DeferredDrop> outside_drops_;
  bool is_lost_ = false;
  int urgent_waits_ = 0;               // parked lanes above background that wait for others
  int memory_waits_ = 0;               // of the parked lanes
  std::uint64_t released_blocks_ = 0;  // when those were last woken
  bool is_stopping_ = false;
  bool has_stopped_ = false;
  Deadline stop_limit_ = Deadline::never();
  std::uint64_t next_loan_ = 1;
  std::vector<Loan> quarantine_;  // bytes of loans that ran out, until the borrower lets go
  std::uint64_t records_ = 0;
  std::vector<DeviceEndpoint::ControlFn> questions_;
  int question_turns_ = 0;
  std::uint64_t tokens_lent_ = 0;
  // What the actor's thread reads when it goes to sleep without the token.
  std::atomic<std::int64_t> next_deadline_{0};  // nanoseconds of the clock; 0 = none
  std::atomic<std::uint64_t> records_seen_{0};
};

}  // namespace hearth
