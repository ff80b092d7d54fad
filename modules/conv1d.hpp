// Conv1d: cross-correlation of rows (sound, text, measurements) with learned windows. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// Shapes: with k the window's size, p the padding, s the stride and d the dilation, a row of n has
/// (n + 2p - d·(k - 1) - 1)/s + 1 positions in the result, rounded down.
struct Conv1d {
  struct Config {
    std::int64_t in = 0;        ///< Channels of the input.
    std::int64_t out = 0;       ///< Channels of the result.
    std::int64_t kernel = 3;    ///< Length of the window.
    std::int64_t stride = 1;    ///< From one window to the next.
    std::int64_t padding = 0;   ///< Zeros at each end.
    std::int64_t dilation = 1;  ///< From one tap to the next.
    std::int64_t groups = 1;    ///< Parts of the channels that are convolved apart.
    bool bias = true;           ///< Whether each output has one.
  };

  Tensor weight;               ///< [out, in/groups, kernel]
  std::optional<Tensor> bias;  ///< [out]
  Conv1dOptions options;

  /// Weight and bias start uniform in ±1/sqrt(in/groups · kernel).
  ///
  /// Errors: ArgumentError when a count or size is below 1, the padding is negative, or groups does
  /// not divide in and out.
  Conv1d(const Config& config,
         const Device& device,
         Generator& generator,
         DType dtype = DType::f32,
         SourceLoc loc = SourceLoc::current());

  /// Shapes: x [n, in, length]; result [n, out, length'].
  /// Dtypes: floats, x as the weight.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(Conv1d, weight, bias)
};

}  // namespace hearth
