// RmsNorm: x / √(mean of squares + epsilon)·weight over the last axes. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

/// Paper: Zhang, Sennrich, Root Mean Square Layer Normalization, arXiv:1910.07467.
struct RmsNorm {
  struct Config {
    Shape shape;            ///< Of the last axes of x, over which statistics are taken.
    double epsilon = 1e-5;  ///< Added to the mean of squares.
  };

  Tensor weight;  ///< As the shape says; starts with 1.
  double epsilon = 1e-5;

  /// Errors: ArgumentError when the shape has no axes or no elements, or epsilon is below 0.
  RmsNorm(const Config& config,
          const Device& device,
          DType dtype = DType::f32,
          SourceLoc loc = SourceLoc::current());

  /// Shapes: x [..., shape]; the result is like x.
  /// Dtypes: floats, x as the weight; f16 and bf16 are computed in f32.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(RmsNorm, weight)
};

}  // namespace hearth
