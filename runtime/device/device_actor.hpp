// The device actor: a loop that consumes a device's lanes and drives its backend. The holder of the
// token runs the loop: normally the actor's own thread, for a while also a thread that waits for an
// inline device. Private to runtime.
// Threads: the token holder only, except thread_main (the actor's thread).
// Invariants: (1) one holder at a time; (2) a lane that must wait parks; the README lists the few
// places where the loop blocks or runs user code; (3) lanes take turns of at most kTurnRecords
// records, so that none starves; (4) no exception leaves the loop.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/device.hpp>

#include "join_runner.hpp"
#include "records.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/device_loop.hpp"
#include "runtime/client/device_message.hpp"
#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/dispatch/in_flight.hpp"
#include "runtime/device/fusion/group_runner.hpp"
#include "runtime/device/lanes/completions.hpp"
#include "runtime/device/lanes/lane_queues.hpp"
#include "runtime/device/lanes/wait_report.hpp"
#include "runtime/device/lanes/window_runner.hpp"
#include "runtime/device/memory/device_memory.hpp"
#include "runtime/device/memory/handle_table.hpp"

namespace hearth {

class DeviceActor final : public DeviceLoop {
 public:
  DeviceActor(IntrusivePtr<DeviceEndpoint> endpoint,
              std::unique_ptr<Backend> backend,
              const DeviceActorOptions& options);
  DeviceActor(const DeviceActor&) = delete;
  DeviceActor& operator=(const DeviceActor&) = delete;
  ~DeviceActor();

  /// Runs the actor until the device is stopped. Threads: the actor's own.
  void thread_main();
  void run_borrowed(UntilFn until, const void* context, Deadline deadline) noexcept override;

  [[nodiscard]] DeviceStatistics statistics() noexcept;
  [[nodiscard]] MemoryReport memory_report() const;

 private:
  static constexpr int kTurnRecords = 16;
  static constexpr int kTimedSleeps = 20;
  static constexpr int kQuestionTurns = 1000;

  /// Runs turns until no lane is runnable or `until` returns true, then releases the token.
  void run(UntilFn until, const void* context, Deadline deadline) noexcept;
  /// Ends the windows of lingering lanes if a question or the shutdown waits for them.
  void end_windows_for_duties();
  void run_next_lane(UntilFn until, const void* context);
  /// Looks for rings and for the end of work for the runtime's busy_wait. Returns whether there is
  /// more to do. Only for asynchronous devices, whose work ends without a message.
  [[nodiscard]] bool finds_more() noexcept;
  /// Releases the token, unless a ring came first.
  [[nodiscard]] bool try_leave(bool is_borrower) noexcept;
  void collect();
  /// Ends the waits of parked lanes, and the windows of lingering lanes, whose deadline has passed.
  void end_waits();
  void receive(DeviceMessage& message);
  void keep_question(DeviceQuestion question);
  void answer_questions();
  void answer(DeviceQuestion& question);
  /// Wakes lanes that wait for memory after a release. If no other lane can run, the youngest
  /// waiter gets the free memory or fails.
  void serve_memory_waits();
  void take_turn(LaneState& lane, UntilFn until, const void* context);
  /// Adds the lane's next record to its window, or runs it. Returns false if the lane waits.
  [[nodiscard]] bool take_record(LaneState& lane, const OpRecord& record);
  void end_turn(LaneState& lane);
  /// Runs the ops that the row join has held longest once no further lane could join, and returns
  /// true. Releases all held lanes when `is_enough`.
  [[nodiscard]] bool run_held(bool is_enough);
  void run_join_group();
  /// Processes the effects of a record on other lanes.
  void after_record() {
    if (dispatch_.has_aftermath()) [[unlikely]] {
      finish_aftermath();
    }
  }
  void finish_aftermath();
  /// Fails the wait of a lane whose deadline has passed.
  void expire(LaneState& lane);
  /// Handles the waiter's message that work has ended, or that the device is lost.
  void record_work_ended(const WorkEnded& ended);
  /// Ends this generation: all further work fails with `error`, unless the device is lost already.
  void lose(ErrorRef error);
  /// Begins a new generation on a fresh backend; what the old one still owns is lost. Errors: those
  /// of opening the device.
  void restart();
  /// Notifies every waiter of a lost device.
  void record_loss();
  void become_lost();
  void notify_watchers(LaneState& lane);
  void close_lane(LaneState& lane);
  void finish_stop() noexcept;
  /// Returns true, without having slept, before a long sleep if unread failures must be released
  /// first.
  [[nodiscard]] bool sleep(int& timed_sleeps, std::uint64_t& seen_records);
  /// Releases failures after an idle moment without sync(): those without another holder are
  /// logged.
  void release_failures();
  [[nodiscard]] MemoryStatistics memory() const;
  /// Gives memory blocks the program's names of their tensors, for memory traces.
  void name_blocks();
  [[nodiscard]] MemoryTrace take_memory_trace();
  /// Adds the figures of memory and queue to the trace, unless the last ones are recent.
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
  // release count when the lanes that wait for memory were last woken
  std::uint64_t released_blocks_ = 0;
  bool is_stopping_ = false;
  bool has_stopped_ = false;
  Deadline stop_limit_ = Deadline::never();
  std::vector<DeviceQuestion> questions_;
  int question_turns_ = 0;
  std::uint64_t tokens_lent_ = 0;
  detail::TimePoint figures_traced_at_ = {};
  /// Number of consumed records. The actor's thread reads it when it sleeps without the token.
  std::atomic<std::uint64_t> records_seen_{0};
  std::atomic<bool> keeps_failures_{false};  // lanes carry unread failures
};

}  // namespace hearth
