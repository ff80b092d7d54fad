// StepCoordinator: the actor that coordinates the ranks of a training step. Each rank lends its
// gradient buckets; when a bucket has arrived from all ranks, the engine reduces it. The first
// failure on any rank ends the step for all ranks: every later bucket of it is returned with that
// error. A failure is an exception, a poisoned gradient, a loss that is not finite, or a missing
// rank. Each rank prepares its update, and the coordinator commits or aborts all of them together.
// Owned by a trainer. The Runtime and the engine outlive it; the engine also outlives its own calls
// that do not return. Runs on a thread of its own.
// Threads: any. Calls send messages; only trouble() and statistics() wait.
// Invariants: (1) it commits a step when every rank has prepared its update, so either all updates
// run or none; (2) every bucket is returned: reduced, or with the step's error; (3) a step is over
// when every rank has finished it or is abandoned.
#pragma once

#include <hearth/parallel/collective.hpp>
#include <hearth/parallel/data_parallel_report.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/owned_thread.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/prepared_update.hpp>
#include <hearth/runtime/update_decision.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

class StepAgreement;

/// A counter that changes whenever a rank's device makes progress; compiling a kernel counts as
/// progress. Empty: unknown. Threads: any.
using RankProgress = std::function<std::uint64_t()>;

struct CoordinatorOptions {
  std::vector<std::string> ranks;  ///< Name of each rank in error texts: "rank 1 on cpu:1".
  std::size_t bucket_count = 0;    ///< Number of buckets in a step.
  /// Whether the ranks themselves skip a step whose loss is not finite. Else such a step fails.
  bool skips_overflows = false;
  std::vector<RankProgress> progress = {};  ///< By rank; empty: unknown for all ranks.
  /// Limit of each wait for ranks or the engine. The waits are for a bucket's last rank, the
  /// engine's return of a bucket, the last prepared update, and the last commit. A missing rank
  /// that makes progress extends the wait, up to the end of the whole step.
  std::chrono::nanoseconds deadline = std::chrono::seconds(5);
  /// Limit of waits for results that name no deadline.
  std::chrono::nanoseconds wait_limit = kDefaultWait;
  /// Reports missed deadlines, and collects the coordinator's own state for other reports; may be
  /// null.
  IntrusivePtr<detail::Watchdog> watchdog = nullptr;
  /// Limit of a whole step. After a failure, each other rank has `deadline` plus the duration of
  /// the last step to finish, or this limit if no step has succeeded. Then the rank is abandoned,
  /// and the step ends with its first error.
  std::chrono::nanoseconds step_limit = kDefaultWait;
  /// Whether the trainer mends a missed deadline. If so, every step fails from then until rejoin().
  bool mends_hangs = false;
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;  ///< Limit of the destructor's wait.
  /// Kept alive as long as the thread, also when the thread is abandoned: the built-in engine, for
  /// example.
  std::shared_ptr<const void> kept_alive = nullptr;
  detail::Log* log = nullptr;  ///< Logs an abandoned thread; nullptr: the standard error stream.
  /// With several processes, the part of this one in common decisions; null: there is one process.
  std::shared_ptr<StepAgreement> agreement = nullptr;
  /// Number of the first rank of this process, in messages of the ranks.
  int first_rank = 0;
};

/// The form of a rank's part of a step's loss.
enum class LossKind : std::uint8_t {
  none,  ///< The rank has no samples.
  mean,  ///< A mean over its samples, times their share.
  sum,   ///< A sum, to be divided by the sum of all ranks' weights.
};

/// A rank's lent bucket, or the error in its place. The first bucket carries the rank's part of the
/// step's loss.
struct BucketArrival {
  std::int64_t step = 0;
  std::size_t bucket = 0;
  int rank = 0;
  bool is_early = false;  ///< The rank's backward sweep was still running.
  std::optional<Result<double>> loss;
  Result<LentRegion> region;
  LossKind loss_kind = LossKind::none;
  double weight = 0;  ///< The weight of a LossKind::sum.
};

/// State that the trainer must mend before the next step.
struct CoordinatorTrouble {
  /// Ranks whose update failed after the commit while that of others succeeded. Returned once.
  std::vector<int> stragglers = {};
  std::vector<int> missing = {};  ///< Ranks that missed a deadline, until rejoin().
  bool has_hang = false;          ///< A rank or the engine missed a deadline; needs mends_hangs.
  bool has_lost_device = false;   ///< A step met a device that is lost, or that reports a hang.
};

