// Copies of input planes for convolutions: in the type of the sum, with zeros around them, and with
// the columns of one stride side by side, so that the inputs of neighbouring output columns are
// neighbours whatever the stride. Threads: any; the owner of the memory decides.
#pragma once

#include "gemm_tiles.hpp"

#include <hearth/backends/kernel.hpp>

#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// Where the copy of a block of rows lies. Row r and column q of the copy stand for row first_row +
/// r and column first_column + q of the plane; the element is at r·row_elements() + (q mod
/// column_stride)·phase_columns + q / column_stride.
struct PlaneBlock {
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
  std::int64_t rows = 0;
  std::int64_t phase_columns = 0;
  std::int64_t column_stride = 1;

  [[nodiscard]] std::int64_t row_elements() const noexcept { return phase_columns * column_stride; }
  [[nodiscard]] std::int64_t plane_elements() const noexcept { return rows * row_elements(); }
  /// Place of column q of the copy within its row.
  [[nodiscard]] std::int64_t column_place(std::int64_t q) const noexcept {
    return q % column_stride * phase_columns + q / column_stride;
  }
};

/// Copies `channels` planes of image `image`, beginning with `channel`, of x [n, c, h, w]. Zero
/// outside the plane.
template <class T>
void copy_planes(const TileKernels<T>& kernels,
                 const TensorView& x,
                 std::int64_t image,
                 std::int64_t channel,
                 std::int64_t channels,
                 const PlaneBlock& block,
                 T* to);

/// Copies `count` elements that lie `step` apart into consecutive ones of the sum's type.
template <class T>
void gather(const TileKernels<T>& kernels,
            const std::byte* from,
            DType dtype,
            std::int64_t step,
            T* to,
            std::int64_t count);

}  // namespace hearth::cpu
