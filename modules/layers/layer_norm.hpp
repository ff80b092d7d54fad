// LayerNorm: (x - mean) / √(variance + epsilon)·weight + bias over the last axes. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <optional>

namespace hearth {

/// Layer normalisation over the last axes.
///
/// Paper: Ba, Kiros, Hinton, Layer Normalization, arXiv:1607.06450.
struct LayerNorm {
  struct Config {
    Shape shape;            ///< Sizes of the last axes of x, which share one mean and variance.
    double epsilon = 1e-5;  ///< Added to the variance.
    bool bias = true;       ///< Whether the layer adds a bias.
  };

  Tensor weight;               ///< [shape]; starts at 1.
  std::optional<Tensor> bias;  ///< [shape]; starts at 0.
  double epsilon = 1e-5;

  /// Creates weight and bias.
  ///
  /// Errors: ArgumentError when the shape has no axes or no elements, or epsilon is below 0.
  LayerNorm(const Config& config,
            const Device& device,
            DType dtype = DType::f32,
            SourceLoc loc = SourceLoc::current());

  /// Applies the layer.
  ///
  /// Shapes: x [..., shape]; the result is like x.
  /// Dtypes: floats; x has the weight's dtype. f16 and bf16 are computed in f32.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(LayerNorm, weight, bias)
};

}  // namespace hearth
