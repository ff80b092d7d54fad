// How tensors are printed: nested brackets, one column width, long axes shortened with "…", then
// shape, type and device. Private to runtime. Only what is shown is read from the device.
// Threads: any; pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <hearth/runtime/base/shape.hpp>

namespace hearth::detail {

struct PrintOptions {
  std::int64_t max_elements = 1000;  ///< More than this, and long axes are shortened.
  std::int64_t edge_elements = 3;    ///< What is left of a shortened axis at either end.
  int precision = 4;                 ///< Digits after the point.
};

/// What of a tensor of this shape is printed: its own shape, or with the long axes cut down to
/// their two ends.
[[nodiscard]] Shape shown_shape(const Shape& shape, const PrintOptions& options = {});

/// The values in brackets: "[[1., 2.],\n [3., 4.]]"; a scalar is the bare number. `bytes` holds
/// them in row-major order, all of them or those of shown_shape(). Floats show `precision` digits,
/// none when all are whole, and powers of ten when their sizes differ by more than 1000 or are
/// above 1e8 or below 1e-4, as PyTorch does.
[[nodiscard]] std::string print_values(std::span<const std::byte> bytes,
                                       DType dtype,
                                       const Shape& shape,
                                       const PrintOptions& options = {});

}  // namespace hearth::detail
