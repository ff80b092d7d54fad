// GroupNorm: normalises each group of channels of each example to mean 0 and deviation 1. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// Group normalisation. Needs neither a batch nor running statistics, so it is the same in training
/// and evaluation.
///
/// Paper: Wu, He, Group Normalization, arXiv:1803.08494.
struct GroupNorm {
  struct Config {
    std::int64_t groups = 1;    ///< Number of groups; divides the channels.
    std::int64_t channels = 0;  ///< Size of axis 1 of x.
    double epsilon = 1e-5;      ///< Added to the variance.
    bool affine = true;         ///< Whether the layer has a weight and a bias.
  };

  std::optional<Tensor> weight;  ///< [channels]; starts at 1.
  std::optional<Tensor> bias;    ///< [channels]; starts at 0.
  std::int64_t groups = 1;
  std::int64_t channels = 0;
  double epsilon = 1e-5;

  /// Creates weight and bias.
  ///
  /// Errors: ArgumentError when a count is below 1, the groups do not divide the channels, or
  /// epsilon is below 0.
  GroupNorm(const Config& config,
            const Device& device,
            DType dtype = DType::f32,
            SourceLoc loc = SourceLoc::current());

  /// Applies the layer.
  ///
  /// Shapes: x [n, channels, ...]; the result is like x.
  /// Dtypes: floats; x has the weight's dtype. f16 and bf16 are computed in f32.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(GroupNorm, weight, bias)
};

}  // namespace hearth
