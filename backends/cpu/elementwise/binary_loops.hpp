// The inner loops of the two-input kinds, over contiguous elements; one side may be a single
// element. out may equal a or b. Private to backends/cpu. Threads: any; pure functions on the given
// memory.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"
#include "unary_loops.hpp"

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/streams/op_kind.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

using BinaryLoop = void (*)(void* out, const void* a, const void* b, std::int64_t count);

/// Kinds add … relu_backward. Comparisons write bools, other kinds the type of their inputs. The
/// caller excludes integer division by 0 and integer 0 to a negative power.
struct BinaryLoops {
  enum class Form : std::uint8_t { both, scalar_a, scalar_b };
  static constexpr OpKind kFirst = OpKind::add;
  static constexpr int kKindCount =
      static_cast<int>(OpKind::relu_backward) - static_cast<int>(OpKind::add) + 1;
  using Forms = std::array<BinaryLoop, 3>;
  using Row = std::array<Forms, kComputeTypeCount>;
  std::array<Row, kKindCount> rows;

  [[nodiscard]] const Forms& at(OpKind kind, DType dtype) const noexcept {
    const int row = static_cast<int>(kind) - static_cast<int>(kFirst);
    return rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(compute_index(dtype))];
  }
};
HEARTH_CPU_ISA_TABLE(BinaryLoops, binary_loops);

}  // namespace hearth::cpu
