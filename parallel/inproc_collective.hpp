// InprocCollective: the engine for devices whose bytes this process can touch. Each region is cut
// into one chunk a rank; rank r's device combines chunk r of all regions, in rank order.
// Owned by the code that picks the engine. Threads: any; it has no state.
// Invariant: for a given world size the result has the same bits in every run, and on every rank.
#pragma once

#include <hearth/parallel/collective.hpp>

namespace hearth {

class InprocCollective final : public Collective {
 public:
  /// Cost: 2·world·bytes of memory traffic in all; a device is woken for each 16 KiB at most.
  void all_reduce(std::vector<LentRegion> regions, ReduceOp op, Finished finished) override;
  /// Cost of either: (world + 1)·bytes.
  void reduce_scatter(std::vector<LentRegion> regions, ReduceOp op, Finished finished) override;
  void all_gather(std::vector<LentRegion> regions, Finished finished) override;
  void broadcast(std::vector<LentRegion> regions, int root, Finished finished) override;
};

}  // namespace hearth
