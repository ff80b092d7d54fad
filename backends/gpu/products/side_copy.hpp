// Copies a product's side to scratch, line by line. Each line begins at a multiple of 16 bytes and
// is padded with zeros. Whole words can then read a side whose lines begin anywhere. Values and
// functions. Threads: any.
#pragma once

#include <array>
#include <cstdint>

#include "backends/gpu/encoder/kernel_encoder.hpp"
#include "matrix_product.hpp"
#include "product.hpp"

namespace hearth::gpu {

/// A side of a product in memory.
struct SideWalk {
  const std::byte* data;
  std::int64_t side_size;
  std::int64_t side_stride;
  std::int64_t depth_stride;
  std::int64_t BatchAxis::*batch_stride;
};
[[nodiscard]] SideWalk a_walk_of(const MatrixProduct& product) noexcept;
[[nodiscard]] SideWalk b_walk_of(const MatrixProduct& product) noexcept;
[[nodiscard]] std::int64_t rounded_up(std::int64_t size, std::int64_t unit) noexcept;

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

/// The form of a copy: its lines lie along the depth if the side's neighbours do, else across it.
[[nodiscard]] SideForm form_of_copy(const SideWalk& walk, int width) noexcept;
/// The copy of a side in this form, with `depth` places along the depth.
[[nodiscard]] SideCopy copy_of(const MatrixProduct& product,
                               const SideWalk& walk,
                               std::int64_t depth,
                               SideForm form) noexcept;
/// Replaces the side by its copy at `data`.
void use_copy(MatrixProduct& product,
              const SideCopy& copy,
              SideForm form,
              const std::byte* data,
              bool is_a) noexcept;

/// Dispatches the copy to `to`, a multiple of 16. Requires fewer than 2^31 words of 16 bytes.
/// Errors: those of the encoder.
[[nodiscard]] Status encode_side_copy(const SideCopy& copy,
                                      std::uint64_t to,
                                      KernelEncoder& encoder);
/// Dispatches the copy of lines of `length` elements, whose distance is `line_bytes`, to
/// neighbouring lines. Requires `from`, `to` and `line_bytes` to be multiples of 16, and elements
/// of 2 or 4 bytes. Errors: those of the encoder.
[[nodiscard]] Status encode_trimmed_copy(DType dtype,
                                         std::uint64_t from,
                                         std::int64_t line_bytes,
                                         std::int64_t length,
                                         std::int64_t lines,
                                         std::uint64_t to,
                                         KernelEncoder& encoder);

}  // namespace hearth::gpu
