// ReplicaTrainer: DataParallel without the types of model and shards: the ranks, the coordinator
// and the steps. Owned by a DataParallel; what the Runtime and the engine must outlive is said
// there. Threads: one at a time. Invariants: those of DataParallel.
#pragma once

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
#include <vector>

namespace hearth {

class BucketPlan;

class ReplicaTrainer final {
 public:
  /// Errors: ArgumentError when the options make no sense, the model has no float parameter, or one
  /// of the optimizer's groups matches none.
  ReplicaTrainer(const Runtime& runtime,
                 std::unique_ptr<RankModel> model,
                 std::unique_ptr<RankLoss> loss,
                 DataParallelOptions options,
                 SourceLoc where);
  ReplicaTrainer(const ReplicaTrainer&) = delete;
  ReplicaTrainer& operator=(const ReplicaTrainer&) = delete;
  ~ReplicaTrainer();

  /// Mends, and counts the samples of a batch whose shards have these sizes, by micro-batch and
  /// rank. Errors: those of DataParallel::step() that are the caller's, or come before the step.
  [[nodiscard]] std::int64_t begin_batch(const std::vector<std::vector<std::int64_t>>& sizes,
                                         SourceLoc where);
  /// Queues a step. Behind begin_batch(), with its result and one RankShards a rank.
  [[nodiscard]] Pending<DataParallelReport> step(std::vector<std::unique_ptr<RankShards>> shards,
                                                 std::int64_t sample_count,
                                                 SourceLoc where);
  /// Whether a step that ended so was lost with a device or a rank, and the policy lets the ranks
  /// that are left do it over.
  [[nodiscard]] bool can_repeat(const Status& step) const;
  /// How often a batch may be divided again.
  [[nodiscard]] std::size_t most_repeats() const;

  /// Mends, and refuses where no function can be run on all ranks.
  /// Errors: DeviceError device_lost when there was a loss and the policy is to stop, or
  /// deadline_exceeded when a rank hangs that may not have the weights of the others.
  void require_all(SourceLoc where);
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] DeviceWorker& worker(std::size_t rank) const;
  [[nodiscard]] std::shared_ptr<RankReplica> replica(std::size_t rank) const;
  /// By rank, whether it did not come in time.
  void note_late(const std::vector<bool>& is_late);
  /// When a caller gives up: later than a worker, which waits longer than a lane.
  [[nodiscard]] Deadline step_deadline() const;

  /// A copy of fn on every rank: see DataParallel::update_replicas().
  void change_replicas(const std::function<void(RankReplica& replica, WorkerContext& context)>& fn,
                       SourceLoc where);
  /// A copy of `prepare` on every rank, which changes nothing that counts; then, when none has
  /// failed, one of `commit` on every rank. Returns when the change has happened on a rank, and so
  /// for all: the others are mended from it.
  /// Errors: as change_replicas(); then no rank has changed.
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

  /// fn on every rank, waited for; by rank how it ended. Notes who is late.
  [[nodiscard]] std::vector<Status> run_on_ranks(
      const std::function<void(RankReplica& replica, WorkerContext& context)>& fn, SourceLoc where);

  /// fn(replica), which writes a file, on one rank that has the model.
  void write(std::function<void(RankReplica& replica)> fn, SourceLoc where);
  [[nodiscard]] std::vector<Generator> generators();
  /// fn(), and once more with the ranks that are left when one is lost or hangs in it, as far as
  /// the policy lets them go on. Errors are at `where`.
  template <class Fn>
  auto with_ranks_left(SourceLoc where, const Fn& fn);

  /// After a step that some rank could not commit, or a loss: see RankGroup::mend.
  /// Errors: ArgumentError when the Runtime has ended.
  void mend();
  [[nodiscard]] std::unique_ptr<RankModel> retrieve(
      std::function<std::unique_ptr<RankModel>(RankReplica& replica, WorkerContext& context)> fetch,
      SourceLoc where);

  std::unique_ptr<Parts> parts_;
};

}  // namespace hearth
