// The coordinator's loop: its messages, and what it knows of the open steps. Private to parallel.
// Threads: the coordinator's own, but for CoordinatorMailbox, which is anyone's.
// Invariant: a bucket is waiting (its regions are here), reducing (the engine has them), or over.
#pragma once

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
                                        message::Rejoin>;

struct CoordinatorMailbox {
  detail::Mailbox<CoordinatorMessage> messages;
  std::atomic<bool> has_trouble{false};
  LostReports lost;
};

// ---- what both of its sources use ----

namespace coordinator {
inline ErrorRef shared(Error error) {
  return std::make_shared<const Error>(std::move(error));
}

/// The same words, which belong to no failure that somebody may have read: the steps that are
/// refused because of it are lost for themselves.
inline ErrorRef in_no_book(const ErrorRef& error) {
  if (!error) {
    return error;
  }
  Error copy = *error;
  copy.failure = nullptr;
  copy.cause = in_no_book(copy.cause);
  return shared(std::move(copy));
}

/// The ranks whose place is empty.
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

/// A wait for ranks that are missing. It is over when the limit has passed and none of them got on
/// in its second half; else it goes on by halves. Owned by the coordinator's thread.
class RankWait final {
 public:
  /// No wait.
  RankWait() = default;
  explicit RankWait(std::chrono::nanoseconds limit) noexcept
      : half_(limit / 2), look_(Deadline::in(limit / 2)), end_(Deadline::in(limit)) {}

  /// When to ask is_over() next.
  [[nodiscard]] Deadline next_look() const noexcept { return look_; }
  /// When it is over, unless a missing rank gets on.
  [[nodiscard]] Deadline end() const noexcept { return end_; }
  /// `last`: when it does not go on any more, once the limit has passed.
  [[nodiscard]] bool is_over(const std::vector<RankProgress>& progress,
                             const std::vector<std::size_t>& missing,
                             Deadline last);

 private:
  std::chrono::nanoseconds half_{0};
  Deadline look_ = Deadline::never();
  Deadline end_ = Deadline::never();
  std::optional<std::uint64_t> seen_;  ///< At the last look; empty before the first.
};

class CoordinatorLoop final {
 public:
  CoordinatorLoop(std::shared_ptr<CoordinatorMailbox> mailbox,
                  Collective& engine,
                  CoordinatorOptions options);

  /// Until the mailbox is closed and empty.
  void run();

 private:
  struct WaitingBucket {
    std::vector<LentRegion> regions;  ///< By rank; invalid: not there yet.
    std::size_t count = 0;
    bool is_early = true;
    RankWait wait;
  };
  /// A bucket that the engine has.
  struct ReducingBucket {
    std::size_t index = 0;
    std::vector<LoanRecall> loans;  ///< By rank.
    std::shared_ptr<std::atomic<bool>>
        is_over;  ///< The engine writes it: no message, nobody wakes.
    Deadline deadline = Deadline::never();
  };
  struct RankState {
    bool is_finished = false;
    bool is_given_up = false;  ///< It missed a deadline: the step is decided without it.
    ErrorRef error;
    double loss = 0;
    LossKind loss_kind = LossKind::none;
    double weight = 0;
    double learning_rate = 0;
    std::chrono::nanoseconds sweep{0};     ///< From the step's begin to its last bucket.
    std::vector<std::size_t> unused = {};  ///< Parameters on which its loss does not depend, and
    std::optional<Promise<std::vector<std::size_t>>> asked = std::nullopt;  ///< whether others' do.
  };
  struct Step {
    DataParallelReport report;
    std::shared_ptr<UpdateDecision> decision;
    Promise<DataParallelReport> outcome;
    SourceLoc where;                                        ///< The call that it belongs to.
    std::shared_ptr<const std::vector<std::string>> names;  ///< Of its ranks.
    std::vector<RankState> ranks;
    std::map<std::size_t, WaitingBucket> buckets;
    std::vector<ReducingBucket> reducing;
    std::vector<PreparedUpdate> prepared;  ///< By rank; invalid: not there yet, or told.
    std::size_t prepared_count = 0;
    RankWait prepared_wait;
    detail::TimePoint begun = {};
    Deadline whole = Deadline::never();  ///< Of the whole step, if it had not to wait for its turn.
    Deadline end_deadline = Deadline::never();  ///< From the commit, or the failure, on.
    std::chrono::nanoseconds end_limit = {};    ///< How long that was then.
    ErrorRef failure;
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

