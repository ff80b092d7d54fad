// Pad1d and Pad2d: add elements around sequences and images. Modules without weights.
// Threads: values.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>

namespace hearth {

/// Pads the last axis.
///
/// Shapes: x [..., length]; result [..., left + length + right].
/// Dtypes: all.
/// Errors: as pad().
struct Pad1d {
  std::int64_t left = 0;    ///< Elements added at the start.
  std::int64_t right = 0;   ///< Elements added at the end.
  PadOptions options = {};  ///< Values of the new elements.
  [[nodiscard]] Tensor forward(Arg x) const {
    return pad(x, {{.axis = -1, .before = left, .after = right}}, options);
  }
  HEARTH_MODULE(Pad1d)
};

/// Pads the last two axes.
///
/// Shapes: x [..., height, width]; result [..., top + height + bottom, left + width + right].
/// Dtypes: all.
/// Errors: as pad().
struct Pad2d {
  std::int64_t top = 0;     ///< Rows added above.
  std::int64_t bottom = 0;  ///< Rows added below.
  std::int64_t left = 0;    ///< Columns added at the left.
  std::int64_t right = 0;   ///< Columns added at the right.
  PadOptions options = {};  ///< Values of the new elements.
  [[nodiscard]] Tensor forward(Arg x) const {
    return pad(x,
               {{.axis = -2, .before = top, .after = bottom},
                {.axis = -1, .before = left, .after = right}},
               options);
  }
  HEARTH_MODULE(Pad2d)
};

}  // namespace hearth
