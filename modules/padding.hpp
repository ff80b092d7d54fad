// Pad1d and Pad2d: more elements around rows and pictures. Modules without weights.
// Threads: values.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>

namespace hearth {

/// Shapes: x [..., length]; result [..., left + length + right].
/// Dtypes: all. Errors: as pad().
struct Pad1d {
  std::int64_t left = 0;    ///< Elements in front of a row.
  std::int64_t right = 0;   ///< Elements behind it.
  PadOptions options = {};  ///< What the new elements are.
  [[nodiscard]] Tensor forward(Arg x) const {
    return pad(x, {{.axis = -1, .before = left, .after = right}}, options);
  }
  HEARTH_MODULE(Pad1d)
};

/// Shapes: x [..., height, width]; result [..., top + height + bottom, left + width + right].
/// Dtypes: all. Errors: as pad().
struct Pad2d {
  std::int64_t top = 0;     ///< Rows above.
  std::int64_t bottom = 0;  ///< Rows below.
  std::int64_t left = 0;    ///< Columns at the left.
  std::int64_t right = 0;   ///< Columns at the right.
  PadOptions options = {};  ///< What the new elements are.
  [[nodiscard]] Tensor forward(Arg x) const {
    return pad(x,
               {{.axis = -2, .before = top, .after = bottom},
                {.axis = -1, .before = left, .after = right}},
               options);
  }
  HEARTH_MODULE(Pad2d)
};

}  // namespace hearth