  /// What the open steps wait for.
  [[nodiscard]] std::string describe() const;
  void note_loss(Step& step, const BucketArrival& arrival);
  /// Fails a step whose ranks do not agree on what their losses are, or have nothing to divide by.
  void check_weights(std::int64_t number, Step& step);
  /// Of the step's sums; nothing where the losses are means.
  [[nodiscard]] static std::optional<double> weight_of(const Step& step);
  void reduce(std::int64_t number, Step& step, std::size_t index, WaitingBucket bucket);
  /// Ends the step, whose newest bucket the engine has thrown at.
  void end_thrown(Step& step, std::atomic<bool>& is_over, const ErrorRef& error);
  /// The first error ends the step: the rank that has it still gets time to come to the end.
  void fail(Step& step, const ErrorRef& error);
  /// All ranks are to be through with the step within `limit`.
  static void await_end(Step& step, std::chrono::nanoseconds limit);
  /// How long a healthy rank may need to come to the end of a step that has failed.
  [[nodiscard]] std::chrono::nanoseconds end_limit_of(const Step& step) const;
  static void settle(Step& step);
  /// All sweeps have ended: notifies those that asked which parameters no rank uses.
  static void answer_unused(Step& step);
  static void give_up_all(Step& step);
  static void forget_deadlines(Step& step);
  static void recall_loans(Step& step, const ErrorRef& error);
  /// Who is late is trouble: all other open steps end, and wait for nobody.
  void note_hang(const Step& late, const std::vector<std::size_t>& missing, const ErrorRef& error);
  /// Ranks that did not come in time are given up.
  void give_up(Step& step,
               const std::vector<std::size_t>& missing,
               const std::string& what,
               std::chrono::nanoseconds limit);
  [[nodiscard]] static std::vector<std::size_t> unfinished(const Step& step);
  /// Not of one that was renumbered too late: what it says is not heard.
  [[nodiscard]] static bool has_rank(const Step& step, int rank) {
    return rank >= 0 && static_cast<std::size_t>(rank) < step.ranks.size();
  }
  /// If the engine did not come back in time: its loans end, and the ranks that are left are given
  /// up.
  void recall(Step& step);
  /// The error of a deadline of the step, with a report.
  [[nodiscard]] ErrorRef late(const Step& step,
                              const std::string& what,
                              const std::string& who,
                              std::chrono::nanoseconds limit);
  /// Whether the wait for these ranks is over.
  [[nodiscard]] bool is_over(const Step& step,
                             RankWait& wait,
                             const std::vector<std::size_t>& missing) const;
  [[nodiscard]] Deadline next_deadline() const;
  void expire();
  /// Fulfils the promise once every rank is through or given up.
  void decide(Step& step);
  /// Forgets the step when every rank is through.
  void close(std::map<std::int64_t, Step>::iterator found);

  const std::shared_ptr<CoordinatorMailbox> mailbox_;
  Collective& engine_;
  const CoordinatorOptions options_;
  std::shared_ptr<const std::vector<std::string>> names_;  ///< Of the ranks of the next step.
  std::vector<RankProgress> progress_;                     ///< The same.
  std::map<std::int64_t, Step> steps_;
  CoordinatorStatistics statistics_;
  std::optional<std::chrono::nanoseconds> step_time_;  ///< Of the last step that happened.
  double learning_rate_ = 0;         ///< Of the last step of which a rank has said it.
  detail::TimePoint last_end_ = {};  ///< When a step was decided last.
  Deadline next_whole_ =
      Deadline::in(std::chrono::nanoseconds::zero());  ///< Of a step that began then.
  ErrorRef refusal_;                                   ///< Why no step can succeed any more.
  CoordinatorTrouble trouble_;
  std::shared_ptr<const void> witness_;  ///< At the watchdog.
};

}  // namespace hearth
