// The coordinator's loop: its messages, and the state of the open steps. Private to parallel.
// Threads: the coordinator's own; CoordinatorMailbox: any.
// Invariant: a bucket is waiting or complete (its regions are here), reducing (the engine holds
// them), or done.
#pragma once

#include "step_agreement.hpp"

#include <hearth/parallel/coordinator.hpp>
#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/lost_reports.hpp>
#include <hearth/runtime/base/mailbox.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hearth {

namespace message {
struct Begin {
  std::int64_t step = 0;
  std::int64_t sample_count = 0;
  std::shared_ptr<UpdateDecision> decision;
  Promise<DataParallelReport> outcome;
  SourceLoc where;
};
struct AskUnused {
  std::int64_t step = 0;
  int rank = 0;
  std::vector<std::size_t> parameters;
  Promise<std::vector<std::size_t>> answer;
};
struct Prepared {
  std::int64_t step = 0;
  int rank = 0;
  PreparedUpdate update;
};
struct Abort {
  std::int64_t step = 0;
  ErrorRef error;
};
struct Finish {
  std::int64_t step = 0;
  int rank = 0;
  ErrorRef error;
  double learning_rate = 0;
  StepScale scale = {};
};
struct Cancel {
  ErrorRef error;
};
struct AskTrouble {
  Promise<CoordinatorTrouble> answer;
};
struct AskStatistics {
  Promise<CoordinatorStatistics> answer;
};
struct AskReport {
  Promise<std::string> answer;
};
struct Rejoin {
  std::vector<std::string> ranks;
  std::vector<RankProgress> progress;
};
/// The sweeps of all processes have ended, or the group of processes has failed.
struct Swept {
  std::int64_t step = 0;
  Result<std::vector<SweptProcess>> all;
};
/// All processes have voted on a step; by process, an error against it, or null.
struct Voted {
  std::int64_t step = 0;
  Result<std::vector<ErrorRef>> all;
};
}  // namespace message

using CoordinatorMessage = std::variant<BucketArrival,
                                        message::Begin,
                                        message::AskUnused,
                                        message::Prepared,
                                        message::Abort,
                                        message::Finish,
                                        message::Cancel,
                                        message::AskTrouble,
                                        message::AskStatistics,
                                        message::AskReport,
                                        message::Rejoin,
                                        message::Swept,
                                        message::Voted>;

struct CoordinatorMailbox {
  detail::Mailbox<CoordinatorMessage> messages;
  std::atomic<bool> has_trouble{false};
  LostReports lost;
};

// ---- shared by both sources of the loop ----

namespace coordinator {
inline ErrorRef shared(Error error) {
  return std::make_shared<const Error>(std::move(error));
}

/// Copies the error without its entry in the failure book: a step that is refused because of it
/// counts as a failure of its own.
inline ErrorRef without_failure_entry(const ErrorRef& error) {
  if (!error) {
    return error;
  }
  Error copy = *error;
  copy.failure = nullptr;
  copy.cause = without_failure_entry(copy.cause);
  return shared(std::move(copy));
}

/// Ranks whose entry is not valid yet.
template <class T>
std::vector<std::size_t> missing_from(const std::vector<T>& places) {
  std::vector<std::size_t> missing;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (!places[rank].is_valid()) {
      missing.push_back(rank);
    }
  }
  return missing;
}

inline std::string names_of(const std::vector<std::string>& names,
                            const std::vector<std::size_t>& ranks) {
  std::string text;
  for (const std::size_t rank : ranks) {
    text += (text.empty() ? "" : ", ") + names.at(rank);
  }
  return text;
}
}  // namespace coordinator

/// A wait for missing ranks. It ends when the limit has passed and no missing rank made progress in
/// its second half; otherwise it is extended by half the limit. Owned by the coordinator's thread.
class RankWait final {
 public:
  /// An inactive wait.
  RankWait() = default;
  explicit RankWait(std::chrono::nanoseconds limit) noexcept
      : half_(limit / 2), next_check_(Deadline::in(limit / 2)), end_(Deadline::in(limit)) {}

  /// When to call has_expired() next.
  [[nodiscard]] Deadline next_check() const noexcept { return next_check_; }
  /// When the wait ends if no missing rank makes progress.
  [[nodiscard]] Deadline end() const noexcept { return end_; }
  /// Updates the wait. `last`: the time after which progress no longer extends it.
  [[nodiscard]] bool has_expired(const std::vector<RankProgress>& progress,
                                 const std::vector<std::size_t>& missing,
                                 Deadline last);

