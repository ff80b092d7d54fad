// StepCoordinator: the actor that brings the ranks of a training step together. Each rank lends its
// gradient buckets; when all ranks of a bucket are there, the engine reduces it. The first thing
// that goes wrong on any rank (an exception, a poisoned gradient, a loss that is not finite, a
// missing rank) ends the step for all: from then on every bucket of it comes back with that error.
// Then each rank prepares its update, and the coordinator decides for all of them.
// Owned by a trainer; the Runtime and the engine outlive it, and the engine also outlives those of
// its own calls that do not return. Runs on a thread of its own. Threads: any; everything is a
// message, so that nothing but trouble() and statistics() waits. Invariants: (1) it says yes to a
// step's updates when every rank has prepared its own, so all of them happen or none; (2) every
// bucket comes back: reduced, or with the step's error; (3) a step is over when every rank is
// through with it or was given up.
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

/// A number that changes whenever a rank's device gets on, a kernel that is compiled included.
/// Empty: unknown. Threads: any.
using RankProgress = std::function<std::uint64_t()>;

struct CoordinatorOptions {
  std::vector<std::string> ranks;           ///< How error texts call each rank: "rank 1 on cpu:1".
  std::size_t bucket_count = 0;             ///< Number of buckets in a step.
  std::vector<RankProgress> progress = {};  ///< By rank; empty: of no rank.
  /// How long the first rank of a bucket waits for the last one, the engine may keep a bucket, the
  /// first prepared update waits for the last one, and all take to commit. A rank that is missing
  /// and gets on begins the wait for it anew, up to the end of the whole step.
  std::chrono::nanoseconds deadline = std::chrono::seconds(5);
  /// Of waits for its results that name no deadline.
  std::chrono::nanoseconds wait_limit = kDefaultWait;
  /// Who reports when a deadline passes, and asks the coordinator for others' reports; may be null.
  IntrusivePtr<detail::Watchdog> watchdog = nullptr;
  /// From a step's failure on, a rank has `deadline` and the time of the last step to come to its
  /// end, and before there was one, this; then it is given up, and the step ends with its first
  /// error.
  std::chrono::nanoseconds step_limit = kDefaultWait;
  /// Whether a missed deadline is trouble that the trainer mends: then every step fails until
  /// rejoin().
  bool mends_hangs = false;
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;  ///< How long the destructor waits.
  /// Lives as long as the thread, left behind or not: an engine that nobody else owns, say.
  std::shared_ptr<const void> kept_alive = nullptr;
  detail::Log* log =
      nullptr;  ///< Hears of a thread that is left behind; nullptr: the standard error stream.
};

/// What a rank's part of a step's loss is.
enum class LossKind : std::uint8_t {
  none,  ///< The rank has no samples.
  mean,  ///< Over its samples, times their share.
  sum,   ///< To be divided by the sum of all ranks' weights.
};

/// A rank's bucket, lent, or why there is none. Its part of the step's loss comes with the first
/// bucket.
struct BucketArrival {
  std::int64_t step = 0;
  std::size_t bucket = 0;
  int rank = 0;
  bool is_early = false;  ///< The rank's backward sweep went on when it lent this.
  std::optional<Result<double>> loss;
  Result<LentRegion> region;
  LossKind loss_kind = LossKind::none;
  double weight = 0;  ///< Of a sum.
};

/// What must be mended before the next step.
struct CoordinatorTrouble {
  /// Ranks whose update failed after the decision to commit, while that of others did not. Returned
  /// once.
  std::vector<int> stragglers = {};
  std::vector<int> missing = {};  ///< Ranks that did not come in time, until rejoin().
  bool has_hang = false;  ///< A rank, or the engine, did not come in time: of mends_hangs alone.
  bool has_lost_device = false;  ///< A step met a device that is lost, or hangs by its own account.
};

