// Staging memory of a GPU's copies. A value.
#pragma once

#include <cstdint>

namespace hearth::gpu {

struct StagingOptions {
  /// Size of each direction's ring. Bench: hearth-gpu-staging.
  std::int64_t ring_bytes = std::int64_t{64} << 20;
  /// Bytes copied at a time, at most half of the ring; other lanes get a turn between two pieces.
  std::int64_t piece_bytes = std::int64_t{8} << 20;
  int threads = 1;  ///< Number of host threads that copy a piece.
};

}  // namespace hearth::gpu
