// The tiles of products on matrix units, with their measured rates. Threads: any.
#pragma once

#include <array>
#include <cstdint>

#include "product.hpp"

namespace hearth::gpu {

/// A tile and its rate as a share of the fastest tile's.
struct CooperativeCandidate {
  CooperativeTile tile;
  double use = 1;
  double more_depth = 0;
  double use_i8 = 1;         // i8, with b along the depth
  double use_i8_across = 1;  // i8, with b across the depth
  double use_f16_sums = 1;   // f16 with f16 sums

  [[nodiscard]] double use_for(const ProductRequest& request,
                               const CooperativeTile& own) const noexcept {
    if (request.dtype == DType::i8) {
      return request.b.along_depth ? use_i8 : use_i8_across;
    }
    return own.sums_f16 ? use_f16_sums : use;
  }
};

// Measured by bench/gpu/tile_bench.cpp on an H100: `use` at 8192 x 8192 x 8192, `more_depth` at
// 8192 x 2048 x 512. Late fetching gains 40 TFLOP/s of 350 for the first tile, and costs the second
// 15. Columns of i8 and of f16 sums were measured on an H200.
inline constexpr std::array kCooperativeTiles{
    CooperativeCandidate{{160, 192, 64, 80, 48}, 1.0, 200, 1.0, 1.0, 0.85},
    CooperativeCandidate{{128, 256, 32, 64, 64, false}, 0.92, 200, 0.79, 0.87, 0.85},
    CooperativeCandidate{{256, 128, 32, 64, 64}, 0.87, 200, 0.75, 0.85, 0.74},
    CooperativeCandidate{{128, 192, 64, 64, 48, false}, 0.96, 200, 1.0, 0.79, 0.86},
    // For sums that take half as many registers.
    CooperativeCandidate{{256, 192, 64, 128, 48}, 0, 200, 0, 0, 1.0},
    CooperativeCandidate{{192, 256, 64, 96, 64}, 0, 200, 0, 0, 0.96},
    CooperativeCandidate{{128, 128, 64, 64, 64}, 0.89, 150, 0.85, 0.9, 0.83},
    CooperativeCandidate{{128, 128, 64, 64, 32}, 0.85, 120, 0.79, 0.83, 0.73},
    CooperativeCandidate{{64, 128, 64, 32, 64}, 0.73, 80, 0.72, 0.52, 0.64},
    CooperativeCandidate{{128, 64, 64, 64, 32}, 0.73, 80, 0.72, 0.75, 0.64},
    CooperativeCandidate{{64, 64, 64, 32, 32}, 0.6, 80, 0.59, 0.44, 0.51},
    CooperativeCandidate{{64, 64, 32, 32, 32}, 0.5, 80, 0.46, 0.43, 0.46},
};

/// Shared memory of a workgroup of the tile.
/// Units: bytes.
[[nodiscard]] std::int64_t shared_bytes(const CooperativeTile& tile,
                                        const ProductRequest& request) noexcept;
/// The tile's form for this product on this device.
[[nodiscard]] CooperativeTile tile_for(CooperativeTile tile,
                                       const ProductRequest& request,
                                       const DeviceLimits& limits) noexcept;

}  // namespace hearth::gpu
