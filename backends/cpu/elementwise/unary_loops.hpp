// The inner loops of the one-input kinds, over contiguous elements. out may equal in.
// Private to backends/cpu. Threads: any; pure functions on the given memory.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/streams/op_kind.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// The number of types that loops compute in; f16 and bf16 are converted to f32 first, bool runs as
/// u8.
inline constexpr int kComputeTypeCount = 6;
[[nodiscard]] constexpr DType compute_dtype(DType dtype) noexcept {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32
         : dtype == DType::boolean                   ? DType::u8
                                                     : dtype;
}
[[nodiscard]] constexpr int compute_index(DType dtype) noexcept {
  constexpr int kIndex[] = {0, 1, 0, 0, 2, 3, 4, 4, 5};
  return kIndex[static_cast<int>(dtype)];
}

using UnaryLoop = void (*)(void* out, const void* in, std::int64_t count);

/// Kinds neg … relu, then log1p and expm1, then floor … trunc, then atan. A null entry: the kind
/// does not support that type.
struct UnaryLoops {
  static constexpr int kFirstCount =
      static_cast<int>(OpKind::relu) - static_cast<int>(OpKind::neg) + 1;
  static constexpr int kSecondCount = 2;
  static constexpr int kThirdCount =
      static_cast<int>(OpKind::trunc) - static_cast<int>(OpKind::floor) + 1;
  using Row = std::array<UnaryLoop, kComputeTypeCount>;
  std::array<Row, kFirstCount + kSecondCount + kThirdCount + 1> rows;

  [[nodiscard]] static constexpr int row_of(OpKind kind) noexcept {
    const int number = static_cast<int>(kind);
    if (kind < OpKind::log1p) {
      return number - static_cast<int>(OpKind::neg);
    }
    if (kind < OpKind::floor) {
      return kFirstCount + number - static_cast<int>(OpKind::log1p);
    }
    return kFirstCount + kSecondCount +
           (kind == OpKind::atan ? kThirdCount : number - static_cast<int>(OpKind::floor));
  }
  [[nodiscard]] UnaryLoop at(OpKind kind, DType dtype) const noexcept {
    return rows[static_cast<std::size_t>(row_of(kind))]
               [static_cast<std::size_t>(compute_index(dtype))];
  }
};
static_assert(UnaryLoops::row_of(OpKind::floor) == UnaryLoops::row_of(OpKind::expm1) + 1);
HEARTH_CPU_ISA_TABLE(UnaryLoops, unary_loops);

}  // namespace hearth::cpu
