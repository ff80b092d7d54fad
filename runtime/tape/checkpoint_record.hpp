// CheckpointRecord: one call of checkpoint() on a tape: how to run its function again, and the
// results that this must give. Private to runtime. Threads: the tape's owner.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/recompute.hpp>

#include "runtime/ops/random_draw.hpp"
#include "tape.hpp"

namespace hearth::detail {

class CheckpointRecord final {
 public:
  /// A tracked result of the first run.
  struct Result {
    std::size_t place = 0;   ///< Index among the results.
    std::uint32_t node = 0;  ///< Node that receives its gradient.
    DType dtype = DType::f32;
    Shape shape;
  };

  explicit CheckpointRecord(IntrusivePtr<Tape> owner)
      : tape(std::move(owner)), first_run(std::in_place, draws, DrawScope::Way::record) {}

  IntrusivePtr<Tape> tape;  ///< Set while the region is open.
  CheckpointRegion::Again again;
  std::vector<DrawnNumbers> draws;
  std::optional<DrawScope> first_run;  ///< Set while the region is open.
  std::size_t result_count = 0;
  std::vector<Result> results;
  std::uint32_t node = 0;
  SourceLoc location;  ///< Location of the first op.
};

}  // namespace hearth::detail
