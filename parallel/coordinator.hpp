// Coordinator: the actor that brings the ranks of a training step together. Each rank lends its
// gradient buckets; when all ranks of a bucket are there, the engine reduces it. The first thing
// that goes wrong on any rank (an exception, a poisoned gradient, a loss that is not finite, a
// missing rank) ends the step for all: from then on every bucket of it comes back with that error.
// Owned by a trainer; the Runtime and the engine outlive it. Runs on a thread of its own.
// Threads: everything is a message, from any thread, and never blocks.
// Invariants: (1) the last bucket of a step is reduced only when every rank has lent it, so no rank
// commits a step which another one did not get through; (2) every bucket comes back: reduced, or
// with the step's error; (3) a step is decided when every rank is through with it or was given up.
#pragma once

#include <hearth/parallel/collective.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/lent_region.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hearth {

struct CoordinatorOptions {
  std::vector<std::string> ranks;  ///< How error texts call each rank: "rank 1 on cpu:1".
  std::size_t bucket_count = 0;
  /// How long the first rank of a bucket waits for the last one.
  Duration deadline = std::chrono::seconds(5);
};

/// How far a trainer has come. Counts.
struct CoordinatorStatistics {
  std::uint64_t steps = 0;         ///< decided
  std::uint64_t failed_steps = 0;  ///< decided with an error
  std::uint64_t buckets = 0;       ///< reduced
  std::uint64_t bytes = 0;         ///< of one rank's share of these
};

/// A rank's bucket, lent, or why there is none. `loss` is the rank's part of the step's loss; it
/// comes with the first bucket.
struct BucketArrival {
  std::int64_t step = 0;
  std::size_t bucket = 0;
  int rank = 0;
  std::optional<Result<double>> loss;
  Result<LentRegion> region;
};

class Coordinator final {
 public:
  Coordinator(Executor& executor, Collective& engine, CoordinatorOptions options);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  /// Cancels what is open and ends the thread.
  ~Coordinator();

  /// Opens a step; comes before its other messages. The Pending has the sum of the ranks' losses
  /// once every rank is through, or the first error.
  [[nodiscard]] Pending<double> begin(std::int64_t step);
  /// Rank `rank` will lend no more of this step.
  void abort(std::int64_t step, ErrorRef error);
  /// The rank is through: its optimizer step is done, or not, for this reason.
  void finish(std::int64_t step, int rank, ErrorRef error);
  /// Ends all open steps, and those to come, with this error.
  void cancel(ErrorRef error);
  /// The ranks that failed to commit a step which others committed, if any; until rejoin(), every
  /// step fails.
  [[nodiscard]] std::vector<int> stragglers();
  void rejoin();
  [[nodiscard]] CoordinatorStatistics statistics();

  /// Where arrivals go. It may be used after the coordinator is gone: then buckets are refused, and
  /// come back cancelled.
  class Inbox final {
   public:
    void arrive(BucketArrival arrival) noexcept;

   private:
    friend class Coordinator;
    struct Impl;
    explicit Inbox(std::shared_ptr<Impl> impl) noexcept;
    std::shared_ptr<Impl> impl_;
  };
  [[nodiscard]] Inbox inbox() const noexcept;

 private:
  class Loop;

  std::shared_ptr<Inbox::Impl> inbox_;
  std::unique_ptr<Joinable> thread_;
};

}  // namespace hearth
