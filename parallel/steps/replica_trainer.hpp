// ReplicaTrainer: DataParallel without the types of model and shards: the ranks, the coordinator
// and the steps. Owned by a DataParallel, whose rules of lifetime, threads and invariants hold
// here.
#pragma once

#include <hearth/modules/rank_range.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/data_parallel_report.hpp>
#include <hearth/parallel/rank_model.hpp>
#include <hearth/parallel/replica.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace hearth {

class BucketPlan;

class ReplicaTrainer final {
 public:
  /// Errors: ArgumentError for invalid options, a model without a float parameter, or an optimizer
  /// group that matches no parameter.
  ReplicaTrainer(const Runtime& runtime,
                 std::unique_ptr<RankModel> model,
                 std::unique_ptr<RankLoss> loss,
                 DataParallelOptions options,
                 SourceLoc where);
  ReplicaTrainer(const ReplicaTrainer&) = delete;
  ReplicaTrainer& operator=(const ReplicaTrainer&) = delete;
  ~ReplicaTrainer();

  /// Mends, and returns the sample count of a batch whose shards have these sizes, by micro-batch
  /// and rank. Calls `hand_over`, which makes the shards ready for the ranks. Errors: those of
  /// DataParallel::step() that the caller's arguments cause or that occur before the step; those of
  /// `hand_over`.
  [[nodiscard]] std::int64_t begin_batch(const std::vector<std::vector<std::int64_t>>& sizes,
                                         const std::function<void()>& hand_over,
                                         SourceLoc where);
  /// Queues a step. Takes the result of begin_batch() and one RankShards for each rank.
  [[nodiscard]] Pending<DataParallelReport> step(std::vector<std::unique_ptr<RankShards>> shards,
                                                 std::int64_t sample_count,
                                                 SourceLoc where);
  /// Whether the step failed by the loss of a device or a rank, and the policy lets the remaining
  /// ranks retry it.
  [[nodiscard]] bool can_repeat(const Status& step) const;
  /// How often a batch may be divided again.
  [[nodiscard]] std::size_t most_repeats() const;

  /// Mends, and throws unless a function can run on all ranks.
  ///
  /// Errors: DeviceError device_lost after a loss with DeviceLossPolicy::stop; deadline_exceeded
  /// when a rank hangs that may not have the weights of the others.
  void require_all(SourceLoc where);
  /// Number of ranks of this process.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] RankRange ranks() const;
  [[nodiscard]] const ProcessGroup& processes() const noexcept;
  /// Throws `failure`; with several processes, waits for all, and throws the first one's failure.
  void settle(const ErrorRef& failure, std::string_view what, SourceLoc where) const;
  [[nodiscard]] DeviceWorker& worker(std::size_t rank) const;
  [[nodiscard]] std::shared_ptr<RankReplica> replica(std::size_t rank) const;
  /// Sets for each rank whether it missed the deadline of its last task.
  void record_late(const std::vector<bool>& is_late);
  /// Deadline of a caller's wait: later than the worker's, which is later than the lane's.
  [[nodiscard]] Deadline step_deadline() const;

  /// Runs a copy of fn on every rank; see DataParallel::update_replicas().
  void change_replicas(const std::function<void(RankReplica& replica, WorkerContext& context)>& fn,
                       SourceLoc where);
  /// Runs a copy of `prepare` on every rank, which must not change the replica; if none fails, runs
  /// a copy of `commit` on every rank. Returns when the change has happened on one rank and so for
  /// all: the others are mended from it.
  ///
  /// Errors: those of change_replicas(); then no rank has changed.
  void change_all_or_none(
      const std::function<void(RankReplica& replica, WorkerContext& context)>& prepare,
      const std::function<void(RankReplica& replica, WorkerContext& context)>& commit,
      SourceLoc where);
  /// See DataParallel::set_learning_rate().
  void set_learning_rate(double rate, SourceLoc where);
  /// See DataParallel::save().
  void save(const std::filesystem::path& file, TrainingProgress progress, SourceLoc where);
  void save_weights(const std::filesystem::path& file, const Metadata& metadata, SourceLoc where);
  [[nodiscard]] TrainingProgress load(const std::filesystem::path& file, SourceLoc where);
  [[nodiscard]] std::unique_ptr<RankModel> snapshot(SourceLoc where);
  /// Errors: ArgumentError when no average is kept.
  [[nodiscard]] std::unique_ptr<RankModel> averaged(SourceLoc where);
  void require_average(SourceLoc where) const;
  [[nodiscard]] std::unique_ptr<RankModel> take_model(SourceLoc where);

  [[nodiscard]] std::vector<Device> devices(SourceLoc where);
  [[nodiscard]] const BucketPlan& buckets() const noexcept;
  [[nodiscard]] CoordinatorStatistics statistics(SourceLoc where);

 private:
  struct Parts;

  /// Runs fn on every rank and waits. Returns each rank's outcome, and notes the ranks that are
  /// late.
  [[nodiscard]] std::vector<Status> run_on_ranks(
      const std::function<void(RankReplica& replica, WorkerContext& context)>& fn, SourceLoc where);

  /// Notes the outcomes of a change, by rank: it has happened if it has on any rank, and the others
  /// are mended from that one.
  void note_change(const std::vector<Status>& outcomes);
  /// Checks a batch of this process; returns its sample count.
  [[nodiscard]] std::int64_t checked_batch(const std::vector<std::vector<std::int64_t>>& sizes,
                                           SourceLoc where);
  /// Runs write() on process 0, and throws its error on all processes.
  void write_first(std::function<void(RankReplica& replica)> fn, SourceLoc where);
  /// Runs fn(replica), which writes a file, on one rank that has the model.
  void write(std::function<void(RankReplica& replica)> fn, SourceLoc where);
  /// The generators of all ranks of all processes.
  [[nodiscard]] std::vector<Generator> generators(SourceLoc where);
  /// Returns fn(). When a device is lost or a rank hangs during fn(), retries with the remaining
  /// ranks, as far as the policy allows. Errors get the location `where`.
  template <class Fn>
  auto with_ranks_left(SourceLoc where, const Fn& fn);

  /// Mends the ranks after a step that some rank could not commit, or after a loss; see
  /// RankGroup::mend. Errors: ArgumentError when the Runtime has ended.
  void mend();
  [[nodiscard]] std::unique_ptr<RankModel> retrieve(
      std::function<std::unique_ptr<RankModel>(RankReplica& replica, WorkerContext& context)> fetch,
      SourceLoc where);

  std::unique_ptr<Parts> parts_;
};

}  // namespace hearth
