// ShardedLoader: the parts of every rank in each batch of a data set, from one object, for a step
// of DataParallel.
// Owned by the training loop; data set and executor outlive it, as they do a DataLoader. Threads:
// one at a time; each rank's part is assembled by worker threads of its own.
// Invariants: (1) the parts together are the batch that a DataLoader with the same options gives;
// (2) however many ranks there are, batches are the same, so their number may change at any place.
#pragma once

#include <hearth/modules/data_loader.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace hearth {

class ShardedLoader final {
 public:
  using Shard = HostBatch;

  /// `options.batch_size` is that of the whole batch; `options.rank` and `options.world` are not
  /// looked at. Each rank has `options.worker_count` workers.
  /// Errors: those of DataLoader; ArgumentError when `world` is below 1.
  ShardedLoader(const Dataset& dataset,
                RuntimeExecutor& executor,
                const LoaderOptions& options,
                int world,
                SourceLoc where = SourceLoc::current());
  /// The loader reads from the data set, which a temporary would not outlive.
  ShardedLoader(const Dataset&& dataset,
                RuntimeExecutor& executor,
                const LoaderOptions& options,
                int world,
                SourceLoc where = SourceLoc::current()) = delete;
  ShardedLoader(const ShardedLoader&) = delete;
  ShardedLoader& operator=(const ShardedLoader&) = delete;
  /// As DataLoader's.
  ~ShardedLoader() = default;

  /// The parts of the next batch by rank, some of them empty where it has fewer rows than there are
  /// ranks. An empty list at the end of the epoch, once, and then the next epoch begins.
  /// Errors: those of DataLoader::next(); the batch is the next one still.
  [[nodiscard]] std::vector<HostBatch> next(SourceLoc where = SourceLoc::current());

  [[nodiscard]] std::int64_t batch_count() const noexcept {
    return loaders_.front()->batch_count();
  }
  [[nodiscard]] LoaderCursor cursor() const noexcept { return loaders_.front()->cursor(); }
  /// Goes on from another place. Errors: those of DataLoader::seek().
  void seek(LoaderCursor cursor, SourceLoc where = SourceLoc::current());

  [[nodiscard]] int world() const noexcept { return static_cast<int>(loaders_.size()); }
  /// From the next batch on, there are so many parts, evenly divided where that is another number
  /// than before. Errors: ArgumentError when it is below 1, or another number than before and the
  /// Runtime has ended.
  void set_world(int world, SourceLoc where = SourceLoc::current());
  /// From the next batch on, rank i gets shares[i] of each sum(shares) rows; empty: all ranks the
  /// same. What was read ahead is read again. Errors: ArgumentError when there is not one share a
  /// rank, or none above 0; as set_world().
  void set_shares(std::vector<std::int64_t> shares, SourceLoc where = SourceLoc::current());
  [[nodiscard]] const std::vector<std::int64_t>& shares() const noexcept { return shares_; }

 private:
  void make_loaders(int world, const std::vector<std::int64_t>& shares, SourceLoc where);

  const Dataset& dataset_;
  RuntimeExecutor& executor_;
  const std::weak_ptr<const void> executor_life_;
  const LoaderOptions options_;
  std::vector<std::unique_ptr<DataLoader>> loaders_;  ///< By rank.
  std::vector<std::int64_t> shares_;                  ///< By rank; empty: all the same.
};

}  // namespace hearth
