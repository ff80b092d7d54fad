#include "library_call.hpp"

#include <cstddef>
#include <cstdint>

namespace hearth::gpu {
namespace {

// True if a library's product takes less time than a kernel: it has matrix units for 16 bits, and
// takes some microseconds to begin.
bool is_for_library(DType dtype, std::int64_t rows, std::int64_t columns, double work) noexcept {
  constexpr double kLeastWork = 0x1p27;
  constexpr double kLeastWorkOnUnits = 0x1p21;
  const bool is_short = dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::i8;
  return is_short ? work >= kLeastWorkOnUnits
                  : work >= kLeastWork && rows > kFewColumns && columns > kFewColumns;
}

}  // namespace

Result<bool> encode_by_library(const MatrixProduct& p,
                               const ProductResult& result,
                               const KernelCall& call,
                               KernelEncoder& encoder) {
  const double work = static_cast<double>(p.batch_rank == 0 ? 1 : p.batch[0].size) *
                      static_cast<double>(p.rows) * static_cast<double>(p.columns) *
                      static_cast<double>(p.depth);
  if (!encoder.limits().has_product_library || result.has_epilogue() || p.batch_rank > 1 ||
      p.bias_row != 0 || (p.bias != nullptr && (p.bias_column != 1 || p.batch[0].bias != 0)) ||
      !is_for_library(p.dtype, p.rows, p.columns, work)) {
    return false;
  }
  const auto address = [](const std::byte* data) {
    return std::uint64_t{reinterpret_cast<std::uintptr_t>(data)};  // NOLINT: a device address
  };
  return encoder.product_by_library({.dtype = p.dtype,
                                     .a = address(p.a),
                                     .b = address(p.b),
                                     .y = address(call.outputs[0].data),
                                     .bias = address(p.bias),
                                     .matrices = p.batch_rank == 0 ? 1 : p.batch[0].size,
                                     .a_matrix = p.batch[0].a,
                                     .b_matrix = p.batch[0].b,
                                     .rows = p.rows,
                                     .columns = p.columns,
                                     .depth = p.depth,
                                     .a_row = p.a_row,
                                     .a_depth = p.a_depth,
                                     .b_depth = p.b_depth,
                                     .b_column = p.b_column});
}

}  // namespace hearth::gpu
