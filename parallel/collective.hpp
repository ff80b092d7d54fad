// Collective: the seam of the engines that combine bytes which several devices have lent.
// Whoever calls it (the coordinator) outlives what it has started. Threads: any; a call returns at
// once.
// Invariants: (1) an engine gives every region that it was handed back, by done(), exactly once and
// only when it will not touch its bytes again; (2) then it calls `finished`, exactly once, with the
// same status; (3) a call that throws has ended: the caller reports the exception to all ranks at
// once, and recalls the regions that the engine still has.
#pragma once

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/unique_function.hpp>
#include <hearth/runtime/lent_region.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth {

enum class ReduceOp : std::uint8_t { sum };

/// Elements [begin, end).
struct ElementRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};
/// The part of a region that reduce_scatter() and all_gather() call chunk `rank`: the first
/// element_count % world chunks are longer by one, and with few elements the last ones are empty.
[[nodiscard]] constexpr ElementRange chunk_of(std::size_t element_count,
                                              std::size_t world,
                                              std::size_t rank) noexcept {
  const std::size_t least = element_count / world;
  const std::size_t longer = element_count % world;
  const std::size_t begin = least * rank + (rank < longer ? rank : longer);
  return {begin, begin + least + (rank < longer ? 1 : 0)};
}

class Collective {
 public:
  /// May run on any device's loop: it must not block.
  using Finished = UniqueFunction<void(const Status& status)>;

  Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  virtual ~Collective() = default;

  /// Replaces the elements of every region by their sum over all regions. `regions` stand in rank
  /// order.
  ///
  /// Shapes: all regions have the same size.
  /// Dtypes: equal; f16 and bf16 are summed in f32 and rounded once.
  /// Errors: invalid_argument when the regions differ, or there are none; unsupported for other
  /// types; all of them through done() and `finished`.
  virtual void all_reduce(std::vector<LentRegion> regions, ReduceOp op, Finished finished) = 0;

  /// Region r gets the sums of chunk r (see chunk_of) over all regions; the rest of it stays as it
  /// was. With all_gather() behind it, the same bits as all_reduce(). As all_reduce() otherwise.
  virtual void reduce_scatter(std::vector<LentRegion> regions, ReduceOp op, Finished finished) = 0;

  /// Every region gets chunk r from region r, for all r. Errors: as broadcast().
  virtual void all_gather(std::vector<LentRegion> regions, Finished finished) = 0;

  /// Replaces the bytes of every region by those of region `root`. Errors: as all_reduce(), and
  /// out_of_range when there is no such region.
  virtual void broadcast(std::vector<LentRegion> regions, int root, Finished finished) = 0;
};

}  // namespace hearth
