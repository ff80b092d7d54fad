// Conv2d: cross-correlation of pictures with learned windows. A module. Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// Shapes: with k the window's size, p the padding, s the stride and d the dilation along an axis
/// of size n, the result has (n + 2p - d·(k - 1) - 1)/s + 1 positions there, rounded down.
/// Paper: LeCun et al., Gradient-based learning applied to document recognition, Proc. IEEE 1998.
struct Conv2d {
  struct Config {
    std::int64_t in = 0;      ///< Channels of the input.
    std::int64_t out = 0;     ///< Channels of the result.
    Size2d kernel = 3;        ///< Height and width of the window.
    Size2d stride = 1;        ///< From one window to the next.
    Size2d padding = 0;       ///< Zeros at each edge.
    Size2d dilation = 1;      ///< From one tap to the next.
    std::int64_t groups = 1;  ///< Parts of the channels that are convolved apart.
    bool bias = true;         ///< Whether each output has one.
  };

  Tensor weight;               ///< [out, in/groups, kernel height, kernel width]
  std::optional<Tensor> bias;  ///< [out]
  Conv2dOptions options;

  /// Weight and bias start uniform in ±1/sqrt(in/groups · kernel height · kernel width).
  ///
  /// Errors: ArgumentError when a count or size is below 1, the padding is negative, or groups does
  /// not divide in and out.
  Conv2d(const Config& config,
         const Device& device,
         Generator& generator,
         DType dtype = DType::f32,
         SourceLoc loc = SourceLoc::current());

  /// Shapes: x [n, in, height, width]; result [n, out, height', width'].
  /// Dtypes: floats, x as the weight.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(Conv2d, weight, bias)
};

}  // namespace hearth
