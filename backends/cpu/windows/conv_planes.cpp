#include "conv_planes.hpp"

namespace hearth::cpu {

detail::Layout visited_inputs(const TensorView& x,
                              const Shape& weight,
                              const Shape& result,
                              const ConvAttributes& attributes) {
  detail::Layout layout = *x.layout;
  const bool is_one_tap =
      weight[2] == 1 && weight[3] == 1 && attributes.padding[0] == 0 && attributes.padding[1] == 0;
  if (!is_one_tap || (attributes.stride[0] == 1 && attributes.stride[1] == 1)) {
    return layout;
  }
  for (const int axis : {2, 3}) {
    const auto at = static_cast<std::size_t>(axis);
    layout.shape.set(axis, result[axis]);
    layout.strides[at] *= attributes.stride[at - 2];
  }
  return {layout.shape, layout.strides};
}

template <class T>
void copy_planes(const WindowLoops<T>& loops,
                 const TensorView& x,
                 std::int64_t image,
                 std::int64_t channel,
                 std::int64_t channels,
                 const PlaneBlock& block,
                 T* to) {
  const Strides& steps = x.strides();
  loops.copy({.from = x.data + (image * steps[0] + channel * steps[1]) * size_bytes(x.dtype),
              .dtype = x.dtype,
              .plane_step = steps[1],
              .row_step = steps[2],
              .column_step = steps[3],
              .height = x.shape()[2],
              .width = x.shape()[3],
              .planes = channels,
              .first_row = block.first_row,
              .first_column = block.first_column,
              .rows = block.rows,
              .phase_columns = block.phase_columns,
              .phases = block.column_stride},
             to);
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

template void copy_planes<float>(const WindowLoops<float>&,
                                 const TensorView&,
                                 std::int64_t,
                                 std::int64_t,
                                 std::int64_t,
                                 const PlaneBlock&,
                                 float*);
template void copy_planes<double>(const WindowLoops<double>&,
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
