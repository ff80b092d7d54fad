// InprocCollective: the engine for devices whose bytes this process can access. Each region is cut
// into one chunk for each rank; the device of rank r combines chunk r of all regions, in rank
// order.
// Owned by the code that chooses the engine. Threads: any; it has no state.
// Invariant: for a given world size the result has the same bits in every run and on every rank.
#pragma once

#include <hearth/parallel/collective.hpp>

namespace hearth {

class InprocCollective final : public Collective {
 public:
  /// Cost: 2·world·bytes of memory traffic in all; each woken device handles at least 16 KiB.
  void all_reduce(std::vector<LentRegion> regions, ReduceOp op, Finished finished) override;
  /// Cost of reduce_scatter() and all_gather(): (world + 1)·bytes.
  void reduce_scatter(std::vector<LentRegion> regions, ReduceOp op, Finished finished) override;
  void all_gather(std::vector<LentRegion> regions, Finished finished) override;
  void broadcast(std::vector<LentRegion> regions, int root, Finished finished) override;
};

}  // namespace hearth