namespace detail {
/// Whether the error, or a cause of it, is device_lost.
[[nodiscard]] bool is_device_loss(const Error& error) noexcept;
/// Whether the error, or a cause of it, is the deadline_exceeded of an op on a device. A caller's
/// own expired wait does not count.
[[nodiscard]] bool is_device_hang(const Error& error) noexcept;
}  // namespace detail

struct CoordinatorMailbox;

/// The ranks' interface to the coordinator. It may outlive the coordinator; then messages are
/// dropped, and buckets are returned cancelled. Copyable. Threads: any; also on a device's loop.
class CoordinatorInbox final {
 public:
  /// `first_rank`: that of the process, whose ranks the coordinator counts from 0.
  explicit CoordinatorInbox(std::shared_ptr<CoordinatorMailbox> mailbox,
                            int first_rank = 0) noexcept;

  void arrive(BucketArrival arrival) const;
  /// Sends the parameters that the rank's loss does not use; called before the rank's last bucket.
  /// The result comes when all last buckets have arrived: those of `parameters` that no rank uses,
  /// in this order, or the step's failure.
  [[nodiscard]] Pending<std::vector<std::size_t>> ask_unused(
      std::int64_t step, int rank, std::vector<std::size_t> parameters) const;
  /// Reports that the rank's update waits for the step's decision.
  void prepared(std::int64_t step, int rank, PreparedUpdate update) const;
  /// Ends the step on every rank with this error.
  void abort(std::int64_t step, ErrorRef error) const;
  /// Reports that the rank has finished the step: it committed with this learning rate (null
  /// error), or it failed with this error.
  void finish(std::int64_t step,
              int rank,
              ErrorRef error,
              double learning_rate = 0,
              StepScale scale = {}) const;

 private:
  std::shared_ptr<CoordinatorMailbox> mailbox_;
  int first_rank_;
};

class StepCoordinator final {
 public:
  StepCoordinator(detail::Executor& executor, Collective& engine, CoordinatorOptions options);
  StepCoordinator(const StepCoordinator&) = delete;
  StepCoordinator& operator=(const StepCoordinator&) = delete;
  /// Cancels open steps, and makes no further engine call. An engine call that has not returned at
  /// the limit is logged and abandoned with its thread.
  ~StepCoordinator();

  /// Opens a step; must precede the ranks' messages about it. The ranks' updates wait for
  /// `decision`. The result is the sum of the ranks' losses once every rank has finished, or the
  /// first error. An error without a location gets `where`.
  [[nodiscard]] Pending<DataParallelReport> begin(std::int64_t step,
                                                  std::int64_t sample_count,
                                                  std::shared_ptr<UpdateDecision> decision,
                                                  SourceLoc where = {});
  /// Throws the failure of an earlier step whose report was dropped unread, unless the failure was
  /// read elsewhere. Each failure is thrown once.
  /// Errors: the failure's code, with the failure as the cause. Threads: any; waits for nothing.
  void require_steps_told(SourceLoc where);
  /// Ends all open and all later steps with this error.
  void cancel(ErrorRef error);
  /// Whether there is anything to mend. While there are stragglers, every step fails until
  /// rejoin(). Cost: an atomic load.
  [[nodiscard]] bool has_trouble() const noexcept;
  /// Returns the trouble, after all messages that the ranks have sent so far.
  [[nodiscard]] CoordinatorTrouble trouble();
  /// Declares everything mended, with these ranks from here on. Each of them must have finished
  /// every step that was begun; messages of other ranks are ignored.
  void rejoin(std::vector<std::string> ranks, std::vector<RankProgress> progress = {});
  [[nodiscard]] CoordinatorStatistics statistics();
  [[nodiscard]] CoordinatorInbox inbox() const noexcept {
    return CoordinatorInbox(mailbox_, first_rank_);
  }

 private:
  std::shared_ptr<CoordinatorMailbox> mailbox_;
  [[nodiscard]] PendingOptions awaiting(std::string subject, SourceLoc where = {}) const {
    return {.subject = std::move(subject),
            .helper = {.watchdog = watchdog_, .limit = wait_limit_},
            .location = where};
  }
  const IntrusivePtr<detail::Watchdog> watchdog_;
  const std::chrono::nanoseconds wait_limit_;
  const int first_rank_;
  std::unique_ptr<detail::OwnedThread> thread_;
};

}  // namespace hearth
