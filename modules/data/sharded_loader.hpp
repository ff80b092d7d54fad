// ShardedLoader: the shards of all ranks for each batch of a data set, from one object, for a step
// of DataParallel. With several processes, those of the ranks of this process.
// Owned by the training loop. The data set and the executor outlive it, as they do a DataLoader.
// Threads: one at a time; each rank's shard is assembled by its own worker threads.
// Invariants: (1) the shards together are the batch of a DataLoader with the same options; (2)
// batches do not depend on the number of ranks, so that may change at any position.
#pragma once

#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/rank_range.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace hearth {

class ShardedLoader final {
 public:
  using Shard = HostBatch;

  /// `options.batch_size` is the size of the whole batch; `options.rank` and `options.world` are
  /// ignored. Each rank has `options.worker_count` workers.
  ///
  /// Errors: those of DataLoader; ArgumentError when `world` is below 1.
  ShardedLoader(const Dataset& dataset,
                RuntimeExecutor& executor,
                const LoaderOptions& options,
                int world,
                SourceLoc where = SourceLoc::current());
  /// Makes the shards of some of the ranks, for one of several processes (DataParallel::ranks()).
  ///
  /// Errors: those of DataLoader; ArgumentError for a range that is empty or exceeds the world.
  ShardedLoader(const Dataset& dataset,
                RuntimeExecutor& executor,
                const LoaderOptions& options,
                RankRange ranks,
                SourceLoc where = SourceLoc::current());
  /// Deleted: the loader refers to the data set, so it must not be a temporary.
  ShardedLoader(const Dataset&& dataset,
                RuntimeExecutor& executor,
                const LoaderOptions& options,
                int world,
                SourceLoc where = SourceLoc::current()) = delete;
  ShardedLoader(const Dataset&& dataset,
                RuntimeExecutor& executor,
                const LoaderOptions& options,
                RankRange ranks,
                SourceLoc where = SourceLoc::current()) = delete;
  ShardedLoader(const ShardedLoader&) = delete;
  ShardedLoader& operator=(const ShardedLoader&) = delete;
  /// Waits for the workers, as ~DataLoader().
  ~ShardedLoader() = default;

  /// Returns the shards of the next batch by rank. Some are empty if the batch has fewer rows than
  /// ranks. At the end of the epoch returns an empty list once; the next call starts the next
  /// epoch.
  ///
  /// Errors: those of DataLoader::next(); the same batch is then the next one again.
  [[nodiscard]] std::vector<HostBatch> next(SourceLoc where = SourceLoc::current());

  [[nodiscard]] std::int64_t batch_count() const noexcept {
    return loaders_.front()->batch_count();
  }
  [[nodiscard]] LoaderCursor cursor() const noexcept { return loaders_.front()->cursor(); }
  /// Continues from another position. Errors: those of DataLoader::seek().
  void seek(LoaderCursor cursor, SourceLoc where = SourceLoc::current());

  /// Number of shards of a batch, over all processes.
  [[nodiscard]] int world() const noexcept { return ranks_.world; }
  /// Sets the ranks whose shards it makes, from the next batch on. A new world divides batches
  /// evenly.
  ///
  /// Errors: ArgumentError for a range that is empty or exceeds the world; those of set_world().
  void set_ranks(RankRange ranks, SourceLoc where = SourceLoc::current());
  /// Sets the number of shards, all made here, from the next batch on. A new number divides batches
  /// evenly.
  ///
  /// Errors: ArgumentError when it is below 1, or when it changes after the Runtime has ended.
  void set_world(int world, SourceLoc where = SourceLoc::current());
  /// Gives rank i shares[i] of each sum(shares) rows, from the next batch on; empty: evenly.
  /// Batches that were read ahead are read again.
  ///
  /// Errors: ArgumentError unless there is one share per rank and one of them is above 0; as
  /// set_world().
  void set_shares(std::vector<std::int64_t> shares, SourceLoc where = SourceLoc::current());
  [[nodiscard]] const std::vector<std::int64_t>& shares() const noexcept { return shares_; }

 private:
  void make_loaders(RankRange ranks, const std::vector<std::int64_t>& shares, SourceLoc where);

  const Dataset& dataset_;
  RuntimeExecutor& executor_;
  const std::weak_ptr<const void> executor_life_;
  const LoaderOptions options_;
  RankRange ranks_;
  std::vector<std::unique_ptr<DataLoader>> loaders_;  ///< By rank of this process.
  std::vector<std::int64_t> shares_;                  ///< By rank; empty: evenly.
};

}  // namespace hearth
