// ConvTranspose2d: images enlarged by learned kernels. A module. Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// A transposed 2-d convolution layer.
///
/// Shapes: an axis of size n becomes (n - 1)·s - 2p + d·(k - 1) + o + 1, with kernel size k,
/// padding p, output padding o, stride s and dilation d. Paper: Zeiler et al., Deconvolutional
/// Networks, CVPR 2010.
struct ConvTranspose2d {
  struct Config {
    std::int64_t in = 0;        ///< Channels of the input.
    std::int64_t out = 0;       ///< Channels of the result.
    Size2d kernel = 2;          ///< Height and width of the kernel.
    Size2d stride = 1;          ///< Distance between the windows of neighbouring elements.
    Size2d padding = 0;         ///< Elements cut off at each edge.
    Size2d output_padding = 0;  ///< Elements added at the end of each axis, fewer than the stride.
    Size2d dilation = 1;        ///< Distance between neighbouring taps of the kernel.
    std::int64_t groups = 1;    ///< Channel groups that are computed separately.
    bool bias = true;           ///< Whether the layer adds a bias.
  };

  Tensor weight;               ///< [in, out/groups, kernel height, kernel width]
  std::optional<Tensor> bias;  ///< [out]
  ConvTranspose2dOptions options;

  /// Initialises weight and bias uniformly in ±1/sqrt(out/groups · kernel height · kernel width),
  /// as PyTorch does.
  ///
  /// Errors: ArgumentError when a count or size is below 1, a padding is negative, the output
  /// padding is not below the stride, or groups does not divide in and out.
  ConvTranspose2d(const Config& config,
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

  HEARTH_MODULE(ConvTranspose2d, weight, bias)
};

}  // namespace hearth
