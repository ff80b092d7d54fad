// StepAgreement: one process's part in the decisions of a training over several processes. All
// processes take a step or none: each reports how its sweeps ended, and then whether its updates
// are prepared. A process whose step failed gives zeros and its error for all that it owes, so no
// process waits for it in vain. Private to parallel.
// Owned by a trainer and its coordinator. Threads: begin() the trainer's; the others the
// coordinator's. Callbacks run on the group's thread.
// Invariant: every process makes the same exchanges in the same order.
#pragma once

#include <hearth/parallel/bucket_plan.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/process_collective.hpp>
#include <hearth/parallel/process_group.hpp>
#include <hearth/parallel/process_ranks.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hearth {

/// A rank's sweep, for the other processes.
struct SweptRank {
  double loss = 0;
  LossKind loss_kind = LossKind::none;
  double weight = 0;
  std::vector<std::size_t> unused = {};  ///< Parameters that its loss does not use.
};
/// The end of a process's sweeps.
struct SweptProcess {
  std::uint64_t happened_count = 0;  ///< Steps before this one that happened.
  ErrorRef failure = nullptr;
  std::vector<SweptRank> ranks = {};  ///< Empty after a failure.
};

class StepAgreement final {
 public:
  /// Counts the ranks of all processes. `buckets`: of the plan that the processes have in common.
  /// `limit`: of each exchange of a step, while the other processes give signs of life.
  ///
  /// Errors: collective_failed.
  StepAgreement(ProcessGroup group,
                std::size_t rank_count,
                std::vector<GradientBucket> buckets,
                std::chrono::nanoseconds limit,
                SourceLoc where);

  [[nodiscard]] const ProcessGroup& group() const noexcept { return group_; }
  [[nodiscard]] const ProcessRanks& ranks() const noexcept { return engine_.ranks(); }
  [[nodiscard]] Collective& engine() noexcept { return engine_; }

  /// Waits until all processes begin a step. Returns the number of samples of all of them.
  /// `changes` stands for the changes of the replicas outside of steps.
  ///
  /// Errors: `failure`, if this process cannot begin it; the failure of the first process that
  /// cannot; collective_failed when the processes begin different steps, or differ in `changes`.
  [[nodiscard]] std::int64_t begin(std::int64_t step,
                                   std::int64_t sample_count,
                                   std::uint64_t changes,
                                   const ErrorRef& failure,
                                   SourceLoc where) const;
  /// Takes part in the sum of a bucket with zeros.
  void owe(std::size_t bucket);
  void share_sweep(std::int64_t step,
                   const SweptProcess& own,
                   UniqueFunction<void(Result<std::vector<SweptProcess>>)> end) const;
  /// Votes for the step's commit, or against it with an error. The result has each process's error,
  /// or null.
  void vote(std::int64_t step,
            const ErrorRef& failure,
            UniqueFunction<void(Result<std::vector<ErrorRef>>)> end) const;

 private:
  [[nodiscard]] static ProcessRanks counted(const ProcessGroup& group,
                                            std::size_t rank_count,
                                            SourceLoc where);

  const ProcessGroup group_;
  const std::chrono::nanoseconds limit_;
  const std::vector<GradientBucket> buckets_;
  ProcessCollective engine_;
};

}  // namespace hearth
