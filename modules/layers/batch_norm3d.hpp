// BatchNorm3d: normalises each channel of a batch of volumes. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/batch_norm.hpp>

namespace hearth {

/// Batch normalisation of a batch of volumes, as detail::BatchNorm describes it.
///
/// Shapes: x [n, channels, depth, height, width], with at least two values per channel in
/// training; the result is like x.
/// Dtypes: floats; x has the weight's dtype.
/// Paper: Ioffe, Szegedy, Batch Normalization, arXiv:1502.03167.
struct BatchNorm3d : detail::BatchNorm {
  using Config = BatchNormConfig;

  /// Creates weight, bias and running statistics.
  ///
  /// Errors: ArgumentError for less than one channel, an epsilon below 0, or a momentum outside [0,
  /// 1].
  BatchNorm3d(const Config& config,
              const Device& device,
              DType dtype = DType::f32,
              SourceLoc loc = SourceLoc::current());

  HEARTH_MODULE(BatchNorm3d, weight, bias, running_mean, running_variance)
};

}  // namespace hearth
