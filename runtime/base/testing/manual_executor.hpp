// ManualExecutor: every thread is a logical thread on the one OS thread that calls run(). A seed or
// a schedule chooses the next one. Tests use it to step the whole system: the same program and seed
// give the same order of steps, in virtual time.
// Threads: owner only: one OS thread makes it, runs it and destroys it. Kernels and other code
// below must not start threads.
// Invariants: (1) a thread is interrupted only where it parks or at a schedule point; (2) the clock
// stands still while any thread can run, then jumps to the next deadline; (3) no choice depends on
// real time or on a thread id.
#pragma once

#include <cstdint>
#include <memory>

#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/schedule.hpp>

namespace hearth {

struct ManualOptions {
  std::uint64_t max_steps =
      50'000'000;  ///< Limit of steps, after which run() throws: a thread polls without end.
  /// Whether another thread may be scheduled wherever a Mutex is about to be locked: many more
  /// orders of steps.
  bool preempts_at_locks = false;
};

class ManualExecutor final : public detail::Executor {
 public:
  /// Makes an executor. Seed 0 runs the threads in turn; any other seed chooses at random among
  /// those that can run.
  explicit ManualExecutor(std::uint64_t seed = 0, ManualOptions options = {});
  /// Makes an executor with this schedule. An exception of the schedule leaves run() like a failure
  /// of the program.
  explicit ManualExecutor(ScheduleFn schedule, ManualOptions options = {});
  ManualExecutor(const ManualExecutor&) = delete;
  ManualExecutor& operator=(const ManualExecutor&) = delete;
  ~ManualExecutor() override;

  /// Runs main_body as the logical thread "main", and all others with it. Returns when main_body
  /// has returned and each other thread has finished or is parked for ever. May be called again;
  /// the clock continues.
  ///
  /// Errors: an exception of main_body or of another thread's body, at once; Exception (internal)
  /// if main waits and no thread can ever run again, naming the parked ones, or if the steps run
  /// out.
  /// Lifetime: threads left parked are dropped without unwinding, and objects on their stacks leak:
  /// join what you spawn.
  void run(UniqueFunction<void()> main_body);

  /// Advances the time without running a thread, as if the process was stopped and continued.
  void stand_still(std::chrono::nanoseconds duration) noexcept;

  /// Returns the number of steps so far. A step resumes one thread.
  [[nodiscard]] std::uint64_t step_count() const noexcept;

  /// Spawns a thread. If called before run(), the thread starts with run().
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
