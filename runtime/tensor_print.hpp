// Formats tensors: nested brackets, one column width, long axes shortened with "…", then shape,
// type and device. Reads only the shown elements from the device. Private to runtime.
// Threads: any; pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <hearth/runtime/base/shape.hpp>

namespace hearth::detail {

struct PrintOptions {
  std::int64_t max_elements = 1000;  ///< Tensors with more elements have shortened axes.
  std::int64_t edge_elements = 3;    ///< Elements kept at either end of a shortened axis.
  int precision = 4;                 ///< Digits after the point.
};

/// The shape that is printed: the tensor's, or with the long axes cut to their two ends.
[[nodiscard]] Shape shown_shape(const Shape& shape, const PrintOptions& options = {});

/// Formats the values in brackets: "[[1., 2.],\n [3., 4.]]"; a scalar is the bare number. `bytes`
/// holds all values or those of shown_shape(), in row-major order. Floats show `precision` digits,
/// or none if all are whole. They show powers of ten if their magnitudes differ by more than 1000
/// or are above 1e8 or below 1e-4, as in PyTorch.
[[nodiscard]] std::string print_values(std::span<const std::byte> bytes,
                                       DType dtype,
                                       const Shape& shape,
                                       const PrintOptions& options = {});

}  // namespace hearth::detail
