#include "conv_planes.hpp"

#include <algorithm>
#include <cstring>

namespace hearth::cpu {

namespace {

// Copies the columns of one phase of one row: zeros, the part inside the plane, zeros.
template <class T>
void copy_phase(const TileKernels<T>& kernels,
                const TensorView& x,
                const std::byte* row,
                const PlaneBlock& block,
                std::int64_t phase,
                T* to) {
  const std::int64_t stride = block.column_stride;
  const std::int64_t origin = block.first_column + phase;
  const std::int64_t width = x.shape()[3];
  const std::int64_t before =
      origin >= 0 ? 0 : std::min(block.phase_columns, (-origin + stride - 1) / stride);
  const std::int64_t inside_end = width <= origin ? 0 : (width - origin + stride - 1) / stride;
  const std::int64_t end = std::clamp(inside_end, before, block.phase_columns);
  std::fill(to, to + before, T{});
  gather(kernels,
         row + (origin + before * stride) * x.strides()[3] * size_bytes(x.dtype),
         x.dtype,
         stride * x.strides()[3],
         to + before,
         end - before);
  std::fill(to + end, to + block.phase_columns, T{});
}

// Copies a plane whose rows are contiguous and of the sum's type: clears it, then copies the part
// inside.
template <class T>
void copy_plane(const TensorView& x, const T* plane, const PlaneBlock& block, T* to) {
  const std::int64_t row_step = x.strides()[2];
  const std::int64_t first = std::max<std::int64_t>(block.first_row, 0);
  const std::int64_t end = std::min(block.first_row + block.rows, x.shape()[2]);
  const std::int64_t begin = std::max<std::int64_t>(block.first_column, 0);
  const std::int64_t count =
      std::min(block.first_column + block.phase_columns, x.shape()[3]) - begin;
  if (end - first < block.rows || count < block.phase_columns) {
    std::fill(to, to + block.plane_elements(), T{});
  }
  if (first >= end || count <= 0) {
    return;
  }
  to += (first - block.first_row) * block.phase_columns + begin - block.first_column;
  for (std::int64_t row = first; row < end; ++row, to += block.phase_columns) {
    std::memcpy(to, plane + row * row_step + begin, static_cast<std::size_t>(count) * sizeof(T));
  }
}

}  // namespace

template <class T>
void copy_planes(const TileKernels<T>& kernels,
                 const TensorView& x,
                 std::int64_t image,
                 std::int64_t channel,
                 std::int64_t channels,
                 const PlaneBlock& block,
                 T* to) {
  const Strides& steps = x.strides();
  if (x.dtype == dtype_of<T> && steps[3] == 1 && block.column_stride == 1) {
    for (std::int64_t c = channel; c < channel + channels; ++c, to += block.plane_elements()) {
      copy_plane(x, x.as<const T>() + image * steps[0] + c * steps[1], block, to);
    }
    return;
  }
  for (std::int64_t c = channel; c < channel + channels; ++c) {
    for (std::int64_t r = 0; r < block.rows; ++r, to += block.row_elements()) {
      const std::int64_t y = block.first_row + r;
      if (y < 0 || y >= x.shape()[2]) {
        std::fill(to, to + block.row_elements(), T{});
        continue;
      }
      const std::byte* row =
          x.data + (image * steps[0] + c * steps[1] + y * steps[2]) * size_bytes(x.dtype);
      for (std::int64_t phase = 0; phase < block.column_stride; ++phase) {
        copy_phase(kernels, x, row, block, phase, to + phase * block.phase_columns);
      }
    }
  }
}

template <class T>
void gather(const TileKernels<T>& kernels,
            const std::byte* from,
            DType dtype,
            std::int64_t step,
            T* to,
            std::int64_t count) {
  if (count <= 0) {
    return;
  }
  if (step == 1) {
    kernels.load(from, dtype, to, count);
    return;
  }
  kernels.pack({.from = from,
                .item_step = 1,
                .depth_step = step,
                .depth = count,
                .items = 1,
                .width = 1,
                .panel_step = count},
               dtype,
               to);
}

template void copy_planes<float>(const TileKernels<float>&,
                                 const TensorView&,
                                 std::int64_t,
                                 std::int64_t,
                                 std::int64_t,
                                 const PlaneBlock&,
                                 float*);
template void copy_planes<double>(const TileKernels<double>&,
                                  const TensorView&,
                                  std::int64_t,
                                  std::int64_t,
                                  std::int64_t,
                                  const PlaneBlock&,
                                  double*);
template void gather<float>(
    const TileKernels<float>&, const std::byte*, DType, std::int64_t, float*, std::int64_t);
template void gather<double>(
    const TileKernels<double>&, const std::byte*, DType, std::int64_t, double*, std::int64_t);

}  // namespace hearth::cpu
