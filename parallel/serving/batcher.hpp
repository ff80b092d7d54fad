// Batcher: the decisions of a ModelServer, without its threads: which requests are accepted, which
// form the next batch, and what becomes of them after a failure. Times are arguments; nothing here
// reads a clock, waits, or runs code of a program.
// Owned by a ServerDesk. Threads: under the desk's lock.
// Invariants: (1) an accepted request waits, runs, or is in the list of ended ones; only a hung
// batch's requests run and wait at once; (2) requests of one priority and signature begin in the
// order of their arrival; (3) a request runs at most once after a device was lost under it.
#pragma once

#include <hearth/parallel/server_options.hpp>
#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/pending.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace hearth::detail {

struct BatchSignature;

/// One request. The first thread that claims it fulfils its promise.
struct ServerRequest {
  std::vector<RequestInput> inputs = {};
  std::int64_t rows = 1;
  Priority priority = Priority::normal;
  TimePoint arrival = {};
  TimePoint deadline = TimePoint::max();
  std::stop_token stop = {};
  Promise<Answer> promise;
  std::atomic<bool> is_settled{false};
  BatchSignature* signature = nullptr;      ///< While it is in the batcher.
  std::size_t lost_on = kNowhere;           ///< Device that was lost under it.
  std::chrono::nanoseconds predicted = {};  ///< Wait by the measured times; 0: not predicted.

  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  /// Returns true for the one caller that may fulfil the promise.
  [[nodiscard]] bool claim() noexcept {
    return !is_settled.exchange(true, std::memory_order_acq_rel);  // partner: another claim
  }
};
using RequestRef = std::shared_ptr<ServerRequest>;

/// Whether batches of one size gave each request the answer that it gets alone.
enum class SizeState : std::uint8_t { unknown, proven, refuted };

/// Requests that may share a batch, and knowledge about their batches.
struct BatchSignature {
  std::string key;
  std::string text;  ///< For people: "f32[*, 784]".
  std::array<std::deque<RequestRef>, kPriorityCount> waiting;
  std::int64_t waiting_rows = 0;
  std::int64_t most_rows = 0;                   ///< Largest batch that fits into the memory.
  std::vector<SizeState> states;                ///< By place on the ladder.
  std::vector<std::chrono::nanoseconds> times;  ///< Time of a batch, by place; 0: not measured.
  int running = 0;
  bool is_proving = false;

  [[nodiscard]] bool is_idle() const noexcept { return waiting_rows == 0 && running == 0; }
};

/// How a batch runs.
enum class BatchMode : std::uint8_t {
  whole,  ///< In one forward pass.
  proof,  ///< In one forward pass, and alone; the answers are compared.
  alone,  ///< Each request by itself.
};

struct RunningBatch {
  std::vector<RequestRef> requests;
  BatchSignature* signature = nullptr;
  BatchMode mode = BatchMode::whole;
  std::int64_t rows = 0;
  std::int64_t padded_rows = 0;  ///< `rows`, or the next size of the ladder.
  std::size_t device = 0;
  TimePoint begin = {};
  bool is_revoked = false;  ///< Whether it hung, so that its requests run elsewhere.
};
using BatchRef = std::shared_ptr<RunningBatch>;

/// How a batch ended.
struct BatchOutcome {
  bool is_lost = false;  ///< The device was lost; the unclaimed requests have no answer.
  bool is_closed = false;
  ErrorRef error = {};                            ///< The cause of a loss.
  std::optional<bool> rows_are_independent = {};  ///< Result of a proof.
  std::int64_t fitting_rows = 0;  ///< Rows that the memory had room for, after it had none; else 0.
  bool is_measured = false;       ///< The time is that of one forward pass.
};

struct EndedRequest {
  RequestRef request;
  ErrorRef error;
};

class Batcher final {
 public:
  struct Options {
    std::int64_t max_batch = 64;
    std::chrono::nanoseconds max_delay = {};
    std::int64_t max_waiting_rows = 4096;
    bool exact_rows = false;
    RowProof proof = RowProof::first_batch;
    bool repeatable = true;
    std::chrono::nanoseconds hang_limit = std::chrono::seconds(2);
    std::vector<std::string> devices = {};  ///< Names, for errors.
    std::size_t seats_per_device = 1;
  };
  explicit Batcher(Options options);

  /// Accepts a request, or returns why not: overloaded, deadline_exceeded, device_lost.
  /// `has_idle_seat`: it could begin at once.
  [[nodiscard]] ErrorRef offer(const RequestRef& request,
                               const std::string& key,
                               TimePoint now,
                               bool has_idle_seat);
  /// Accepts a request and returns its batch; null if others wait, or if it must wait for others.
  [[nodiscard]] BatchRef begin_at_once(const RequestRef& request,
                                       const std::string& key,
                                       std::size_t device,
                                       TimePoint now);
  /// Returns the next batch for a device. `idle_seats` share what waits, the calling one included.
  [[nodiscard]] BatchRef take(std::size_t device, std::size_t idle_seats, TimePoint now);
  /// When a take() that returned nothing may return a batch without another offer().
  [[nodiscard]] TimePoint next_take() const noexcept { return next_take_; }
  void finish(const BatchRef& batch, const BatchOutcome& outcome, TimePoint now);

