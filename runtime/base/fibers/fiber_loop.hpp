// FiberLoop: one thread that runs fibers around an asio io_context, one fiber for each connection
// of a server. A fiber that awaits suspends itself, and the thread runs the others.
// Header-internal: its includes are Boost's. Owned by a server.
// Threads: start(), post() from any; construction and end() by the owner.
// Invariants: (1) a fiber lives on its loop's thread; (2) a fiber never waits for a device or
// parks, which would hold up all other fibers, and never awaits inside of a StreamScope or a tape,
// which they would enter: both are refused (FiberMark); (3) a loop whose
// thread is abandoned keeps what its fibers use.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>

#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/fiber_mark.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/owned_thread.hpp>
#include <hearth/runtime/base/pending.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

namespace hearth {
class Fiber;
}  // namespace hearth

namespace hearth::detail {

/// State that a loop shares with its thread, its fibers and those who wake them.
struct FiberLoopState {
  boost::asio::io_context io{1};  // one thread runs it
};

/// One fiber of a FiberLoop. Threads: the loop's.
class FiberThread final : public std::enable_shared_from_this<FiberThread> {
 public:
  using Body = UniqueFunction<void(FiberThread&)>;

  /// Made by FiberLoop::start().
  FiberThread(std::shared_ptr<FiberLoopState> loop, Body body);
  FiberThread(const FiberThread&) = delete;
  FiberThread& operator=(const FiberThread&) = delete;
  ~FiberThread();

  /// Calls `start(handler)`, which begins an asynchronous operation of the loop's io_context, and
  /// suspends the fiber until the handler is called. Returns the handler's arguments.
  /// Errors: ArgumentError stream_misuse inside of a StreamScope, a WeightScope or a tape.
  template <class... Results, class Start>
  [[nodiscard]] std::tuple<Results...> await(const Start& start) {
    require_no_thread_scope();
    std::optional<std::tuple<Results...>> results;
    start([this, &results](Results... each) {
      results.emplace(std::move(each)...);
      run();
    });
    while (!results) {
      suspend();
    }
    return *std::move(results);
  }

  /// Suspends the fiber until the result is ready or a stop is requested. Returns the ready
  /// result, or an empty Pending after the stop. Errors: as await().
  template <class T>
  [[nodiscard]] Pending<T> await_result(Pending<T> pending,
                                        ContinuationRunner& runner,
                                        const std::stop_token& stop) {
    require_no_thread_scope();
    struct Meeting {
      FiberThread* fiber;
      Pending<T> ready = {};
      bool is_over = false;
    };
    const auto meeting = std::make_shared<Meeting>(Meeting{.fiber = this});
    // The posted functions hold no loop: the loop's own queue would keep it alive.
    PendingAccess::when_ready(
        std::move(pending), runner, [loop = loop_, meeting](Pending<T> ready) mutable {
          boost::asio::post(loop->io,
                            [meeting = std::move(meeting), ready = std::move(ready)]() mutable {
                              if (!meeting->is_over) {
                                meeting->ready = std::move(ready);
                                meeting->fiber->run();
                              }
                            });
        });
    const std::stop_callback on_stop(stop, [loop = loop_, meeting] {
      boost::asio::post(loop->io, [meeting] {
        if (!meeting->is_over) {
          meeting->fiber->run();
        }
      });
    });
    while (!meeting->ready.is_valid() && !stop.stop_requested()) {
      suspend();
    }
    meeting->is_over = true;
    return std::move(meeting->ready);
  }

  /// Enters the fiber for the first time. For the loop.
  void begin();

 private:
  /// Runs the fiber until it suspends or ends. Called outside of fibers.
  void run();
  void suspend();

  const std::shared_ptr<FiberLoopState> loop_;
  Body body_;
  std::unique_ptr<Fiber> fiber_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::shared_ptr<FiberThread> self_;  // until the body has returned
};

struct FiberLoopOptions {
  std::string name = "fibers";                             ///< Name of the thread.
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;  ///< Limit of the destructor's wait.
  Log* log = nullptr;  ///< Outlives the loop; nullptr: the standard error stream.
};

class FiberLoop final {
 public:
  /// Starts the thread.
  ///
  /// Errors: those of Executor::spawn.
  FiberLoop(Executor& executor, const FiberLoopOptions& options);
  FiberLoop(const FiberLoop&) = delete;
  FiberLoop& operator=(const FiberLoop&) = delete;
  /// Ends the loop, within shutdown_limit.
  ~FiberLoop();

  [[nodiscard]] boost::asio::io_context& io() noexcept { return state_->io; }
  /// Runs `body` in a new fiber. The body must not throw.
  void start(FiberThread::Body body);
  /// Runs `function` on the loop's thread, outside of fibers. It must not throw or wait.
  void post(UniqueFunction<void()> function);
  /// Waits until all fibers have ended, and ends the thread. Abandons the thread at the deadline.
  /// Returns whether it ended. Further calls return at once.
  bool end(Deadline deadline);

 private:
  const std::shared_ptr<FiberLoopState> state_;
  // Keeps the thread running while no fiber lives.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::unique_ptr<OwnedThread> thread_;
};

}  // namespace hearth::detail