 private:
  std::chrono::nanoseconds half_{0};
  Deadline next_check_ = Deadline::never();
  Deadline end_ = Deadline::never();
  /// Sum of progress at the last look; empty before the first.
  std::optional<std::uint64_t> seen_;
};

class CoordinatorLoop final {
 public:
  CoordinatorLoop(std::shared_ptr<CoordinatorMailbox> mailbox,
                  Collective& engine,
                  CoordinatorOptions options);

  /// Runs until the mailbox is closed and empty.
  void run();

 private:
  struct WaitingBucket {
    std::vector<LentRegion> regions;  ///< By rank; invalid until it arrives.
    std::size_t count = 0;
    bool is_early = true;
    RankWait wait;
  };
  /// A bucket of all ranks, until the engine receives it.
  struct CompleteBucket {
    std::size_t index = 0;
    WaitingBucket bucket;
  };
  /// A bucket that the engine holds.
  struct ReducingBucket {
    std::size_t index = 0;
    std::vector<LoanRecall> loans;  ///< By rank.
    std::shared_ptr<std::atomic<bool>>
        has_ended;  ///< Set by the engine. It sends no message and wakes no thread.
    Deadline deadline = Deadline::never();
  };
  struct RankState {
    bool is_finished = false;
    bool is_abandoned = false;  ///< The rank missed a deadline; the step ends without it.
    ErrorRef error;
    double loss = 0;
    LossKind loss_kind = LossKind::none;
    double weight = 0;
    double learning_rate = 0;
    StepScale scale = {};
    std::chrono::nanoseconds sweep{0};     ///< From the step's begin to its last bucket.
    std::vector<std::size_t> unused = {};  ///< Parameters that its loss does not use.
    std::optional<Promise<std::vector<std::size_t>>> asked =
        std::nullopt;  ///< Set while it waits for answer_unused().
  };
  struct Step {
    DataParallelReport report;
    std::shared_ptr<UpdateDecision> decision;
    Promise<DataParallelReport> outcome;
    SourceLoc where;  ///< The call of step() that began the step.
    std::shared_ptr<const std::vector<std::string>> names;  ///< Names of the step's ranks.
    std::vector<RankState> ranks;
    std::map<std::size_t, WaitingBucket> buckets;
    std::vector<CompleteBucket> complete = {};  ///< In order; empty unless it waits for its turn.
    std::vector<ReducingBucket> reducing;
    /// By rank; invalid until it arrives, and after settle().
    std::vector<PreparedUpdate> prepared;
    std::size_t prepared_count = 0;
    RankWait prepared_wait;
    detail::TimePoint begun = {};
    /// Deadline of the whole step, counted as if it had not waited for its turn.
    Deadline whole = Deadline::never();
    /// For all ranks to end, counted from the commit or the failure.
    Deadline end_deadline = Deadline::never();
    std::chrono::nanoseconds end_limit = {};  ///< The time limit of end_deadline.
    ErrorRef failure;
    // ---- several processes ----
    std::size_t reduced_count = 0;  ///< Buckets that the engine has received.
    bool has_shared_sweep = false;
    bool is_sweep_agreed = false;  ///< The sweeps of all processes have ended well.
    bool has_voted = false;
    bool is_agreed = false;             ///< All processes know the step's outcome.
    std::vector<SweptRank> swept = {};  ///< All ranks of all processes, once it is_sweep_agreed.
  };

  void handle(BucketArrival arrival);
  void handle(message::Begin begin);
  void handle(message::AskUnused question);
  void handle(message::Prepared prepared);
  void handle(message::Abort abort);
  void handle(message::Finish finish);
  void handle(message::Cancel cancel);
  void handle(message::AskTrouble question);
  void handle(message::AskStatistics question);
  void handle(message::AskReport question);
  void handle(message::Rejoin rejoin);
  void handle(message::Swept swept);
  void handle(message::Voted voted);

  /// Whether the step may send to the other processes: each step before it has voted or is agreed,
  /// so all processes send in the same order.
  [[nodiscard]] bool has_turn(std::int64_t number) const;
  /// Gives the engine the complete buckets of a step that has its turn, and after the last one
  /// shares the sweep.
  void advance(std::int64_t number, Step& step);
  /// Lets the next step send what it has held back. Called when a step has voted or is agreed.
  void pass_turn();
  /// Gives the other processes what a failed step owes them, if it has its turn.
  void settle_debt(Step& step);
  void share_sweep(Step& step);
  void vote(Step& step);
  /// Ends the step with the failure on which all processes have agreed. `is_own`: this process had
  /// it first.
  void take_failure(Step& step, const ErrorRef& error, bool is_own);

