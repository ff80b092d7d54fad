// The background tuner: runs trials of a device's calls while the device is idle. It has a thread
// of its own, which gives way to all others, and a backend of its own. Private to runtime. Threads:
// as each function states. Invariants: (1) a trial touches neither bytes nor memory of the program;
// (2) over any span, trials take at most TuneBudgetOptions::share of the time, plus a burst and a
// step; (3) without a wanted call the thread sleeps, and has no backend; (4) work of the device
// ends a step within one run of a kernel, and so does stop(); (5) each result is committed to the
// store before the device uses it, so the end of a run has nothing to save.
#pragma once

#include <hearth/autotune/tune_budget.hpp>
#include <hearth/autotune/tune_queue.hpp>
#include <hearth/autotune/tune_store.hpp>
#include <hearth/backends/backend.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/result.hpp>

#include "trial.hpp"
#include "tune_subject.hpp"
#include "wanted_call.hpp"

namespace hearth {

class DeviceEndpoint;

class BackgroundTuner final {
 public:
  explicit BackgroundTuner(TuneSubject subject) : subject_(std::move(subject)) {}
  BackgroundTuner(const BackgroundTuner&) = delete;
  BackgroundTuner& operator=(const BackgroundTuner&) = delete;
  ~BackgroundTuner() = default;

  /// Adds a call that has no settled entry. Threads: token holder.
  void want(const WantedCall& call) { static_cast<void>(messages_.try_push(call)); }
  /// Removes calls that were tuned elsewhere. Threads: any.
  void settle(std::vector<detail::TuneKey> keys) {
    static_cast<void>(messages_.try_push(std::move(keys)));
  }
  /// While one exists, no trial runs in the background. Threads: any.
  class Suspension final {
   public:
    explicit Suspension(BackgroundTuner& tuner) noexcept : tuner_(tuner) {
      tuner_.suspensions_.fetch_add(1, std::memory_order_acq_rel);  // partner: is_interrupted
    }
    Suspension(const Suspension&) = delete;
    Suspension& operator=(const Suspension&) = delete;
    ~Suspension() { tuner_.suspensions_.fetch_sub(1, std::memory_order_acq_rel); }

   private:
    BackgroundTuner& tuner_;
  };
  /// Ends the thread. Threads: any.
  void stop() noexcept;
  /// Describes what the thread does, for a log. Threads: any.
  [[nodiscard]] std::string describe() const;

  /// Runs trials until stop(), and sends their results to the endpoint. Threads: the tuner's own.
  void thread_main(DeviceEndpoint& endpoint);

 private:
  using Message = std::variant<WantedCall, std::vector<detail::TuneKey>>;

  void receive(Message message);
  /// Returns when the next step may begin at the earliest; never without a wanted call.
  [[nodiscard]] Deadline next_step();
  [[nodiscard]] bool has_wanted() const noexcept { return trial_ != nullptr || queue_.size() > 0; }
  /// Returns whether a step must not run, or has to end.
  [[nodiscard]] bool is_interrupted(const DeviceEndpoint& endpoint) const noexcept;
  /// Waits for the device to be idle for some time before the next step.
  void await_quiet(const DeviceEndpoint& endpoint);
  void run_step(DeviceEndpoint& endpoint);
  [[nodiscard]] Status step(DeviceEndpoint& endpoint);
  /// Begins the trial of the heaviest call, unless the store has its result or it has no trial.
  [[nodiscard]] Status begin_next(DeviceEndpoint& endpoint);
  /// Opens store and backend where they are not open.
  [[nodiscard]] Status open();
  /// Commits the result of the trial, then sends it to the device.
  [[nodiscard]] Status finish(DeviceEndpoint& endpoint);
  /// Sends a result to the device.
  static void use(detail::TuneEntry entry, DeviceEndpoint& endpoint);
  void forget(const detail::TuneKey& key);
  void forget_all();

  const TuneSubject subject_;
  detail::Mailbox<Message> messages_;
  std::atomic<bool> is_stopping_{false};
  std::atomic<int> suspensions_{0};
  std::atomic<bool> is_trying_{false};
  // Touched by the tuner's own thread alone:
  std::optional<detail::TuneBudget> budget_;
  detail::TuneQueue queue_;
  std::unordered_map<detail::TuneKey, WantedCall, detail::TuneKeyHash> calls_;  ///< of queue_
  std::optional<detail::TuneStore> store_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Trial> trial_;  ///< refers to store_ and backend_
  detail::Log* log_ = nullptr;
  std::uint64_t seen_record_ = 0;                     ///< of the device, at the last look
  detail::TimePoint earliest_ = detail::TimePoint();  ///< of the next step: a rest, a busy device
};

}  // namespace hearth
