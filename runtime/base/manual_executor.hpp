// ManualExecutor: every thread is a logical thread on the one OS thread that calls run(); a seed or
// a schedule chooses who goes next. Tests use it to step the whole system: the same program and
// seed give the same order of steps, in virtual time. Threads: owner only: one OS thread makes it,
// runs it and destroys it. Kernels and other code below must not start threads. Invariants: (1) a
// thread is interrupted only where it parks or at a schedule point; (2) the clock stands still
// while any thread can run, then jumps to the next deadline; (3) no real time and no thread id
// enters a choice.
#pragma once

#include <cstdint>
#include <memory>

#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/schedule.hpp>

namespace hearth {

struct ManualOptions {
  std::uint64_t max_steps =
      50'000'000;  ///< run() throws when it needs more: a thread that polls without end.
  /// Whether others may go first wherever a Mutex is about to be locked: many more orders of steps.
  bool preempts_at_locks = false;
};

class ManualExecutor final : public detail::Executor {
 public:
  /// Seed 0 runs the threads in turn; any other chooses at random among those that can run.
  explicit ManualExecutor(std::uint64_t seed = 0, ManualOptions options = {});
  /// The schedule chooses; what it throws leaves run(), as a failure of the program.
  explicit ManualExecutor(ScheduleFn schedule, ManualOptions options = {});
  ManualExecutor(const ManualExecutor&) = delete;
  ManualExecutor& operator=(const ManualExecutor&) = delete;
  ~ManualExecutor() override;

  /// Runs main_body as the logical thread "main", and all others with it, until it has returned and
  /// each other thread has finished or is parked for ever. May be called again; the clock goes on.
  ///
  /// Errors: what main_body or another thread's body throws, at once; Exception (internal) when
  /// main waits and no thread can ever run again, naming the parked ones, or when the steps run
  /// out. Lifetime: threads left parked are dropped without unwinding, what their stacks own leaks:
  /// join what you spawn.
  void run(UniqueFunction<void()> main_body);

  /// Time passes in which nobody runs, as when a process is stopped and goes on later.
  void stand_still(std::chrono::nanoseconds duration) noexcept;

  /// Steps so far: how often a thread was given the processor.
  [[nodiscard]] std::uint64_t step_count() const noexcept;

  /// May be called before run(); the thread starts with it.
  [[nodiscard]] std::unique_ptr<detail::Joinable> spawn(detail::ThreadOptions options,
                                                        UniqueFunction<void()> body) override;
  [[nodiscard]] bool is_manual() const noexcept override { return true; }
  [[nodiscard]] detail::Clock& clock() noexcept override;

 private:
  class Scheduler;
  class Thread;
  class Handle;

  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace hearth