  /// Ends requests whose deadline has passed or whose stop was requested, and revokes hung batches.
  void expire(TimePoint now);
  /// When to call expire() next.
  [[nodiscard]] TimePoint next_expiry() const noexcept;
  /// Ends all waiting requests.
  void end_all(const ErrorRef& error);
  /// Removes and returns the requests that ended without an answer.
  [[nodiscard]] std::vector<EndedRequest> take_ended() { return std::exchange(ended_, {}); }

  /// Brings a device back into service.
  void restore(std::size_t device) { devices_[device].is_in_service = true; }
  [[nodiscard]] bool is_in_service(std::size_t device) const {
    return devices_[device].is_in_service;
  }
  [[nodiscard]] bool has_work_for(std::size_t device) const noexcept;
  [[nodiscard]] std::int64_t waiting_rows() const noexcept { return waiting_rows_; }
  [[nodiscard]] bool is_empty() const noexcept {
    return waiting_rows_ == 0 && retries_.empty() && running_.empty();
  }
  [[nodiscard]] const std::vector<std::int64_t>& ladder() const noexcept { return ladder_; }
  [[nodiscard]] const ServerStatistics& statistics() const noexcept { return statistics_; }
  /// Removes and returns lines for the log.
  [[nodiscard]] std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct DeviceState {
    std::string name;
    bool is_in_service = true;
    ErrorRef loss = {};
  };

  [[nodiscard]] BatchSignature& signature_of(const ServerRequest& request, const std::string& key);
  [[nodiscard]] std::chrono::nanoseconds predict(const BatchSignature& own,
                                                 std::int64_t rows,
                                                 TimePoint now) const;
  [[nodiscard]] std::chrono::nanoseconds row_time(const BatchSignature& signature) const;
  [[nodiscard]] bool missed_its_prediction(const ServerRequest& request,
                                           TimePoint now) const noexcept;
  /// Corrects wait_factor_ after a batch, or after requests whose deadlines passed in the queue.
  void note_waits(bool are_late) noexcept;
  /// Place on the ladder of the smallest size with at least `rows`.
  [[nodiscard]] std::size_t place_of(std::int64_t rows) const noexcept;
  [[nodiscard]] BatchRef take_retry(std::size_t device, TimePoint now);
  [[nodiscard]] BatchSignature* most_urgent(TimePoint now);
  /// The oldest waiting request, by arrival and priority; null if none waits.
  [[nodiscard]] std::deque<RequestRef>* first_queue(BatchSignature& signature) const;
  void drop_ended_front(BatchSignature& signature, TimePoint now);
  [[nodiscard]] std::int64_t row_limit(const BatchSignature& signature, std::int64_t share) const;
  /// Chooses mode and size of a batch with its requests.
  void plan(RunningBatch& batch) const;
  [[nodiscard]] BatchRef begin(std::vector<RequestRef> requests,
                               BatchSignature& signature,
                               std::size_t device,
                               TimePoint now);
  void note_outcome(RunningBatch& batch, const BatchOutcome& outcome, TimePoint now);
  void revoke_hung(TimePoint now);
  /// Ends the request if expire() has to. Returns whether it has ended; else notes its deadline.
  [[nodiscard]] bool end_if_over(const RequestRef& request, TimePoint now);
  void expire_running(TimePoint now);
  void lose(RunningBatch& batch, const ErrorRef& cause);
  void set_out_of_service(std::size_t device, const ErrorRef& cause);
  void end(RequestRef request, ErrorRef error);
  [[nodiscard]] ErrorRef reason_to_end(const ServerRequest& request, TimePoint now) const;

  const Options options_;
  std::vector<std::int64_t> ladder_;  // 1, 2, 4, …, max_batch
  std::vector<DeviceState> devices_;
  std::unordered_map<std::string, std::unique_ptr<BatchSignature>> signatures_;
  std::deque<RequestRef> retries_;
  std::vector<BatchRef> running_;
  std::vector<EndedRequest> ended_;
  std::vector<std::string> notes_;
  std::int64_t waiting_rows_ = 0;
  TimePoint next_take_ = TimePoint::max();
  double wait_factor_ = 1;  // of 20 batches, 19 end within this multiple of the predicted waits
  TimePoint next_deadline_ = TimePoint::max();  // of all requests that have not ended, or earlier
  ServerStatistics statistics_;
};

}  // namespace hearth::detail
