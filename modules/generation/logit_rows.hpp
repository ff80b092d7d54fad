// Logits of several rows, read from a device. Private to modules. Threads: values.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace hearth::detail {

struct LogitRows {
  std::vector<float> values;
  std::size_t token_count = 0;

  [[nodiscard]] std::span<const float> row(std::size_t i) const {
    return std::span(values).subspan(i * token_count, token_count);
  }
};

/// Reads the logits [rows, tokens] in f32, and waits for them. With one row, axes of size 1 may
/// precede the tokens.
///
/// Errors: ArgumentError for an empty tensor; ShapeError, DtypeError, in the name of `op`;
/// DeviceError when the logits are poisoned.
[[nodiscard]] LogitRows read_logits(const Tensor& logits,
                                    std::size_t rows,
                                    std::string_view op,
                                    SourceLoc loc);

}  // namespace hearth::detail
