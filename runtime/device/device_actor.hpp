// The device actor: a loop with a token that consumes a device's lanes and drives its backend.
// Normally on a thread of its own; on a host device a thread that waits for a result may hold the
// token for a while and run the loop on its own core. Private to runtime. Threads: the token holder
// only, but for thread_main (the actor's thread). Invariants: (1) one holder at a time; (2) the
// loop never blocks and never runs user code: what must wait parks its lane; (3) lanes take turns
// of at most kTurnRecords records, so that none starves; (4) no exception leaves the loop.
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

#include "device_scratch.hpp"
#include "dispatch.hpp"
#include "handle_table.hpp"
#include "lane_states.hpp"
#include "ready_lanes.hpp"
#include "row_join.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/device_loop.hpp"
#include "runtime/client/device_message.hpp"

namespace hearth {

struct GroupTicket;

struct DeviceActorOptions {
  std::int64_t budget_bytes = 0;
  MemoryPooling pooling = MemoryPooling::default_pooling;
  /// Instead of `pooling`, when set.
  std::function<std::unique_ptr<MemoryStrategy>(PageProvider&, std::int64_t)> make_memory = {};
  /// Opens the device's backend once more, for a restart.
  std::function<Result<std::unique_ptr<Backend>>()> reopen = {};
};

/// The backend and its memory. Loans that outlive the actor keep it, so that lent bytes stay mapped
/// until they are given back.
struct DeviceMemory {
  /// Errors: ArgumentError when make_memory gives nothing; what it throws.
  DeviceMemory(std::unique_ptr<Backend> with, const DeviceActorOptions& options);

  std::unique_ptr<Backend> backend;
  std::unique_ptr<MemoryStrategy> strategy;
  std::unique_ptr<DeviceScratch> scratch;  ///< The backend's kernels take it from the strategy.
};

class DeviceActor final : public DeviceLoop {
 public:
  DeviceActor(IntrusivePtr<DeviceEndpoint> endpoint,
              std::unique_ptr<Backend> backend,
              const DeviceActorOptions& options);
  DeviceActor(const DeviceActor&) = delete;
  DeviceActor& operator=(const DeviceActor&) = delete;
  ~DeviceActor();

  /// The actor's thread: runs until the device is stopped.
  void thread_main();
  void run_borrowed(UntilFn until, const void* context, Deadline deadline) noexcept override;

  [[nodiscard]] DeviceStatistics statistics() noexcept;
  [[nodiscard]] MemoryReport memory_report() const;

 private:
  static constexpr int kTurnRecords = 16;
  static constexpr int kTimedSleeps = 20;
  static constexpr int kQuestionTurns = 1000;

  enum class Step : std::uint8_t { consumed, parked };

