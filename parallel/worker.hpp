// DeviceWorker: a thread beside a device, which runs functions one after the other. Modules,
// tensors and gradients are moved in with a function and move out with its result. Owned by the
// program; the Runtime outlives it. Threads: run() from any; the functions run on the worker's own
// thread, which is pinned to the device's cores. Invariants: (1) functions run in the order of
// run(); (2) a function that throws ends its own Pending and nothing else; (3) what is queued when
// the worker ends is dropped: its Pending says `cancelled`; (4) a function that does not come back
// keeps nobody: what its thread touches of the worker is the thread's own.
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
  int rank = 0;            ///< This worker's number …
  int world = 1;           ///< … among so many.
  std::uint64_t seed = 0;  ///< Seed of the worker's generator.
  /// How long the destructor waits for the function that runs.
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;
};

/// What a function finds on its worker. Threads: the worker's.
struct WorkerContext {
  int rank = 0;
  int world = 1;
  Device device;
  /// Of this worker alone: the same seed and rank give the same numbers. Also the one that
  /// current_generator() finds.
  Generator generator;
  /// Beside the thread's default stream: for transfers that go on while that one computes.
  Stream communication;
  /// Requested when the worker is to end: for functions that wait (Pending::get) or go on for long.
  std::stop_token stop;
  std::string subject;  ///< How errors call this worker: "worker 1 on sim:1".
  /// The program's call that the function is a part of, for errors. The caller's function sets it;
  /// the next one finds it empty.
  SourceLoc where = {};

  /// The exception being handled, as this worker's: the same error with the worker's name in its
  /// text; worker_failed with the cause where it is none of the library's exceptions, or where a
  /// device, a deadline or a wait was given up.
  [[nodiscard]] ErrorRef failure() const;
};

class DeviceWorker final {
 public:
  DeviceWorker(const Runtime& runtime, const Device& device, WorkerOptions options = {});
  DeviceWorker(const DeviceWorker&) = delete;
  DeviceWorker& operator=(const DeviceWorker&) = delete;
  /// Asks the function that runs now to stop (WorkerContext::stop) and waits for it up to the
  /// limit; drops those behind it. A function that does not come back is named in the log and left
  /// behind with its thread: what it was given by reference must outlive it.
  ~DeviceWorker();

  /// Queues fn(context, args...). The arguments are handed over to the worker and the result back:
  /// tensors, gradients and modules in them are published and adopted (see hand_over.hpp); the
  /// caller may take_over() the result.
  ///
  /// A wait for the result that names no deadline goes on as long as the worker's device gets on
  /// (RuntimeOptions::wait_limit).
  ///
  /// Errors: what fn throws, as WorkerContext::failure() has it; cancelled when the worker ended
  /// first.
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

  /// The plain form: the job must not throw.
  void post(UniqueFunction<void(WorkerContext&)> job);

  [[nodiscard]] const Device& device() const noexcept { return device_; }
  [[nodiscard]] int rank() const noexcept { return options_.rank; }
  /// Gives up what is queued, now and from here on, and asks the function that runs now to stop,
  /// without waiting.
  void stop() noexcept;
  /// What the destructor does, by this deadline. Whether the function came back. Threads: the
  /// owner's.
  bool end(Deadline deadline);

 private:
  using Job = UniqueFunction<void(WorkerContext&)>;

  /// What the worker and its thread share.
  struct Desk {
    std::stop_source stop;
    detail::Mailbox<Job> jobs;
    std::atomic<bool> is_running{false};

    [[nodiscard]] std::string look() const;
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
