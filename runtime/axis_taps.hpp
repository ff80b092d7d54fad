// Resampling of one axis: each element of the result is a sum of a few elements, its taps, times
// weights that the host computes. interpolate() and ONNX's Resize use it. Header-internal.
// Stateless. Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth::detail {

/// The weight of an element by its distance from a place.
struct TapKernel {
  bool is_cubic = false;       ///< False: linear.
  double coefficient = -0.75;  ///< Coefficient a of the cubic.
  /// Below 1, distances count less: the mean reaches further, for antialiasing.
  double squeeze = 1;
  /// True: elements outside have no weight; false: the edge takes theirs.
  bool excludes_outside = false;
};

struct AxisTaps {
  std::int64_t count = 1;                    ///< Taps of each element of the result.
  std::vector<std::int64_t> positions = {};  ///< [elements of the result, count]
  std::vector<double> weights = {};          ///< [elements of the result, count]
};

/// The taps of results that lie at these places of an axis with `size` elements, 1 or more.
[[nodiscard]] AxisTaps taps_at(std::span<const double> places,
                               std::int64_t size,
                               const TapKernel& kernel);
/// Replaces the axis by the sums of its taps. Requires a tensor of floats.
[[nodiscard]] Tensor sum_taps(const Tensor& x, int axis, const AxisTaps& taps, SourceLoc loc);
/// Replaces the axis by its elements at the positions. A view or an expansion if these repeat or
/// skip elements regularly. Dtypes: all.
[[nodiscard]] Tensor elements_at(Tensor x,
                                 int axis,
                                 std::span<const std::int64_t> positions,
                                 SourceLoc loc);

}  // namespace hearth::detail
