// Embedding: a table with a row for each index. A module. Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>

namespace hearth {

struct Embedding {
  struct Config {
    std::int64_t count = 0;  ///< Rows: how many indices there are.
    std::int64_t width = 0;  ///< Features of a row.
  };

  Tensor weight;  ///< [count, width], as a Linear from width to count has it: the two can be tied.

  /// The weight starts normal with mean 0 and deviation 1.
  ///
  /// Errors: ArgumentError when count or width is below 1.
  Embedding(const Config& config,
            const Device& device,
            Generator& generator,
            DType dtype = DType::f32,
            SourceLoc loc = SourceLoc::current());

  /// Shapes: index [...]; result [..., width].
  /// Dtypes: index i32 or i64; the result's is the weight's.
  /// Errors: DtypeError, DeviceMismatch now; DeviceError when the result is read, of an index
  /// outside [0, count) too.
  [[nodiscard]] Tensor forward(Arg index) const;

  HEARTH_MODULE(Embedding, weight)
};

}  // namespace hearth
