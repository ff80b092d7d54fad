// GroupNorm: each example's groups of channels with mean 0 and deviation 1. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// It needs no batch and no running statistics: the same in training and evaluation.
/// Paper: Wu, He, Group Normalization, arXiv:1803.08494.
struct GroupNorm {
  struct Config {
    std::int64_t groups = 1;    ///< Divides the channels.
    std::int64_t channels = 0;  ///< Size of axis 1 of x.
    double epsilon = 1e-5;      ///< Added to the variance.
    bool affine = true;         ///< Whether it has weight and bias.
  };

  std::optional<Tensor> weight;  ///< [channels]; starts with 1.
  std::optional<Tensor> bias;    ///< [channels]; starts with 0.
  std::int64_t groups = 1;
  std::int64_t channels = 0;
  double epsilon = 1e-5;

  /// Errors: ArgumentError when a count is below 1, the groups do not divide the channels, or
  /// epsilon is below 0.
  GroupNorm(const Config& config,
            const Device& device,
            DType dtype = DType::f32,
            SourceLoc loc = SourceLoc::current());

  /// Shapes: x [n, channels, ...]; the result is like x.
  /// Dtypes: floats, x as the weight; f16 and bf16 are computed in f32.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(GroupNorm, weight, bias)
};

}  // namespace hearth
