// DataLoader: batches of a data set, in an order that depends on seed and epoch only, assembled
// ahead by worker threads.
// Owned by the training loop. Threads: one at a time; the loader owns its workers. Worker w
// assembles every n-th batch into its own bounded mailbox, and the reader takes from the mailboxes
// in turn.
// Invariants: (1) the same seed and cursor give the same batches, whatever the number of workers;
// (2) the shards of all ranks together are the global batch; (3) at most `prefetch` finished
// batches per worker wait.
#pragma once

#include <hearth/modules/dataset.hpp>
#include <hearth/modules/example_order.hpp>
#include <hearth/modules/named_tensor.hpp>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

struct LoaderOptions {
  std::int64_t batch_size = 32;  ///< Rows of the global batch, which all ranks share.
  std::uint64_t seed = 0;        ///< Seed of the shuffled order.
  bool shuffle = true;           ///< Whether each epoch has a new order; else the data set's order.
  /// Draws by weights, or batches of similar lengths (weighted_order(), bucketed_order()), in place
  /// of the shuffle.
  ExampleOrder order = {};
  bool drop_last = false;  ///< Whether to drop the last batch of an epoch when it is smaller.
  /// Number of worker threads; 0: next() assembles batches on the calling thread.
  int worker_count = 2;
  int prefetch = 2;  ///< Finished batches that each worker keeps ready.
  /// Limit of next() for a worker's batch.
  std::chrono::nanoseconds deadline = kDefaultWait;
  /// Limit of the destructor and seek() for a read() in progress. After it the worker is abandoned
  /// and keeps using the data.
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;
  /// Log that reports an abandoned worker; nullptr: standard error. Outlives the loader.
  RuntimeLog* log = nullptr;
  int rank = 0;   ///< Rank of this loader, which yields its part of each global batch.
  int world = 1;  ///< Number of ranks.
  /// Division of a batch among the ranks: rank i gets shares[i] of each sum(shares) rows. Empty:
  /// evenly.
  std::vector<std::int64_t> shares = {};
  /// Name of the loader in errors about the program's data or options; empty: its class name.
  std::string name = {};

  /// Returns these options for one of `size` ranks.
  [[nodiscard]] LoaderOptions shard(int of_rank, int size) const {
    LoaderOptions options = *this;
    options.rank = of_rank;
    options.world = size;
    return options;
  }
};

/// Position of the next batch; part of a checkpoint.
struct LoaderCursor {
  std::int64_t epoch = 0;  ///< Number of the epoch, from 0.
  std::int64_t batch = 0;  ///< Number of the batch in the epoch, from 0.
  friend bool operator==(const LoaderCursor&, const LoaderCursor&) = default;
};

struct Batch;

/// A batch in host memory.
struct HostBatch {
  Examples examples;
  std::int64_t size = 0;         ///< Rows here; may be 0 on some ranks in a small last batch.
  std::int64_t global_size = 0;  ///< Rows over all ranks: weight this rank by size/global_size.
  LoaderCursor cursor;           ///< Position of this batch.

  /// Moves all arrays of the batch to a device. The upload is queued on the calling thread's
  /// stream.
  ///
  /// Errors: those of an upload.
  [[nodiscard]] Batch to(const Device& device, SourceLoc loc = SourceLoc::current()) &&;
};

/// A batch on a device. Inputs and targets are empty if the data set omits them.
struct Batch {
  Tensor inputs;
  Tensor targets;
  std::int64_t size = 0;
  std::int64_t global_size = 0;
  LoaderCursor cursor;
  std::vector<NamedTensor> more = {};  ///< Examples::more.

  /// Returns the tensor of this name: "inputs", "targets", or one of `more`.
  ///
  /// Errors: ArgumentError that lists the existing names.
  [[nodiscard]] const Tensor& at(std::string_view name, SourceLoc loc = SourceLoc::current()) const;
};

class DataLoader final {
 public:
  /// The data set and the executor (Runtime::executor()) outlive the loader. After its Runtime has
  /// ended, a loader can only be destroyed: it starts no workers. The data set also outlives any
  /// read() of an abandoned worker. Workers start with the first batch.
  ///
  /// Errors: ArgumentError for an empty data set, for options out of range, for an order of other
  /// data or batches, and when drop_last leaves no batch.
  DataLoader(const Dataset& dataset,
             RuntimeExecutor& executor,
             LoaderOptions options,
             SourceLoc where = SourceLoc::current());
  /// Deleted: the loader refers to the data set, so it must not be a temporary.
  DataLoader(const Dataset&& dataset,
             RuntimeExecutor& executor,
             LoaderOptions options,
             SourceLoc where = SourceLoc::current()) = delete;
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;
  /// Waits for the workers, and so for a Dataset::read() in progress, since they use the data set.
  /// After shutdown_limit, a worker whose read() has not returned is logged and abandoned. seek()
  /// does the same.
  ~DataLoader();

  /// Returns the next batch of this epoch. At the end of the epoch returns nothing once; the next
  /// call starts the next epoch.
  ///
  /// Errors: the data set's exception, its text prefixed with the number of the batch;
  /// worker_failed with the cause if that is not an Exception of the library; ShapeError for a
  /// batch of other sizes than requested, or without targets; DeadlineExceeded whose report names
  /// the late worker. Each further call throws the same error until seek(). ArgumentError when
  /// workers must start and the Runtime has ended.
  [[nodiscard]] std::optional<HostBatch> next(SourceLoc where = SourceLoc::current());
  /// Returns the next batch on a device. The upload is queued on the calling thread's stream.
  ///
  /// Errors: as next(), and those of an upload; after a failed upload the batch is the next one
  /// again.
  [[nodiscard]] std::optional<Batch> next(const Device& device,
                                          SourceLoc where = SourceLoc::current());

  /// Number of batches in an epoch.
  [[nodiscard]] std::int64_t batch_count() const noexcept { return batch_count_; }
  [[nodiscard]] LoaderCursor cursor() const noexcept { return cursor_; }
  /// Continues from another position. The batch number batch_count() is the end of the epoch.
  ///
  /// Errors: ArgumentError for a position out of range.
  void seek(LoaderCursor cursor, SourceLoc where = SourceLoc::current());

 private:
  struct Worker;
  class Assembler;

  void start_workers(SourceLoc where);
  void stop_workers() noexcept;
  [[nodiscard]] Result<HostBatch> take(SourceLoc where);

  const Dataset& dataset_;
  RuntimeExecutor& executor_;
  const std::weak_ptr<const void> executor_life_;
  const LoaderOptions options_;
  const std::int64_t batch_count_;
  LoaderCursor cursor_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::size_t turn_ = 0;  ///< Worker whose mailbox has the next batch.
  std::unique_ptr<Assembler> own_;
  std::optional<Error> failure_;
};

}  // namespace hearth
