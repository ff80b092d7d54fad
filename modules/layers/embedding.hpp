// Embedding: a table with one row per index. A module. Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

struct Embedding {
  struct Config {
    std::int64_t count = 0;  ///< Number of rows; valid indices are below it.
    std::int64_t width = 0;  ///< Features per row.
    /// Index of padding; below 0 it counts from the end. Its row starts at 0 and gets no gradient.
    std::optional<std::int64_t> padding_idx = {};
  };

  /// [count, width]: the layout of a Linear from width to count, so the two can be tied.
  Tensor weight;
  std::optional<std::int64_t> padding_idx;  ///< 0 or more.

  /// Initialises the weight with normal values of mean 0 and deviation 1, and the row of padding
  /// with 0.
  ///
  /// Errors: ArgumentError when count or width is below 1, or padding_idx is outside
  /// [-count, count).
  Embedding(const Config& config,
            const Device& device,
            Generator& generator,
            DType dtype = DType::f32,
            SourceLoc loc = SourceLoc::current());

  /// Looks up one row per index. The row of padding has a gradient of 0 from these look-ups.
  ///
  /// Shapes: index [...]; result [..., width].
  /// Dtypes: index i32 or i64; the result has the weight's dtype.
  /// Errors: DtypeError, DeviceMismatch now; DeviceError when the result is read, also for an index
  /// outside [0, count).
  [[nodiscard]] Tensor forward(Arg index) const;

  HEARTH_MODULE(Embedding, weight)
};

}  // namespace hearth
