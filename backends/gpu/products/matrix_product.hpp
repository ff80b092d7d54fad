// Products of strided matrices: matmul, and convolutions that need no windows. Values and
// functions. Threads: any.
#pragma once

#include <array>
#include <cstdint>

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

/// A result of at most this number of columns is computed as its transpose.
inline constexpr std::int64_t kFewColumns = 8;

/// An axis of the batch, the first slowest: its size, and the operands' strides in elements.
struct BatchAxis {
  std::int64_t size = 1;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t bias = 0;
};

/// result[batch, row, column] = sum over depth of a[batch, row, depth] b[batch, depth, column] +
/// bias. All strides count elements.
struct MatrixProduct {
  static constexpr int kMostBatchAxes = 6;

  DType dtype = DType::f32;
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  const std::byte* bias = nullptr;  ///< Null: none.
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t depth = 1;
  std::int64_t a_row = 0;
  std::int64_t a_depth = 0;
  std::int64_t b_depth = 0;
  std::int64_t b_column = 0;
  std::int64_t bias_row = 0;
  std::int64_t bias_column = 0;
  int batch_rank = 0;
  std::array<BatchAxis, kMostBatchAxes> batch{};

  /// Appends an axis behind the others, or merges it with the last one if the strides allow it.
  void add_batch(const BatchAxis& axis) noexcept;
  /// Turns the last batch axes into rows, as long as their products share b.
  void join_rows() noexcept;
};

/// Writes the result to the call's outputs, through its epilogue if it has one.
/// Errors: unsupported, axes of 2^31 and more; those of the encoder.
[[nodiscard]] Status encode_product(MatrixProduct product,
                                    const KernelCall& call,
                                    KernelEncoder& encoder);

}  // namespace hearth::gpu
