// MaxPool2d and AvgPool2d: the largest or the mean value of each window; AdaptiveAvgPool2d: of so
// many windows. Modules without weights.
// Threads: values.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

/// Shapes: x [n, channels, height, width]; result [n, channels, height', width'], where a size m
/// becomes (m + 2·padding - kernel)/stride + 1, rounded down.
struct MaxPool2d {
  using Config = Pool2dOptions;
  Config options = {};
  [[nodiscard]] Tensor forward(Arg x) const { return max_pool2d(x, options); }
  HEARTH_MODULE(MaxPool2d)
};

/// Shapes: as MaxPool2d.
struct AvgPool2d {
  using Config = Pool2dOptions;
  Config options = {};
  [[nodiscard]] Tensor forward(Arg x) const { return avg_pool2d(x, options); }
  HEARTH_MODULE(AvgPool2d)
};

/// Shapes: x [n, channels, height, width]; result [n, channels, size[0], size[1]], whatever the
/// picture's size: adaptive_avg_pool2d().
struct AdaptiveAvgPool2d {
  Size2d size = 1;  ///< Rows and columns of the result.
  [[nodiscard]] Tensor forward(Arg x) const { return adaptive_avg_pool2d(x, size); }
  HEARTH_MODULE(AdaptiveAvgPool2d)
};

}  // namespace hearth
