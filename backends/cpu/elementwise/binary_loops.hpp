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

/// Kinds add … relu_backward, then atan2, then bitwise_and … shift_right. Comparisons write bools,
/// other kinds the type of their inputs. The caller excludes integer division by 0 and integer 0 to
/// a negative power. A null entry: the kind does not support that type.
struct BinaryLoops {
  enum class Form : std::uint8_t { both, scalar_a, scalar_b };
  static constexpr int kFirstCount =
      static_cast<int>(OpKind::relu_backward) - static_cast<int>(OpKind::add) + 1;
  static constexpr int kBitCount =
      static_cast<int>(OpKind::shift_right) - static_cast<int>(OpKind::bitwise_and) + 1;
  static constexpr int kKindCount = kFirstCount + 1 + kBitCount;
  using Forms = std::array<BinaryLoop, 3>;
  using Row = std::array<Forms, kComputeTypeCount>;
  std::array<Row, kKindCount> rows;

  [[nodiscard]] static constexpr int row_of(OpKind kind) noexcept {
    const int number = static_cast<int>(kind);
    if (kind <= OpKind::relu_backward) {
      return number - static_cast<int>(OpKind::add);
    }
    return kind == OpKind::atan2 ? kFirstCount
                                 : kFirstCount + 1 + number - static_cast<int>(OpKind::bitwise_and);
  }
  [[nodiscard]] const Forms& at(OpKind kind, DType dtype) const noexcept {
    return rows[static_cast<std::size_t>(row_of(kind))]
               [static_cast<std::size_t>(compute_index(dtype))];
  }
};
HEARTH_CPU_ISA_TABLE(BinaryLoops, binary_loops);

}  // namespace hearth::cpu
