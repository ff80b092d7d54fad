// LayerNorm: (x - mean) / √(variance + epsilon)·weight + bias over the last axes. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <optional>

namespace hearth {

/// Paper: Ba, Kiros, Hinton, Layer Normalization, arXiv:1607.06450.
struct LayerNorm {
  struct Config {
    Shape shape;            ///< Of the last axes of x, over which statistics are taken.
    double epsilon = 1e-5;  ///< Added to the variance.
    bool bias = true;       ///< Whether there is one beside the weight.
  };

  Tensor weight;               ///< As the shape says; starts with 1.
  std::optional<Tensor> bias;  ///< The same; starts with 0.
  double epsilon = 1e-5;

  /// Errors: ArgumentError when the shape has no axes or no elements, or epsilon is below 0.
  LayerNorm(const Config& config,
            const Device& device,
            DType dtype = DType::f32,
            SourceLoc loc = SourceLoc::current());

  /// Shapes: x [..., shape]; the result is like x.
  /// Dtypes: floats, x as the weight; f16 and bf16 are computed in f32.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(LayerNorm, weight, bias)
};

}  // namespace hearth
