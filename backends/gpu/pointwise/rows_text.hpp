// The shader of a row kernel. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth::gpu {

/// Addressing of a row's elements, from the begin of the row.
enum class RowAccess : std::uint8_t {
  one,      ///< One element for the whole row.
  vectors,  ///< Contiguous, by whole vectors.
  strided,  ///< By strides.
};

/// Options of the text beside the kernel.
struct RowForm {
  int threads = 256;  ///< Threads of a workgroup.
  /// Threads that share a row: a power of two within a subgroup, or `threads`.
  int row_threads = 32;
  int vector = 1;     ///< Contiguous elements of a load; `strided` needs 1.
  int chunks = 1;     ///< Vectors of a thread. 0: a loop over all vectors, which keeps none.
  int kept_rank = 1;  ///< Axes that select a row; may be 0.
  int row_rank = 1;   ///< Axes of a row; may be 0.
  bool is_wide = false;
  /// A thread processes its kept elements in loops, with one copy of the body instead of one for
  /// each element.
  bool is_rolled = false;
  std::array<RowAccess, kMostExpressionInputs> access{};
};

/// Returns the shader's text. Requires a row kernel without row functions. The parameters, in this
/// order:
/// - x0 … and y0 …: addresses
/// - `rows` and `columns`, each an INDEX
/// - the kernel's scalars
/// - for each kept axis but the first, and each row axis but the first: the size and, if not wide,
///   a Divisor
/// - for each input: a stride for each kept axis and, if strided, for each row axis
[[nodiscard]] std::string rows_text(const KernelIR& kernel,
                                    const RowForm& form,
                                    std::size_t parameter_bytes);

}  // namespace hearth::gpu
