// Conv2d: cross-correlation of images with learned kernels. A module. Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// A 2-d convolution layer.
///
/// Shapes: an axis of size n becomes (n + 2p - d·(k - 1) - 1)/s + 1, rounded down, with kernel size
/// k, padding p, stride s and dilation d.
/// Paper: LeCun et al., Gradient-based learning applied to document recognition, Proc. IEEE 1998.
struct Conv2d {
  struct Config {
    std::int64_t in = 0;      ///< Channels of the input.
    std::int64_t out = 0;     ///< Channels of the result.
    Size2d kernel = 3;        ///< Height and width of the kernel.
    Size2d stride = 1;        ///< Distance between neighbouring windows.
    Size2d padding = 0;       ///< Zeros added at each edge.
    Size2d dilation = 1;      ///< Distance between neighbouring taps of the kernel.
    std::int64_t groups = 1;  ///< Channel groups that are convolved separately.
    bool bias = true;         ///< Whether the layer adds a bias.
  };

  Tensor weight;               ///< [out, in/groups, kernel height, kernel width]
  std::optional<Tensor> bias;  ///< [out]
  Conv2dOptions options;

  /// Initialises weight and bias uniformly in ±1/sqrt(in/groups · kernel height · kernel width).
  ///
  /// Errors: ArgumentError when a count or size is below 1, the padding is negative, or groups does
  /// not divide in and out.
  Conv2d(const Config& config,
         const Device& device,
         Generator& generator,
         DType dtype = DType::f32,
         SourceLoc loc = SourceLoc::current());

  /// Applies the layer.
  ///
  /// Shapes: x [n, in, height, width]; result [n, out, height', width'].
  /// Dtypes: floats; x has the weight's dtype.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(Conv2d, weight, bias)
};

}  // namespace hearth
