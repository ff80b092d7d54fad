// Ops over windows: convolutions and pools. ops.hpp includes this header and states the rules of
// all ops. Threads: any.
#pragma once

#include <cstdint>
#include <optional>

#include <hearth/runtime/size2d.hpp>
#include <hearth/runtime/size3d.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

struct Conv2dOptions {
  Size2d stride = 1;        ///< Distance between neighbouring windows, in elements.
  Size2d padding = 0;       ///< Zeros added at each edge.
  Size2d dilation = 1;      ///< Distance between neighbouring taps of a window, in elements.
  std::int64_t groups = 1;  ///< Groups of channels that are convolved separately.
};
/// 2-D convolution: x [n, c, h, w], weight [o, c/groups, kh, kw], bias [o] -> [n, o, h', w'].
[[nodiscard]] Tensor conv2d(Arg x, Arg weight, Conv2dOptions options = {});
[[nodiscard]] Tensor conv2d(Arg x, Arg weight, Arg bias, Conv2dOptions options = {});
struct Conv1dOptions {
  std::int64_t stride = 1;    ///< Distance between neighbouring windows, in elements.
  std::int64_t padding = 0;   ///< Zeros added at each end.
  std::int64_t dilation = 1;  ///< Distance between neighbouring taps of a window, in elements.
  std::int64_t groups = 1;    ///< Groups of channels that are convolved separately.
};
/// 1-D convolution: x [n, c, length], weight [o, c/groups, k], bias [o] -> [n, o, length'].
[[nodiscard]] Tensor conv1d(Arg x, Arg weight, Conv1dOptions options = {});
[[nodiscard]] Tensor conv1d(Arg x, Arg weight, Arg bias, Conv1dOptions options = {});
struct Conv3dOptions {
  Size3d stride = 1;        ///< Distance between neighbouring windows, in elements.
  Size3d padding = 0;       ///< Zeros added at each face.
  Size3d dilation = 1;      ///< Distance between neighbouring taps of a window, in elements.
  std::int64_t groups = 1;  ///< Groups of channels that are convolved separately.
};
/// 3-D convolution: x [n, c, d, h, w], weight [o, c/groups, kd, kh, kw], bias [o] ->
/// [n, o, d', h', w']. Sums are kept as in conv2d.
///
/// Dtypes: floats, equal for all operands. Errors: ShapeError, DtypeError; ArgumentError for
/// options outside their range. Cost: one conv2d, and kd copies of x in memory.
[[nodiscard]] Tensor conv3d(Arg x, Arg weight, Conv3dOptions options = {});
[[nodiscard]] Tensor conv3d(Arg x, Arg weight, Arg bias, Conv3dOptions options = {});
struct ConvTranspose2dOptions {
  Size2d stride = 1;          ///< Distance in the result between the windows of neighbours in x.
  Size2d padding = 0;         ///< Elements cut off at each edge of the result.
  Size2d output_padding = 0;  ///< Elements added at the end of each axis, fewer than the stride.
  Size2d dilation = 1;        ///< Distance between neighbouring taps of a window, in elements.
  std::int64_t groups = 1;    ///< Groups of channels that are computed separately.
};
/// Transposed 2-D convolution: each element of x adds its multiple of the weight to a window of the
/// result. It is the gradient of conv2d with respect to its input.
///
/// Shapes: x [n, c, h, w], weight [c, o/groups, kh, kw], bias [o] -> [n, o, h', w'] with
/// h' = (h - 1)·stride - 2·padding + dilation·(kh - 1) + output_padding + 1.
/// Dtypes: floats, equal for all operands. Errors: ShapeError, DtypeError; ArgumentError for
/// options outside their range or a result without elements. Paper: Zeiler et al., Deconvolutional
/// Networks, CVPR 2010.
[[nodiscard]] Tensor conv_transpose2d(Arg x, Arg weight, ConvTranspose2dOptions options = {});
[[nodiscard]] Tensor conv_transpose2d(Arg x,
                                      Arg weight,
                                      Arg bias,
                                      ConvTranspose2dOptions options = {});
struct ConvTranspose1dOptions {
  std::int64_t stride = 1;          ///< Distance in the result between the windows of neighbours.
  std::int64_t padding = 0;         ///< Elements cut off at each end of the result.
  std::int64_t output_padding = 0;  ///< Elements added at the end, fewer than the stride.
  std::int64_t dilation = 1;        ///< Distance between neighbouring taps of a window.
  std::int64_t groups = 1;          ///< Groups of channels that are computed separately.
};
/// Transposed 1-D convolution: x [n, c, length], weight [c, o/groups, k], bias [o] ->
/// [n, o, length'].
[[nodiscard]] Tensor conv_transpose1d(Arg x, Arg weight, ConvTranspose1dOptions options = {});
[[nodiscard]] Tensor conv_transpose1d(Arg x,
                                      Arg weight,
                                      Arg bias,
                                      ConvTranspose1dOptions options = {});
struct Pool2dOptions {
  Size2d kernel = 2;  ///< Height and width of the window.
  /// Distance between neighbouring windows; the kernel's size if omitted.
  std::optional<Size2d> stride = {};
  Size2d padding = 0;             ///< Padding at each edge, at most half the kernel.
  bool count_include_pad = true;  ///< Counts padding in the mean; only for avg_pool2d.
};
[[nodiscard]] Tensor max_pool2d(Arg x, Pool2dOptions options = {});
[[nodiscard]] Tensor avg_pool2d(Arg x, Pool2dOptions options = {});
struct Pool1dOptions {
  std::int64_t kernel = 2;                  ///< Length of the window.
  std::optional<std::int64_t> stride = {};  ///< Distance between windows; the kernel if omitted.
  std::int64_t padding = 0;                 ///< Padding at each end, at most half the kernel.
  bool count_include_pad = true;            ///< Counts padding in the mean; only for avg_pool1d.
};
/// The largest element of each window. Shapes: x [n, c, length] -> [n, c, length'].
[[nodiscard]] Tensor max_pool1d(Arg x, Pool1dOptions options = {});
/// The mean of each window. Shapes: x [n, c, length] -> [n, c, length'].
[[nodiscard]] Tensor avg_pool1d(Arg x, Pool1dOptions options = {});
struct Pool3dOptions {
  Size3d kernel = 2;  ///< Depth, height and width of the window.
  /// Distance between neighbouring windows; the kernel's size if omitted.
  std::optional<Size3d> stride = {};
  Size3d padding = 0;             ///< Padding at each face, at most half the kernel.
  bool count_include_pad = true;  ///< Counts padding in the mean; only for avg_pool3d.
};
/// The largest element of each window. Shapes: x [n, c, d, h, w] -> [n, c, d', h', w'].
/// Cost: two passes, over planes and over depths.
[[nodiscard]] Tensor max_pool3d(Arg x, Pool3dOptions options = {});
/// The mean of each window. Dtypes: floats; f16 and bf16 are computed in f32. Shapes and cost: as
/// max_pool3d.
[[nodiscard]] Tensor avg_pool3d(Arg x, Pool3dOptions options = {});
/// Means over size[0]·size[1] windows that cover the image. Window i of k begins at i·n/k, rounded
/// down, and ends at (i + 1)·n/k, rounded up.
///
/// Shapes: x [n, c, h, w] -> [n, c, size[0], size[1]]. Dtypes: floats; 16-bit ones are computed in
/// f32. Errors: ShapeError for another rank or an empty image; ArgumentError for a size below 1.
[[nodiscard]] Tensor adaptive_avg_pool2d(Arg x, Size2d size);

}  // namespace hearth
