// The shader of a row kernel. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth::vulkan {

/// How a row's elements of an input are found, from where the row begins.
enum class RowAccess : std::uint8_t {
  one,      ///< The same for all of the row.
  vectors,  ///< One behind the other, from whole vectors on.
  strided,  ///< By strides.
};

/// All that the text depends on, beside the kernel.
struct RowForm {
  int threads = 256;     ///< Of a workgroup.
  int row_threads = 32;  ///< That share a row: a power of two; `threads`, or within a subgroup.
  int vector = 1;        ///< Neighbours that a thread takes together; `strided` needs 1.
  int chunks = 1;        ///< Vectors of a thread. 0: as many as there are, and nothing is kept.
  int kept_rank = 1;     ///< Axes by which rows are found; may be 0.
  int row_rank = 1;      ///< Axes of a row; may be 0.
  bool is_wide = false;
  /// What a thread keeps it works on in loops, with one copy of the body, not one for each element.
  bool is_rolled = false;
  std::array<RowAccess, kMostExpressionInputs> access{};
};

/// Parameters, in this order: x0 … and y0 …, addresses; `rows` and `columns`, INDEX; the kernel's
/// scalars; for each axis but the first of the kept ones, and of a row's, the size and, if not
/// wide, a Divisor; for each input a stride for each kept axis and, if strided, each axis of a row.
/// Requires a row kernel without row functions.
[[nodiscard]] std::string rows_text(const KernelIR& kernel,
                                    const RowForm& form,
                                    std::size_t parameter_bytes);

}  // namespace hearth::vulkan
