// MaxPool1d to MaxPool3d and AvgPool1d to AvgPool3d: the maximum or the mean of each window.
// AdaptiveAvgPool2d: means over a fixed number of windows. Modules without weights.
// Threads: values.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

/// The maximum of each window.
///
/// Shapes: x [n, channels, height, width]; result [n, channels, height', width'].
/// Note: a size m becomes (m + 2·padding - kernel)/stride + 1, rounded down.
struct MaxPool2d {
  using Config = Pool2dOptions;
  Config options = {};
  [[nodiscard]] Tensor forward(Arg x) const { return max_pool2d(x, options); }
  HEARTH_MODULE(MaxPool2d)
};

/// The mean of each window.
///
/// Shapes: as MaxPool2d.
struct AvgPool2d {
  using Config = Pool2dOptions;
  Config options = {};
  [[nodiscard]] Tensor forward(Arg x) const { return avg_pool2d(x, options); }
  HEARTH_MODULE(AvgPool2d)
};

/// The maximum of each window of a sequence.
///
/// Shapes: x [n, channels, length]; result [n, channels, length'].
struct MaxPool1d {
  using Config = Pool1dOptions;
  Config options = {};
  [[nodiscard]] Tensor forward(Arg x) const { return max_pool1d(x, options); }
  HEARTH_MODULE(MaxPool1d)
};

/// The mean of each window of a sequence.
///
/// Shapes: as MaxPool1d.
struct AvgPool1d {
  using Config = Pool1dOptions;
  Config options = {};
  [[nodiscard]] Tensor forward(Arg x) const { return avg_pool1d(x, options); }
  HEARTH_MODULE(AvgPool1d)
};

/// The maximum of each window of a volume.
///
/// Shapes: x [n, channels, depth, height, width]; result [n, channels, depth', height', width'].
struct MaxPool3d {
  using Config = Pool3dOptions;
  Config options = {};
  [[nodiscard]] Tensor forward(Arg x) const { return max_pool3d(x, options); }
  HEARTH_MODULE(MaxPool3d)
};

/// The mean of each window of a volume.
///
/// Shapes: as MaxPool3d.
struct AvgPool3d {
  using Config = Pool3dOptions;
  Config options = {};
  [[nodiscard]] Tensor forward(Arg x) const { return avg_pool3d(x, options); }
  HEARTH_MODULE(AvgPool3d)
};

/// Means over a grid of windows whose number does not depend on the image size:
/// adaptive_avg_pool2d().
///
/// Shapes: x [n, channels, height, width]; result [n, channels, size[0], size[1]].
struct AdaptiveAvgPool2d {
  Size2d size = 1;  ///< Rows and columns of the result.
  [[nodiscard]] Tensor forward(Arg x) const { return adaptive_avg_pool2d(x, size); }
  HEARTH_MODULE(AdaptiveAvgPool2d)
};

}  // namespace hearth
