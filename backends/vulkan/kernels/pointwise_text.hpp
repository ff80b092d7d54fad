// The shader of a pointwise kernel, for operands that lie in memory in one of a few ways. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth::vulkan {

/// How the elements of an input are found.
enum class Access : std::uint8_t {
  linear,   ///< At the place itself.
  cell,     ///< One for all places.
  rows,     ///< A vector at a time, by strides.
  columns,  ///< One for all places of a vector, by strides.
  any,      ///< One at a time, by strides.
};
[[nodiscard]] constexpr bool is_strided(Access access) noexcept {
  return access >= Access::rows;
}

/// All that the text depends on, beside the kernel.
struct PointwiseForm {
  int vector = 1;  ///< Neighbours that a thread takes together; `any` needs 1.
  int pieces = 1;  ///< Vectors of a thread, a workgroup's width apart.
  int run = 0;     ///< Not 0: a thread takes so many neighbours, one after the other, instead.
  int rank = 1;    ///< Of the space by which strided operands are found.
  int threads = 256;
  bool is_wide = false;
  bool may_fail = false;
  bool is_guarded = false;
  std::array<Access, kMostExpressionInputs> access{};
  std::array<std::int8_t, kMostExpressionOutputs> keeps{};  ///< Where guarded.
};

/// Parameters, in this order: x0 … and y0 …, addresses; `cell` where it may fail; `guard`; n, an
/// INDEX; the kernel's scalars; for each axis but the first the size and, if not wide, a Divisor; a
/// stride for each strided operand and axis.
[[nodiscard]] std::string pointwise_text(const KernelIR& kernel,
                                         const PointwiseForm& form,
                                         std::size_t parameter_bytes);

}  // namespace hearth::vulkan
