// Ops that read pictures at other places than their elements: interpolate, grid_sample. ops.hpp
// includes this header and states the rules of all ops. Threads: any.
#pragma once

#include <cstdint>

#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/per_axis.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

enum class InterpolateMode : std::uint8_t {
  nearest,        ///< Takes the element at the place, rounded down.
  nearest_exact,  ///< Takes the element whose centre is nearest.
  linear,         ///< Weighs the two neighbours along each axis: bilinear, trilinear.
  cubic,          ///< Weighs four neighbours along each axis: bicubic.
};
struct InterpolateOptions {
  /// Sizes of the result's axes behind the channels; one number stands for all.
  PerAxis<std::int64_t> size = {};
  /// Factors of these sizes, in place of `size`; the result's sizes are rounded down.
  PerAxis<double> scale = {};
  InterpolateMode mode = InterpolateMode::nearest;  ///< How elements are combined.
  /// True: the first and last elements of an axis keep their places. Not for nearest ones.
  bool align_corners = false;
  /// True: a smaller result is a mean over all elements. Only for linear and cubic.
  bool antialias = false;
};
/// Resizes pictures, sequences or volumes, as torch.nn.functional.interpolate. With `scale`, places
/// follow from the factor, not from the rounded sizes.
///
/// Shapes: x [n, c, w], [n, c, h, w] or [n, c, d, h, w]; the result has other sizes from axis 2 on.
/// Dtypes: floats, of which f16 and bf16 are computed in f32; for the nearest element all.
/// Errors: ShapeError for another rank or an axis without elements; ArgumentError unless one of
/// `size` and `scale` is given, with one number or one for each axis, and for an option that the
/// mode lacks.
/// Paper: Keys, Cubic Convolution Interpolation for Digital Image Processing, IEEE TASSP 1981.
[[nodiscard]] Tensor interpolate(Arg x, InterpolateOptions options);

enum class GridMode : std::uint8_t {
  bilinear,  ///< Weighs the neighbours around the place; in volumes eight.
  nearest,   ///< Takes the nearest element; ties go to the even place.
  bicubic,   ///< Weighs sixteen neighbours; for pictures only.
};
enum class GridPadding : std::uint8_t {
  zeros,       ///< Elements outside are 0.
  border,      ///< Places outside move to the edge.
  reflection,  ///< Places outside are mirrored at the edges.
};
struct GridSampleOptions {
  GridMode mode = GridMode::bilinear;        ///< How elements are combined.
  GridPadding padding = GridPadding::zeros;  ///< Elements outside of the picture.
  /// True: -1 and 1 are the centres of the first and last elements; false: their outer edges.
  bool align_corners = false;
};
/// Samples pictures at the places of a grid, as torch.nn.functional.grid_sample. A place is (x, y),
/// in volumes (x, y, z), from -1 at the start of an axis to 1 at its end; NaN counts as -1. Both
/// operands have gradients.
///
/// Shapes: x [n, c, h, w], grid [n, p, q, 2] -> [n, c, p, q]; or x [n, c, d, h, w], grid
/// [n, p, q, r, 3] -> [n, c, p, q, r].
/// Dtypes: floats, promoted to one type; f16 and bf16 are computed in f32.
/// Errors: ShapeError, DtypeError; ArgumentError for bicubic volumes.
/// Paper: Jaderberg et al., Spatial Transformer Networks, arXiv:1506.02025.
[[nodiscard]] Tensor grid_sample(Arg x, Arg grid, GridSampleOptions options = {});

struct AffineGridOptions {
  bool align_corners = false;  ///< The value that grid_sample() then gets.
};
/// The places that affine maps give to the elements of a result of this size, for grid_sample().
///
/// Shapes: theta [n, 2, 3], size [n, c, h, w] -> [n, h, w, 2]; or theta [n, 3, 4], size
/// [n, c, d, h, w] -> [n, d, h, w, 3].
/// Dtypes: floats; f16 and bf16 are computed in f32. Errors: ShapeError, DtypeError.
[[nodiscard]] Tensor affine_grid(Arg theta, const Shape& size, AffineGridOptions options = {});

}  // namespace hearth
