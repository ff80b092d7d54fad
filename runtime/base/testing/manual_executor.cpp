#include <hearth/runtime/base/manual_executor.hpp>

#include "runtime/base/fibers/fiber.hpp"

#include <hearth/runtime/base/error.hpp>

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace hearth {
namespace {

class VirtualClock final : public detail::Clock {
 public:
  [[nodiscard]] detail::TimePoint now() const noexcept override { return now_; }
  [[nodiscard]] std::chrono::nanoseconds standstill(
      detail::TimePoint /*now*/) const noexcept override {
    return standstill_;
  }
  void jump(std::chrono::nanoseconds by) noexcept { now_ += by; }
  void stand_still(std::chrono::nanoseconds duration) noexcept {
    now_ += duration;
    standstill_ += duration;
  }

 private:
  detail::TimePoint now_{};
  std::chrono::nanoseconds standstill_{};
};

/// State that a Handle shares with its thread; it outlives the thread.
struct Completion {
  bool has_ended = false;
  IntrusivePtr<detail::Parker> joiner;

  void end() noexcept {
    has_ended = true;
    if (joiner) {
      joiner->unpark();
    }
  }
};

}  // namespace

class ManualExecutor::Thread final : public detail::LogicalThread {
 public:
  Thread(Scheduler& scheduler, ThreadNumber number, std::string name, UniqueFunction<void()> body);

  /// Runs the thread until it suspends, yields or ends.
  void resume();
  void suspend(Deadline deadline) override;
  void make_ready() noexcept override;
  void yield() override;
  void reach_lock() override;
  /// Abandons a thread: it never runs again, and the objects on its stack stay where they are.
  static void abandon(std::unique_ptr<Thread> thread) noexcept;

  [[nodiscard]] ThreadNumber number() const noexcept { return number_; }
  [[nodiscard]] const std::string& name() const noexcept { return context_.name(); }
  [[nodiscard]] const std::shared_ptr<Completion>& completion() const noexcept {
    return completion_;
  }
  [[nodiscard]] bool is_parked() const noexcept { return is_parked_; }
  [[nodiscard]] Deadline deadline() const noexcept { return deadline_; }

 private:
  void run_body() noexcept;

  Scheduler& scheduler_;
  ThreadNumber number_;
  std::shared_ptr<Completion> completion_ = std::make_shared<Completion>();
  UniqueFunction<void()> body_;
  detail::ThreadContext context_;
  bool is_parked_ = false;
  Deadline deadline_ = Deadline::never();
  std::unique_ptr<Fiber> fiber_;
};

class ManualExecutor::Scheduler final {
 public:
  Scheduler(ScheduleFn schedule, ManualOptions options)
      : options_(options), schedule_(std::move(schedule)) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() { abandon_all(); }

  std::shared_ptr<Completion> add(std::string name, UniqueFunction<void()> body) {
    threads_.push_back(
        std::make_unique<Thread>(*this, thread_count_++, std::move(name), std::move(body)));
    push_ready(*threads_.back());
    return threads_.back()->completion();
  }
  void run(UniqueFunction<void()> main_body);

  void push_ready(Thread& thread) { ready_.push_back(&thread); }
  void register_failure(std::exception_ptr failure) noexcept {
    if (!failure_) {
      failure_ = std::move(failure);
    }
  }
  [[nodiscard]] VirtualClock& clock() noexcept { return clock_; }
  [[nodiscard]] std::uint64_t step_count() const noexcept { return step_count_; }
  [[nodiscard]] bool preempts_at_locks() const noexcept { return options_.preempts_at_locks; }
  [[nodiscard]] bool is_on_own_thread() const noexcept {
    return std::this_thread::get_id() == os_thread_;
  }

 private:
  Thread* take_next();
  void release_expired();
  void remove_ended(const Thread* thread);
  void abandon_all() noexcept;
  [[nodiscard]] Error deadlock() const;

  ManualOptions options_;
  ScheduleFn schedule_;
  ThreadNumber thread_count_ = 0;
  ThreadNumber previous_ = 0;
  bool is_running_ = false;
  std::uint64_t step_count_ = 0;
  std::uint64_t run_steps_ = 0;
  VirtualClock clock_;
  std::thread::id os_thread_;
  std::exception_ptr failure_;
  std::vector<std::unique_ptr<Thread>> threads_;  // in order of spawning
  std::vector<Thread*> ready_;                    // the longest ready first
  std::vector<ThreadNumber> runnable_;            // threads of ready_, while the schedule chooses
};

class ManualExecutor::Handle final : public detail::Joinable {
 public:
  explicit Handle(std::shared_ptr<Completion> completion) : completion_(std::move(completion)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() override { static_cast<void>(Handle::join(Deadline::never())); }

  bool join(Deadline deadline) override {
    // Outside run() no thread makes progress: the thread has ended or waits for the next run().
    while (!is_detached_ && !completion_->has_ended && detail::current_context().is_manual()) {
      detail::Parker& parker = detail::current_context().parker();
      completion_->joiner = IntrusivePtr<detail::Parker>(&parker);
      const detail::Wake wake = parker.park(deadline);
      completion_->joiner = nullptr;
      if (wake == detail::Wake::deadline) {
        return completion_->has_ended;
      }
    }
    return true;
  }
  void detach() override { is_detached_ = true; }

 private:
  std::shared_ptr<Completion> completion_;
  bool is_detached_ = false;
};

// ---- Thread

ManualExecutor::Thread::Thread(Scheduler& scheduler,
                               ThreadNumber number,
                               std::string name,
                               UniqueFunction<void()> body)
    : scheduler_(scheduler),
      number_(number),
      body_(std::move(body)),
      context_(std::move(name), scheduler.clock(), *this),
      fiber_(std::make_unique<Fiber>([this] { run_body(); })) {}

void ManualExecutor::Thread::resume() {
  detail::ThreadContext* const outer = detail::exchange_current_context(&context_);
  fiber_->resume();
  detail::exchange_current_context(outer);
  if (fiber_->has_ended()) {
    completion_->end();
  }
}

void ManualExecutor::Thread::run_body() noexcept {
  try {
    body_();
  } catch (...) {
    scheduler_.register_failure(std::current_exception());
  }
  body_ = nullptr;
  context_.clear_attachments();
}

void ManualExecutor::Thread::suspend(Deadline deadline) {
  if (deadline.has_passed()) {
    yield();
    return;
  }
  is_parked_ = true;
  deadline_ = deadline;
  fiber_->suspend();
}

void ManualExecutor::Thread::make_ready() noexcept {
  HEARTH_ASSERT(scheduler_.is_on_own_thread(), "a logical thread was woken by another OS thread");
  if (is_parked_) {  // otherwise its deadline passed first, and it is ready
    is_parked_ = false;
    scheduler_.push_ready(*this);
  }
}

void ManualExecutor::Thread::yield() {
  scheduler_.push_ready(*this);
  fiber_->suspend();
}

void ManualExecutor::Thread::reach_lock() {
  if (scheduler_.preempts_at_locks()) {
    yield();
  }
}

void ManualExecutor::Thread::abandon(std::unique_ptr<Thread> thread) noexcept {
  thread->context_.parker().abandon();
  thread->completion_->end();
  // Neither unwound nor freed. Unwinding would run destructors that wait for threads which never
  // run again, and living queues may point into the stack.
  const Thread* const leaked = thread.release();
  leaked->fiber_->keep_reachable();
}

// ---- Scheduler

void ManualExecutor::Scheduler::run(UniqueFunction<void()> main_body) {
  HEARTH_ASSERT(!is_running_, "run() was called from inside run()");
  is_running_ = true;
  os_thread_ = std::this_thread::get_id();
  run_steps_ = 0;
  const auto main = add("main", std::move(main_body));
  while (Thread* const thread = take_next()) {
    ++step_count_;
    if (++run_steps_ > options_.max_steps) {
      register_failure(std::make_exception_ptr(Exception(Error{
          .text = "manual executor: more than " + std::to_string(options_.max_steps) +
                  " steps: a thread polls without end; the last to run was " + thread->name()})));
    } else {
      thread->resume();
    }
    if (thread->completion()->has_ended) {
      remove_ended(thread);
    }
    if (failure_) {
      break;
    }
  }
  if (!failure_ && !main->has_ended) {
    register_failure(std::make_exception_ptr(Exception(deadlock())));
  }
  abandon_all();
  is_running_ = false;
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

ManualExecutor::Thread* ManualExecutor::Scheduler::take_next() {
  if (ready_.empty()) {
    release_expired();
  }
  if (ready_.empty()) {
    return nullptr;
  }
  runnable_.clear();
  for (const Thread* const thread : ready_) {
    runnable_.push_back(thread->number());
  }
  std::size_t index = 0;
  try {
    index = schedule_(runnable_, previous_);
  } catch (...) {
    register_failure(std::current_exception());
    return nullptr;
  }
  HEARTH_ASSERT(index < ready_.size(), "a schedule chose a thread that is not there");
  Thread* const next = ready_[index];
  ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(index));
  previous_ = next->number();
  return next;
}

void ManualExecutor::Scheduler::release_expired() {
  Deadline first = Deadline::never();
  for (const auto& thread : threads_) {
    if (thread->is_parked()) {
      first = std::min(first, thread->deadline());
    }
  }
  if (first.is_never()) {
    return;
  }
  clock_.jump(first.left(clock_));
  for (const auto& thread : threads_) {
    if (thread->is_parked() && thread->deadline() <= first) {
      thread->make_ready();
    }
  }
}

void ManualExecutor::Scheduler::remove_ended(const Thread* thread) {
  std::erase_if(threads_, [thread](const auto& each) { return each.get() == thread; });
}

void ManualExecutor::Scheduler::abandon_all() noexcept {
  ready_.clear();
  while (!threads_.empty()) {
    std::unique_ptr<Thread> thread = std::move(threads_.back());
    threads_.pop_back();
    Thread::abandon(std::move(thread));
  }
  ready_.clear();  // joiners of abandoned threads
}

Error ManualExecutor::Scheduler::deadlock() const {
  std::string names;
  for (const auto& thread : threads_) {
    names += (names.empty() ? "" : ", ") + thread->name();
  }
  return Error{.text = "deadlock: every thread is parked and none has a deadline: " + names};
}

// ---- ManualExecutor

ManualExecutor::ManualExecutor(std::uint64_t seed, ManualOptions options)
    : ManualExecutor(seed == 0 ? in_turn() : random_schedule(seed), options) {}

ManualExecutor::ManualExecutor(ScheduleFn schedule, ManualOptions options)
    : scheduler_(std::make_unique<Scheduler>(std::move(schedule), options)) {}

ManualExecutor::~ManualExecutor() = default;

void ManualExecutor::run(UniqueFunction<void()> main_body) {
  scheduler_->run(std::move(main_body));
}

std::uint64_t ManualExecutor::step_count() const noexcept {
  return scheduler_->step_count();
}

std::unique_ptr<detail::Joinable> ManualExecutor::spawn(detail::ThreadOptions options,
                                                        UniqueFunction<void()> body) {
  return std::make_unique<Handle>(scheduler_->add(std::move(options.name), std::move(body)));
}

void ManualExecutor::stand_still(std::chrono::nanoseconds duration) noexcept {
  scheduler_->clock().stand_still(duration);
}

detail::Clock& ManualExecutor::clock() noexcept {
  return scheduler_->clock();
}

}  // namespace hearth
