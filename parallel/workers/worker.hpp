// DeviceWorker: a thread beside a device, which runs functions one after the other. Modules,
// tensors and gradients move in with a function and out with its result. Owned by the program; the
// Runtime outlives it.
// Threads: run() from any; the functions run on the worker's own thread, which is pinned to the
// device's cores.
// Invariants: (1) functions run in the order of run(); (2) a function that throws ends its own
// Pending and nothing else; (3) functions still queued when the worker ends are dropped, and their
// Pendings end as `cancelled`; (4) a function that never returns blocks no other thread: all state
// that its thread uses belongs to that thread.
#pragma once

#include <hearth/parallel/hand_over.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/owned_thread.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/unique_function.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace hearth {

struct WorkerOptions {
  int rank = 0;            ///< This worker's number.
  int world = 1;           ///< Number of workers.
  std::uint64_t seed = 0;  ///< Seed of the worker's generator.
  /// Limit of the destructor's wait for the running function.
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;
};

/// State that a worker passes to its functions. Threads: the worker's.
struct WorkerContext {
  int rank = 0;
  int world = 1;
  Device device;
  /// The worker's own generator: the same seed and rank give the same numbers. current_generator()
  /// finds it too.
  Generator generator;
  /// A stream beside the thread's default one, for transfers that overlap its computation.
  Stream communication;
  /// Requested when the worker ends; for functions that wait (Pending::get) or run for long.
  std::stop_token stop;
  std::string subject;  ///< Name of this worker in errors: "worker 1 on sim:1".
  /// The program's call that the function belongs to, for errors. The caller's function sets it;
  /// the next function finds it empty.
  SourceLoc where = {};

  /// Converts the exception being handled to this worker's error. An exception of the library keeps
  /// its error and gets the worker's name in its text. Any other exception, a lost device, a
  /// deadline or a cancelled wait becomes worker_failed with the cause.
  [[nodiscard]] ErrorRef failure() const;
};

class DeviceWorker final {
 public:
  DeviceWorker(const Runtime& runtime, const Device& device, WorkerOptions options = {});
  DeviceWorker(const DeviceWorker&) = delete;
  DeviceWorker& operator=(const DeviceWorker&) = delete;
  /// Requests the running function to stop (WorkerContext::stop), waits for it up to the limit, and
  /// drops the queued ones. A function that does not return is logged and abandoned with its
  /// thread: objects that it refers to must outlive it.
  ~DeviceWorker();

  /// Queues fn(context, args...). The arguments are handed over to the worker and the result back:
  /// tensors, gradients and modules in them are published and adopted (see hand_over.hpp). The
  /// caller may take_over() the result. A wait for the result without a deadline continues while
  /// the worker's device makes progress (RuntimeOptions::wait_limit).
  ///
  /// Errors: the exception of fn, as WorkerContext::failure() converts it; cancelled when the
  /// worker ended first.
  template <class Fn, class... Args>
  auto run(Fn fn, Args... args) {
    using R = std::invoke_result_t<Fn&, WorkerContext&, Args...>;
    static_assert(!std::is_reference_v<R>, "a worker's function returns a value");
    Promise<R> promise(PendingOptions{.subject = subject_, .helper = device_.wait_terms()});
    Pending<R> pending = promise.pending();
    (hand_over(args), ...);
    post([fn = std::move(fn),
          inputs = std::tuple<Args...>(std::move(args)...),
          promise = std::move(promise)](WorkerContext& context) mutable {
      try {
        take_over(inputs);
        const auto call = [&](Args&... each) -> R { return fn(context, std::move(each)...); };
        if constexpr (std::is_void_v<R>) {
          std::apply(call, inputs);
          promise.set_value();
        } else {
          R result = std::apply(call, inputs);
          hand_over(result);
          promise.set_value(std::move(result));
        }
      } catch (...) {
        promise.set_error(context.failure());
      }
    });
    return pending;
  }

  /// Queues a job that must not throw.
  void post(UniqueFunction<void(WorkerContext&)> job);

  [[nodiscard]] const Device& device() const noexcept { return device_; }
  [[nodiscard]] int rank() const noexcept { return options_.rank; }
  /// Drops queued functions, now and later, and requests the running function to stop, without
  /// waiting.
  void stop() noexcept;
  /// Stops the worker and waits until the deadline. Returns whether the running function returned.
  /// Threads: the owner's.
  bool end(Deadline deadline);

 private:
  using Job = UniqueFunction<void(WorkerContext&)>;

  /// State that the worker and its thread share.
  struct Desk {
    std::stop_source stop;
    detail::Mailbox<Job> jobs;
    std::atomic<bool> is_running{false};

    [[nodiscard]] std::string describe() const;
    void work(WorkerContext& context);
  };

  const Device device_;
  const WorkerOptions options_;
  const std::string subject_;
  const IntrusivePtr<detail::Watchdog> watchdog_;
  const std::shared_ptr<Desk> desk_ = std::make_shared<Desk>();
  std::unique_ptr<detail::OwnedThread> thread_;
};

}  // namespace hearth
