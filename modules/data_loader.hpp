// DataLoader: batches of a data set, in an order that depends on the seed and the epoch alone,
// assembled ahead by worker threads.
// Owned by the training loop. Threads: one at a time; the workers are its own. Worker w assembles
// every n-th batch into a bounded mailbox of its own, and the reader takes from them in turn.
// Invariants: (1) the same seed and cursor give the same batches, whatever the number of workers;
// (2) the shards of all ranks together are the global batch; (3) at most `prefetch` batches a
// worker wait.
#pragma once

#include <hearth/modules/dataset.hpp>
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
  std::int64_t batch_size = 32;  ///< Of the global batch, which all ranks share.
  std::uint64_t seed = 0;        ///< Seed of the order.
  bool shuffle = true;           ///< Another order each epoch; else that of the data.
  bool drop_last = false;        ///< Leave out the last batch of an epoch when it is smaller.
  int worker_count = 2;          ///< 0: the reader assembles the batches itself.
  int prefetch = 2;              ///< Batches that each worker keeps ready.
  /// How long next() waits for a worker's batch.
  std::chrono::nanoseconds deadline = kDefaultWait;
  /// How long the destructor and seek() wait for a read() that is under way, before they leave its
  /// thread behind, which goes on to use the data set.
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;
  /// Hears of a worker that is left behind; nullptr: the standard error stream. Outlives the
  /// loader.
  RuntimeLog* log = nullptr;
  int rank = 0;   ///< This loader's part of each global batch …
  int world = 1;  ///< … of so many.
  /// How a batch is divided among them: rank i gets shares[i] of each sum(shares) rows. Empty:
  /// evenly.
  std::vector<std::int64_t> shares = {};
  /// What errors call the loader, of what a program wrote; empty: its class.
  std::string name = {};

  /// These options for one of `size` ranks.
  [[nodiscard]] LoaderOptions shard(int of_rank, int size) const {
    LoaderOptions options = *this;
    options.rank = of_rank;
    options.world = size;
    return options;
  }
};

/// The next batch to be read: part of a checkpoint.
struct LoaderCursor {
  std::int64_t epoch = 0;  ///< From 0.
  std::int64_t batch = 0;  ///< In the epoch, from 0.
  friend bool operator==(const LoaderCursor&, const LoaderCursor&) = default;
};

struct Batch;

/// A batch in host memory.
struct HostBatch {
  Examples examples;
  std::int64_t size = 0;         ///< Rows here; 0 on some ranks when the last batch is tiny.
  std::int64_t global_size = 0;  ///< Rows over all ranks: weigh this rank by size/global_size.
  LoaderCursor cursor;           ///< Which batch it is.

  /// The batch on a device, with all its arrays, which move along; its upload is queued on the
  /// calling thread's stream. Errors: what the device says to an upload.
  [[nodiscard]] Batch to(const Device& device, SourceLoc loc = SourceLoc::current()) &&;
};

/// A batch on a device. Inputs and targets are empty where the data set leaves them out.
struct Batch {
  Tensor inputs;
  Tensor targets;
  std::int64_t size = 0;
  std::int64_t global_size = 0;
  LoaderCursor cursor;
  std::vector<NamedTensor> more = {};  ///< Examples::more.

  /// One of `more`, or "inputs" or "targets". Errors: ArgumentError with the names that there are.
  [[nodiscard]] const Tensor& at(std::string_view name, SourceLoc loc = SourceLoc::current()) const;
};

class DataLoader final {
 public:
  /// The data set and the executor (Runtime::executor()) outlive the loader: one that has lost its
  /// Runtime refuses to start workers, and can be destroyed. The data set also outlives a read()
  /// that does not return, with which a worker is left behind. Workers start with the first batch.
  /// Errors: ArgumentError for an empty data set, for options out of range, and
  /// when drop_last leaves no batch.
  DataLoader(const Dataset& dataset,
             RuntimeExecutor& executor,
             LoaderOptions options,
             SourceLoc where = SourceLoc::current());
  /// The loader reads from the data set, which a temporary would not outlive.
  DataLoader(const Dataset&& dataset,
             RuntimeExecutor& executor,
             LoaderOptions options,
             SourceLoc where = SourceLoc::current()) = delete;
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;
  /// Waits for the workers, and so for a Dataset::read() that is under way: they use the data set.
  /// At shutdown_limit, a worker whose read() does not return is named in the log and left behind.
  /// seek() does the same.
  ~DataLoader();

  /// The next batch of this epoch; nothing at its end, once, and then the next epoch begins.
  ///
  /// Errors: what the data set threw, its text with the number of the batch before it;
  /// worker_failed with the cause where that is no Exception of the library's. ShapeError for a
  /// batch that has other sizes than were asked for, or no targets; DeadlineExceeded, whose report
  /// names the worker that is late. Again at each further call, until seek(). ArgumentError when
  /// workers are to start and the Runtime has ended.
  [[nodiscard]] std::optional<HostBatch> next(SourceLoc where = SourceLoc::current());
  /// The same on a device; its upload is queued on the calling thread's stream.
  /// Errors: what the device says to an upload, too; the batch is the next one still.
  [[nodiscard]] std::optional<Batch> next(const Device& device,
                                          SourceLoc where = SourceLoc::current());

  /// Batches in an epoch.
  [[nodiscard]] std::int64_t batch_count() const noexcept { return batch_count_; }
  [[nodiscard]] LoaderCursor cursor() const noexcept { return cursor_; }
  /// Goes on from another place. Errors: ArgumentError when there is no such batch; batch_count()
  /// stands for the end of the epoch.
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
  std::size_t turn_ = 0;  ///< Whose mailbox has the next batch.
  std::unique_ptr<Assembler> own_;
  std::optional<Error> failure_;
};

}  // namespace hearth
