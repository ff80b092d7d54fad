// ProcessCollective: the engine for ranks in several processes. Each process lends the regions of
// its own ranks; the results are over all ranks. A process sums one part of a region, in rank
// order, and sends the sums to the others.
// Owned by a trainer. The calls of all processes come in the same order. Threads: any; the sums run
// on the group's thread.
// Invariant: a sum has the bits of InprocCollective for the same ranks in one process, however the
// ranks are distributed.
#pragma once

#include <hearth/parallel/collective.hpp>
#include <hearth/parallel/process_group.hpp>
#include <hearth/parallel/process_ranks.hpp>

#include <chrono>
#include <cstddef>
#include <memory>

namespace hearth {

class ProcessCollective final : public Collective {
 public:
  /// `limit`: of one call, as long as the other processes give signs of life.
  ProcessCollective(ProcessGroup group, ProcessRanks ranks, std::chrono::nanoseconds limit);

  /// Cost: each process sends and receives about (local ranks + 1)·bytes.
  ///
  /// Errors: those of Collective; collective_failed when the group fails.
  void all_reduce(std::vector<LentRegion> regions, ReduceOp op, Finished finished) override;
  /// Takes part in the all_reduce() of the others with zeros, for a process whose step has failed.
  void all_reduce_zeros(std::size_t size_bytes, DType dtype, Finished finished);
  void reduce_scatter(std::vector<LentRegion> regions, ReduceOp op, Finished finished) override;
  void all_gather(std::vector<LentRegion> regions, Finished finished) override;
  void broadcast(std::vector<LentRegion> regions, int root, Finished finished) override;

  [[nodiscard]] const ProcessRanks& ranks() const noexcept { return *ranks_; }

 private:
  class Round;
  void start(std::unique_ptr<Round> round, Status checked, const char* what);

  const ProcessGroup group_;
  const std::shared_ptr<const ProcessRanks> ranks_;
  const std::chrono::nanoseconds limit_;
};

}  // namespace hearth
