// The shader of a pointwise kernel, by the memory access of its operands. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth::gpu {

/// Addressing of an input's elements.
enum class Access : std::uint8_t {
  linear,   ///< By the place itself.
  cell,     ///< One element for all places.
  rows,     ///< A vector at a time, by strides.
  columns,  ///< One element for all places of a vector, by strides.
  any,      ///< One element at a time, by strides.
};
[[nodiscard]] constexpr bool is_strided(Access access) noexcept {
  return access >= Access::rows;
}

/// Options of the text beside the kernel.
struct PointwiseForm {
  int vector = 1;  ///< Contiguous elements of a load; `any` needs 1.
  int pieces = 1;  ///< Vectors of a thread, a workgroup's width apart.
  int run = 0;     ///< Not 0: a thread takes this number of neighbours one by one instead.
  int rank = 1;    ///< Rank of the space of strided operands.
  int threads = 256;
  bool is_wide = false;
  bool may_fail = false;
  bool is_guarded = false;
  std::array<Access, kMostExpressionInputs> access{};
  std::array<std::int8_t, kMostExpressionOutputs> keeps{};  ///< With a guard.
};

/// Returns the shader's text. Its parameters, in this order:
/// - x0 … and y0 …: addresses
/// - `cell` if the kernel may fail, and `guard` if it is guarded
/// - n, an INDEX
/// - the kernel's scalars
/// - if an operand is strided, for each axis but the first: the size and, if not wide, a Divisor
/// - for each strided operand: a stride for each axis
[[nodiscard]] std::string pointwise_text(const KernelIR& kernel,
                                         const PointwiseForm& form,
                                         std::size_t parameter_bytes);

}  // namespace hearth::gpu
