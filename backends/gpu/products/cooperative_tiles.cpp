#include "cooperative_tiles.hpp"

#include <algorithm>

namespace hearth::gpu {

std::int64_t shared_bytes(const CooperativeTile& tile, const ProductRequest& request) noexcept {
  const auto words = [&tile, &request](bool along_depth, int side) {
    const int lines = along_depth ? side : tile.depth;
    const int line = (along_depth ? tile.depth : side) / unit_word(request.dtype);
    return std::int64_t{lines} * (line + 1);
  };
  const std::int64_t warps = tile.threads() / 32;
  const std::int64_t strips = warps * 16 * (tile.warp_columns / 4 + 1);
  const std::int64_t factors =
      !tile.is_emulated ? 0 : warps * (request.dtype == DType::i8 ? 4096 : 2048);
  return factors + 16 * std::max(strips,
                                 words(request.a.along_depth, tile.rows) +
                                     words(request.b.along_depth, tile.columns));
}

// A slice of i8 has the same number of bytes: its fragments are twice as deep.
CooperativeTile tile_for(CooperativeTile tile,
                         const ProductRequest& request,
                         const DeviceLimits& limits) noexcept {
  tile.is_emulated = limits.emulates_matrix_units;
  tile.sums_f16 = limits.sums_f16 && request.dtype == DType::f16;
  tile.depth *= unit_word(request.dtype) / 8;
  return tile;
}

}  // namespace hearth::gpu