  /// Describes what the open steps wait for, for the watchdog.
  [[nodiscard]] std::string describe() const;
  void record_loss(Step& step, const BucketArrival& arrival);
  /// Fails a step whose ranks disagree on LossKind, or whose weights sum to 0.
  void check_weights(std::int64_t number, Step& step);
  /// Sum of the weights; nullopt where the losses are means.
  [[nodiscard]] static std::optional<double> weight_of(const Step& step);
  void reduce(std::int64_t number, Step& step, std::size_t index, WaitingBucket bucket);
  /// Ends the step after the engine threw on its newest bucket.
  void end_thrown(Step& step, std::atomic<bool>& has_ended, const ErrorRef& error);
  /// Ends the step with its first error. The rank that holds the error still has time to finish.
  void fail(Step& step, const ErrorRef& error);
  /// Starts the deadline by which all ranks must have finished the step.
  static void await_end(Step& step, std::chrono::nanoseconds limit);
  /// Time that a healthy rank may need to finish a step that has failed.
  [[nodiscard]] std::chrono::nanoseconds end_limit_of(const Step& step) const;
  static void settle(Step& step);
  /// Called when all sweeps have ended. Sends each waiting rank the parameters that no rank uses.
  static void answer_unused(Step& step);
  /// Whether this is the only process, or all of them know the step's outcome.
  [[nodiscard]] bool is_agreed(const Step& step) const {
    return !options_.agreement || step.is_agreed;
  }
  /// The sweeps of all ranks of all processes.
  [[nodiscard]] static std::vector<SweptRank> all_ranks(const Step& step);
  static void abandon_all_ranks(Step& step);
  static void forget_deadlines(Step& step);
  static void recall_loans(Step& step, const ErrorRef& error);
  /// Records a hang as trouble: all other open steps fail, and wait for no rank.
  void record_hang(const Step& late,
                   const std::vector<std::size_t>& missing,
                   const ErrorRef& error);
  /// Abandons ranks that missed a deadline.
  void abandon_ranks(Step& step,
                     const std::vector<std::size_t>& missing,
                     const std::string& what,
                     std::chrono::nanoseconds limit);
  [[nodiscard]] static std::vector<std::size_t> unfinished(const Step& step);
  /// False for a rank that was renumbered too late: its messages are ignored.
  [[nodiscard]] static bool has_rank(const Step& step, int rank) {
    return rank >= 0 && static_cast<std::size_t>(rank) < step.ranks.size();
  }
  /// Recalls the loans of an engine that missed the deadline, and abandons the remaining ranks.
  void recall(Step& step);
  /// Makes the error of a missed deadline, with the watchdog's report.
  [[nodiscard]] ErrorRef late(const Step& step,
                              const std::string& what,
                              const std::string& who,
                              std::chrono::nanoseconds limit);
  /// Whether the wait for these ranks has ended.
  [[nodiscard]] bool has_expired(const Step& step,
                                 RankWait& wait,
                                 const std::vector<std::size_t>& missing) const;
  [[nodiscard]] Deadline next_deadline() const;
  void expire();
  /// Fulfils the promise once every rank has finished or is abandoned.
  void decide(Step& step);
  /// Removes the step once every rank has finished.
  void close(std::map<std::int64_t, Step>::iterator found);

  const std::shared_ptr<CoordinatorMailbox> mailbox_;
  Collective& engine_;
  const CoordinatorOptions options_;
  std::shared_ptr<const std::vector<std::string>> names_;  ///< Names of the ranks of the next step.
  std::vector<RankProgress> progress_;                     ///< Progress of the same ranks.
  std::map<std::int64_t, Step> steps_;
  CoordinatorStatistics statistics_;
  std::optional<std::chrono::nanoseconds> step_time_;  ///< Duration of the last step that happened.
  double learning_rate_ = 0;         ///< Rate of the last step for which a rank reported it.
  detail::TimePoint last_end_ = {};  ///< When the last step was decided.
  /// Deadline of a step that began at last_end_.
  Deadline next_whole_ = Deadline::in(std::chrono::nanoseconds::zero());
  ErrorRef refusal_;  ///< Why no step can succeed any more; null: none.
  CoordinatorTrouble trouble_;
  std::shared_ptr<const void> witness_;  ///< Registration at the watchdog.
};

}  // namespace hearth
