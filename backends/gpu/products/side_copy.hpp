// Copies a product's side to scratch, line by line. Each line begins at a multiple of 16 bytes and
// is padded with zeros. Whole words can then read a side whose lines begin anywhere. Values and
// functions. Threads: any.
#pragma once

#include <array>
#include <cstdint>

#include "backends/gpu/encoder/kernel_encoder.hpp"
#include "matrix_product.hpp"

namespace hearth::gpu {

/// One matrix for each place of the batch axes that move the side. Strides count elements.
struct SideCopy {
  DType dtype = DType::f32;
  const std::byte* from = nullptr;
  std::int64_t length = 1;       ///< Elements of a line.
  std::int64_t step = 1;         ///< Stride within a line.
  std::int64_t lines = 1;        ///< Lines of one matrix.
  std::int64_t line_stride = 0;  ///< Stride between neighbouring lines.
  int batch_rank = 0;
  std::array<std::int64_t, MatrixProduct::kMostBatchAxes> batch_size{};
  std::array<std::int64_t, MatrixProduct::kMostBatchAxes> batch_stride{};
  std::int64_t copied_length = 1;  ///< A multiple of 16 bytes.
  std::int64_t copied_lines = 1;   ///< Lines behind `lines` are zeros.

  [[nodiscard]] std::int64_t matrices() const noexcept;
  [[nodiscard]] std::int64_t bytes() const noexcept;
};

/// Dispatches the copy to `to`, a multiple of 16. Requires fewer than 2^31 words of 16 bytes.
/// Errors: those of the encoder.
[[nodiscard]] Status encode_side_copy(const SideCopy& copy,
                                      std::uint64_t to,
                                      KernelEncoder& encoder);

}  // namespace hearth::gpu
