// Upsample: resizes sequences, pictures or volumes. A module without weights. Threads: values.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

/// Resizes the axes behind the channels with interpolate(): Upsample{{.scale = 2}}.
///
/// Shapes: x [n, channels, length], [n, channels, height, width] or [n, channels, depth, height,
/// width]; the result has other sizes from axis 2 on.
struct Upsample {
  using Config = InterpolateOptions;
  Config options = {};
  [[nodiscard]] Tensor forward(Arg x) const { return interpolate(x, options); }
  HEARTH_MODULE(Upsample)
};

}  // namespace hearth
