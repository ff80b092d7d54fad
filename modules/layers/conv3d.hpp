// Conv3d: cross-correlation of volumes (scans, films) with learned kernels. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// A 3-d convolution layer.
///
/// Shapes: an axis of size n becomes (n + 2p - d·(k - 1) - 1)/s + 1, rounded down, with kernel size
/// k, padding p, stride s and dilation d.
struct Conv3d {
  struct Config {
    std::int64_t in = 0;      ///< Channels of the input.
    std::int64_t out = 0;     ///< Channels of the result.
    Size3d kernel = 3;        ///< Depth, height and width of the kernel.
    Size3d stride = 1;        ///< Distance between neighbouring windows.
    Size3d padding = 0;       ///< Zeros added at each face.
    Size3d dilation = 1;      ///< Distance between neighbouring taps of the kernel.
    std::int64_t groups = 1;  ///< Channel groups that are convolved separately.
    bool bias = true;         ///< Whether the layer adds a bias.
  };

  Tensor weight;               ///< [out, in/groups, kernel depth, kernel height, kernel width]
  std::optional<Tensor> bias;  ///< [out]
  Conv3dOptions options;

  /// Initialises weight and bias uniformly in ±1/sqrt(in/groups · kernel depth · kernel height ·
  /// kernel width).
  ///
  /// Errors: ArgumentError when a count or size is below 1, the padding is negative, or groups does
  /// not divide in and out.
  Conv3d(const Config& config,
         const Device& device,
         Generator& generator,
         DType dtype = DType::f32,
         SourceLoc loc = SourceLoc::current());

  /// Applies the layer.
  ///
  /// Shapes: x [n, in, depth, height, width]; result [n, out, depth', height', width'].
  /// Dtypes: floats; x has the weight's dtype.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(Conv3d, weight, bias)
};

}  // namespace hearth
