// The device actor: a loop with a token that consumes a device's lanes and drives its backend.
// Normally on a thread of its own; a thread that waits for an inline device may hold the token for
// a while and run the loop on its own core. Private to runtime. Threads: the token holder only, but
// for thread_main (the actor's thread). Invariants: (1) one holder at a time; (2) the loop never
// blocks and never runs user code: what must wait parks its lane; (3) lanes take turns of at most
// kTurnRecords records, so that none starves; (4) no exception leaves the loop.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/device.hpp>

#include "completions.hpp"
#include "device_memory.hpp"
#include "dispatch.hpp"
#include "group_runner.hpp"
#include "handle_table.hpp"
#include "in_flight.hpp"
#include "join_runner.hpp"
#include "lane_queues.hpp"
#include "records.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/device_loop.hpp"
#include "runtime/client/device_message.hpp"
#include "wait_report.hpp"
#include "window_runner.hpp"

namespace hearth {

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

  /// Runs turns until nothing is runnable or `until` says so, and gives the token back.
  void run(UntilFn until, const void* context, Deadline deadline) noexcept;
  /// The windows of lanes that linger end where a question or the shutdown waits.
  void end_windows_for_duties();
  void run_next_lane(UntilFn until, const void* context);
  /// Gives the token back, unless a ring came first.
  [[nodiscard]] bool try_leave(bool is_borrower) noexcept;
  void collect();
  /// Ends the waits, and the windows of lanes that linger, whose deadline has passed.
  void end_waits();
  void receive(DeviceMessage& message);
  void keep_question(DeviceQuestion question);
  void answer_questions();
  void answer(DeviceQuestion& question);
  /// Lanes that wait for memory go on when some was released; when nobody else can run, the
  /// youngest gets what there is, or fails.
  void serve_memory_waits();
  void take_turn(LaneState& lane, UntilFn until, const void* context);
  /// Looks at the lane's next record, or runs it. False: the lane waits.
  [[nodiscard]] bool take_record(LaneState& lane, const OpRecord& record);
  void end_turn(LaneState& lane);
  /// Runs the ops that are held longest (true), once no lane is left that could join; lets all go
  /// when it is enough.
  [[nodiscard]] bool run_held(bool is_enough);
  void run_join_group();
  /// What a record's work brings about for other lanes.
  void after_record() {
    if (dispatch_.has_aftermath()) [[unlikely]] {
      finish_aftermath();
    }
  }
  void finish_aftermath();
  /// Ends the lane's wait in vain.
  void expire(LaneState& lane);
  /// The waiter says that work has ended, or that the device is lost.
  void note_work_ended(const WorkEnded& ended);
  /// Gives this generation up: from now on everything fails with `error`, unless the device is lost
  /// already.
  void lose(ErrorRef error);
  /// A new generation on a fresh backend. What the old one still owns is lost. Errors: those of
  /// opening the device.
  void restart();
  /// The device is lost: lets go of everyone who waits here for what will not come.
  void note_loss();
  void become_lost();
  void notify_watchers(LaneState& lane);
  void close_lane(LaneState& lane);
  void finish_stop() noexcept;
  /// True at the beginning of a long sleep before which there are failures to let go: then it has
  /// not slept.
  [[nodiscard]] bool sleep(int& timed_sleeps, std::uint64_t& seen_records);
  /// No sync() came for a moment: failures that nobody else carries die now, which the log reports.
  void let_failures_go();
  [[nodiscard]] MemoryStatistics memory() const;
  /// What the program calls its tensors, for pictures of the memory.
  void name_blocks();
  [[nodiscard]] MemoryTrace take_memory_trace();
  /// Memory and queue, for a trace, unless it was a moment ago.
  void trace_figures(detail::TimePoint now);

  IntrusivePtr<DeviceEndpoint> endpoint_;
  const DeviceActorOptions options_;
  std::shared_ptr<DeviceMemory> memory_;
  InFlight in_flight_;
  HandleTable handles_;
  Dispatch dispatch_;
  LaneQueues queues_;
  WaitReport report_;
  Records records_;
  JoinRunner join_;
  WindowRunner windows_;
  GroupRunner groups_;
  Completions completions_;
  bool is_lost_ = false;
  std::uint64_t released_blocks_ = 0;  // when the lanes that wait for memory were last woken
  bool is_stopping_ = false;
  bool has_stopped_ = false;
  Deadline stop_limit_ = Deadline::never();
  std::vector<DeviceQuestion> questions_;
  int question_turns_ = 0;
  std::uint64_t tokens_lent_ = 0;
  detail::TimePoint figures_traced_at_ = {};
  /// What the actor's thread reads when it goes to sleep without the token.
  std::atomic<std::uint64_t> records_seen_{0};
  std::atomic<bool> keeps_failures_{false};  // lanes carry some
};

}  // namespace hearth