  /// Runs turns until nothing is runnable or `until` says so, and gives the token back.
  void run(UntilFn until, const void* context, Deadline deadline) noexcept;
  void run_next_lane(UntilFn until, const void* context);
  /// Gives the token back, unless a ring came first.
  [[nodiscard]] bool try_leave(bool is_borrower) noexcept;
  void collect();
  /// Ends the waits whose deadline has passed.
  void expire_parked();
  void receive(DeviceMessage& message);
  void keep_question(DeviceQuestion question);
  void answer_questions();
  void answer(DeviceQuestion& question);
  /// Lanes that wait for memory go on when some was released; when nobody else can run, the
  /// youngest fails.
  void serve_memory_waits();
  /// Only what runs now can release some: a lane that is parked may itself wait for this one.
  [[nodiscard]] OnShortage on_shortage(const LaneState& lane) const noexcept {
    return lane.has_expired || is_idle() ? OnShortage::report : OnShortage::wait;
  }
  [[nodiscard]] Step park_if_short(Ran ran, LaneState& lane);
  [[nodiscard]] bool is_idle() const noexcept { return ready_.empty() && join_.is_empty(); }
  void take_turn(LaneState& lane, UntilFn until, const void* context);
  void end_turn(LaneState& lane);
  /// Whether the lane's front waits for like ops of other lanes; then the row join holds it.
  [[nodiscard]] bool hold_for_join(LaneState& lane, const OpView& op);
  /// Runs the op held longest and those like it (true), once no lane is left that could join; lets
  /// all go when it is enough.
  [[nodiscard]] bool run_held(bool is_enough);
  void run_join_group();
  /// What a record's work brings about for other lanes.
  void after_record();
  [[nodiscard]] Step consume(LaneState& lane, const OpView& op);
  [[nodiscard]] Step consume_lifetime(LaneState& lane, const OpView& op);
  /// Whether the record is given up as its stream's limits say; then it is done. Lifetimes and open
  /// update groups never are.
  [[nodiscard]] bool is_given_up(LaneState& lane, const OpView& op);
  /// The same question about an op that could run; changes nothing.
  [[nodiscard]] static bool is_over(LaneState& lane) noexcept;
  /// When the lane's next record is given up, however long it may wait.
  [[nodiscard]] static Deadline end_of(const LaneState& lane) noexcept {
    return lane.in_group ? Deadline::never() : lane.limits.deadline();
  }
  [[nodiscard]] Step run_op(LaneState& lane, const OpView& op);
  static void keep_for_group(LaneState& lane, const OpView& op);
  void drop(LaneState& lane, const OpView& op);
  /// Releases the slot now, or puts it with `waiting` until all its uses are done, of which
  /// `watcher` is told.
  void drop_when_done(DeferredDrop&& entry, LaneId watcher, std::vector<DeferredDrop>& waiting);
  /// A drop that came as a message: no lane orders it.
  void drop_from_outside(SlotId slot, const LastUsesBlob& uses);
  [[nodiscard]] std::vector<DeferredDrop::Use> uses_of_drop(const LastUsesBlob& blob) const;
  [[nodiscard]] Step adopt(LaneState& lane, const OpView& op);
  [[nodiscard]] Step upload(LaneState& lane, const OpView& op);
  void accept_transfer(TransferArrived& arrival);
  [[nodiscard]] Step lend(LaneState& lane, const ResolvedOp& op);
  void run_on_loan(RunOnLoan& run);
  /// The end of a loan; `status` poisons the lent tensor.
  void end_loan(LaneId lane, std::uint64_t loan, const Status& status);
  /// The borrower keeps the bytes too long: the loan ends as at its deadline.
  void recall_loan(LaneId lane, std::uint64_t loan, const ErrorRef& error);
  [[nodiscard]] Step finish_group(LaneState& lane, const OpView& op);
  /// Gets the memory of the lane's group; parks the lane while the group's decision is open.
  /// `status`: why it must not run.
  [[nodiscard]] Step prepare_group(LaneState& lane, GroupTicket& ticket, Status& status);
  /// Runs the lane's group, or gives it up.
  [[nodiscard]] Status end_group(LaneState& lane, Status status);
  void settle_update(LaneId id);
  void settle(std::vector<DeferredDrop>& drops, LaneId watcher);
  /// The lanes that must still move on before these uses are done; registers `lane` with the first
  /// of them.
  [[nodiscard]] bool are_done(std::span<const DeferredDrop::Use> uses, LaneId watcher);
  [[nodiscard]] bool has_done(LaneId lane, std::uint64_t sequence) const;

  [[nodiscard]] LaneState& state_of(LaneId id);
  void set_priority(LaneId lane, Priority priority);
  void give_up(LaneId lane, std::uint64_t through);
  void make_ready(LaneState& lane);
  void park(LaneState& lane, ParkReason reason, Deadline deadline);
  void park_on(Slot& slot, LaneState& lane, Deadline deadline);
  /// For as long as the runtime's wait_limit, and on while somebody gets on who may end the wait.
  void park_by_default(LaneState& lane, ParkReason reason);
  void park_on(Slot& slot, LaneState& lane);
  [[nodiscard]] std::uint64_t progress_for(const LaneState& lane) const;
  /// Whether a lane whose deadline has passed waits on.
  [[nodiscard]] bool renew(LaneState& lane) const;
  /// What its lanes wait for, a line each.
  [[nodiscard]] std::string describe();
  [[nodiscard]] std::string describe(const LaneState& lane);
  [[nodiscard]] MemoryStatistics memory() const;
  /// The report of a deadline that passed here.
  [[nodiscard]] std::string report();
  /// The error of an op that waited in vain, with a report.
  [[nodiscard]] ErrorRef late(const OpView& op, const LaneState& lane, const char* text);
  void unpark(LaneState& lane);
  /// The same for a lane whose slot may still be waited for.
  void leave_slot(LaneState& lane) noexcept;
  void expire(LaneState& lane);
  /// The lane, if it waits for this loan.
  [[nodiscard]] LaneState* find_borrowed(LaneId lane, std::uint64_t loan) const noexcept;
  void expire_loan(LaneState& lane, const ErrorRef& error);
  [[nodiscard]] Status outcome_of_loan(const LaneState& lane, const Status& status) const;
  /// Gives this generation up: from now on everything fails with `error`, unless the device is lost
  /// already.
  void lose(ErrorRef error);
  /// A new generation on a fresh backend. What the old one still owns is lost. Errors: those of
  /// opening the device.
  void restart();
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
  std::vector<DeviceQuestion> questions_;
  int question_turns_ = 0;
  std::uint64_t tokens_lent_ = 0;
  // What the actor's thread reads when it goes to sleep without the token.
  std::atomic<Deadline> next_deadline_{Deadline::never()};  // of a parked lane
  std::atomic<std::uint64_t> records_seen_{0};
};

}  // namespace hearth
