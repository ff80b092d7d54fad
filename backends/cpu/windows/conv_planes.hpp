// Copies of input planes for convolutions: in the type of the sum, padded with zeros, and with the
// columns of one stride phase contiguous. So the inputs of neighbouring output columns are
// neighbours at any stride. Threads: any; synchronised by the owner of the memory.
#pragma once

#include "backends/cpu/products/gemm_tiles.hpp"
#include "window_loops.hpp"

#include <hearth/backends/kernel.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// Layout of the copy of a block of rows. Row r and column q of the copy hold row first_row + r and
/// column first_column + q of the plane. The element is at r·row_elements() + (q mod
/// column_stride)·phase_columns + q / column_stride.
struct PlaneBlock {
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
  std::int64_t rows = 0;
  std::int64_t phase_columns = 0;
  std::int64_t column_stride = 1;

  [[nodiscard]] std::int64_t row_elements() const noexcept { return phase_columns * column_stride; }
  [[nodiscard]] std::int64_t plane_elements() const noexcept { return rows * row_elements(); }
  /// Returns the place of column q of the copy within its row.
  [[nodiscard]] std::int64_t column_place(std::int64_t q) const noexcept {
    return q % column_stride * phase_columns + q / column_stride;
  }
};

/// Returns the layout of the elements of x that windows of one tap without padding visit: the input
/// of a convolution of stride 1. For all other windows it is the layout of x.
[[nodiscard]] detail::Layout visited_inputs(const TensorView& x,
                                            const Shape& weight,
                                            const Shape& result,
                                            const ConvAttributes& attributes);

/// Copies `channels` planes of image `image` of x [n, c, h, w], from `channel` on; zeros outside
/// the plane. May write a vector's length behind the copy.
template <class T>
void copy_planes(const WindowLoops<T>& loops,
                 const TensorView& x,
                 std::int64_t image,
                 std::int64_t channel,
                 std::int64_t channels,
                 const PlaneBlock& block,
                 T* to);

/// Copies `count` elements that are `step` apart into consecutive elements of the sum's type.
template <class T>
void gather(const TileKernels<T>& kernels,
            const std::byte* from,
            DType dtype,
            std::int64_t step,
            T* to,
            std::int64_t count);

}  // namespace hearth::cpu
