// RmsNorm: x / √(mean of squares + epsilon)·weight over the last axes. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

/// Root-mean-square normalisation over the last axes.
///
/// Paper: Zhang, Sennrich, Root Mean Square Layer Normalization, arXiv:1910.07467.
struct RmsNorm {
  struct Config {
    Shape shape;            ///< Sizes of the last axes of x, which share one mean of squares.
    double epsilon = 1e-5;  ///< Added to the mean of squares.
  };

  Tensor weight;  ///< [shape]; starts at 1.
  double epsilon = 1e-5;

  /// Creates the weight.
  ///
  /// Errors: ArgumentError when the shape has no axes or no elements, or epsilon is below 0.
  RmsNorm(const Config& config,
          const Device& device,
          DType dtype = DType::f32,
          SourceLoc loc = SourceLoc::current());

  /// Applies the layer.
  ///
  /// Shapes: x [..., shape]; the result is like x.
  /// Dtypes: floats; x has the weight's dtype. f16 and bf16 are computed in f32.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(RmsNorm, weight)
};

}  // namespace hearth
