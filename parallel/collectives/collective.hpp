// Collective: the interface of engines that combine bytes which several devices have lent. The
// caller (the coordinator) outlives the collectives that it has started.
// Threads: any; a call returns at once.
// Invariants: (1) an engine returns every region by done(), exactly once, and does not touch its
// bytes afterwards; (2) then it calls `finished`, exactly once, with the same status; (3) a call
// that throws has ended: the caller passes the exception to all ranks at once, and recalls the
// regions that the engine still holds.
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
/// The part of a region that reduce_scatter() and all_gather() call chunk `rank`. The first
/// element_count % world chunks are one element longer; with few elements the last chunks are
/// empty.
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
  /// Completion callback. May run on any device's loop, so it must not block.
  using Finished = UniqueFunction<void(const Status& status)>;

  Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  virtual ~Collective() = default;

  /// Replaces the elements of every region by their sum over all regions. `regions` are in rank
  /// order.
  ///
  /// Shapes: all regions have the same size.
  /// Dtypes: equal; f16 and bf16 are summed in f32 and rounded once.
  /// Errors: invalid_argument when the regions differ or there are none; unsupported for other
  /// types. All errors go through done() and `finished`.
  virtual void all_reduce(std::vector<LentRegion> regions, ReduceOp op, Finished finished) = 0;

  /// Gives region r the sums of chunk r (see chunk_of) over all regions; the rest of the region
  /// keeps its bytes. A following all_gather() yields the bits of all_reduce(). Shapes, Dtypes and
  /// Errors: those of all_reduce().
  virtual void reduce_scatter(std::vector<LentRegion> regions, ReduceOp op, Finished finished) = 0;

  /// Copies chunk r of region r to every region, for all r. Errors: those of broadcast().
  virtual void all_gather(std::vector<LentRegion> regions, Finished finished) = 0;

  /// Replaces the bytes of every region by those of region `root`. Errors: those of all_reduce();
  /// out_of_range when region `root` does not exist.
  virtual void broadcast(std::vector<LentRegion> regions, int root, Finished finished) = 0;
};

}  // namespace hearth
