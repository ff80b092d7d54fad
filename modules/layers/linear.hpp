// Linear: y = x·Wᵀ + b. A module. Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

struct Linear {
  struct Config {
    std::int64_t in = 0;   ///< Size of the last axis of x.
    std::int64_t out = 0;  ///< Size of the last axis of the result.
    bool bias = true;      ///< Whether the layer adds a bias.
  };

  Tensor weight;               ///< [out, in]
  std::optional<Tensor> bias;  ///< [out]

  /// Initialises weight and bias uniformly in ±1/sqrt(in).
  ///
  /// Errors: ArgumentError when in or out is below 1.
  Linear(const Config& config,
         const Device& device,
         Generator& generator,
         DType dtype = DType::f32,
         SourceLoc loc = SourceLoc::current());

  /// Applies the layer.
  ///
  /// Shapes: x [..., in]; result [..., out].
  /// Dtypes: floats; x has the weight's dtype.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;

  HEARTH_MODULE(Linear, weight, bias)
};

}  // namespace hearth