namespace detail {
/// Whether the error, or a cause of it, is device_lost.
[[nodiscard]] bool is_device_loss(const Error& error) noexcept;
/// Whether the error, or a cause of it, is a device's own deadline_exceeded: that of an op, not of
/// somebody who waited for one.
[[nodiscard]] bool is_device_hang(const Error& error) noexcept;
}  // namespace detail

struct CoordinatorMailbox;

/// What a rank says to the coordinator. It may outlive the coordinator: then nothing is heard, and
/// buckets come back cancelled. Copyable. Threads: any; also on a device's loop.
class CoordinatorInbox final {
 public:
  explicit CoordinatorInbox(std::shared_ptr<CoordinatorMailbox> mailbox) noexcept;

  void arrive(BucketArrival arrival) const;
  /// The rank's loss does not depend on these parameters; comes before its last bucket. Those of
  /// them that no rank uses, in this order, once all last buckets are there; or why the step
  /// failed.
  [[nodiscard]] Pending<std::vector<std::size_t>> ask_unused(
      std::int64_t step, int rank, std::vector<std::size_t> parameters) const;
  /// The rank's update waits for the step's decision.
  void prepared(std::int64_t step, int rank, PreparedUpdate update) const;
  /// Something went wrong: the step ends on every rank.
  void abort(std::int64_t step, ErrorRef error) const;
  /// The rank is through with the step: it has committed it (null), by this learning rate, or not,
  /// for this reason.
  void finish(std::int64_t step, int rank, ErrorRef error, double learning_rate = 0) const;

 private:
  std::shared_ptr<CoordinatorMailbox> mailbox_;
};

class StepCoordinator final {
 public:
  StepCoordinator(detail::Executor& executor, Collective& engine, CoordinatorOptions options);
  StepCoordinator(const StepCoordinator&) = delete;
  StepCoordinator& operator=(const StepCoordinator&) = delete;
  /// Cancels what is open, and calls the engine no more. At the limit, a call of the engine's that
  /// does not return is named in the log and left behind with its thread.
  ~StepCoordinator();

  /// Opens a step; comes before the ranks' messages about it. The ranks' updates wait for
  /// `decision`. The Pending has the sum of the ranks' losses once every rank is through, or the
  /// first error, which is at `where`, if it is nowhere else.
  [[nodiscard]] Pending<DataParallelReport> begin(std::int64_t step,
                                                  std::int64_t sample_count,
                                                  std::shared_ptr<UpdateDecision> decision,
                                                  SourceLoc where = {});
  /// Throws why an earlier step did not happen whose report was dropped unread, unless the failure
  /// was read elsewhere. Each is thrown once. Threads: any; waits for nothing. Errors: the
  /// failure's code, with the failure as the cause.
  void require_steps_told(SourceLoc where);
  /// Ends all open steps, and those to come, with this error.
  void cancel(ErrorRef error);
  /// Whether there is anything to mend; with stragglers, every step fails until rejoin(). Cost: an
  /// atomic load.
  [[nodiscard]] bool has_trouble() const noexcept;
  /// What it is, after all that the ranks have said so far.
  [[nodiscard]] CoordinatorTrouble trouble();
  /// All is mended: these are the ranks from here on. Each of them is through with every step that
  /// was begun; what others still say of one is not heard.
  void rejoin(std::vector<std::string> ranks, std::vector<RankProgress> progress = {});
  [[nodiscard]] CoordinatorStatistics statistics();
  [[nodiscard]] CoordinatorInbox inbox() const noexcept { return CoordinatorInbox(mailbox_); }

 private:
  std::shared_ptr<CoordinatorMailbox> mailbox_;
  [[nodiscard]] PendingOptions awaiting(std::string subject, SourceLoc where = {}) const {
    return {.subject = std::move(subject),
            .helper = {.watchdog = watchdog_, .limit = wait_limit_},
            .location = where};
  }
  const IntrusivePtr<detail::Watchdog> watchdog_;
  const std::chrono::nanoseconds wait_limit_;
  std::unique_ptr<detail::OwnedThread> thread_;
};

}  // namespace hearth
