// Conv1d: cross-correlation of sequences (audio, text, measurements) with learned kernels. A
// module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// A 1-d convolution layer.
///
/// Shapes: a length n becomes (n + 2p - d·(k - 1) - 1)/s + 1, rounded down, with kernel size k,
/// padding p, stride s and dilation d.
struct Conv1d {
  struct Config {
    std::int64_t in = 0;        ///< Channels of the input.
    std::int64_t out = 0;       ///< Channels of the result.
    std::int64_t kernel = 3;    ///< Length of the kernel.
    std::int64_t stride = 1;    ///< Distance between neighbouring windows.
    std::int64_t padding = 0;   ///< Zeros added at each end.
    std::int64_t dilation = 1;  ///< Distance between neighbouring taps of the kernel.
    std::int64_t groups = 1;    ///< Channel groups that are convolved separately.
    bool bias = true;           ///< Whether the layer adds a bias.
  };

  Tensor weight;               ///< [out, in/groups, kernel]
  std::optional<Tensor> bias;  ///< [out]
  Conv1dOptions options;

  /// Initialises weight and bias uniformly in ±1/sqrt(in/groups · kernel).
  ///
  /// Errors: ArgumentError when a count or size is below 1, the padding is negative, or groups does
  /// not divide in and out.
  Conv1d(const Config& config,
         const Device& device,
         Generator& generator,
         DType dtype = DType::f32,
         SourceLoc loc = SourceLoc::current());

  /// Applies the layer.
  ///
  /// Shapes: x [n, in, length]; result [n, out, length'].
  /// Dtypes: floats; x has the weight's dtype.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(Conv1d, weight, bias)
};

}  // namespace hearth
