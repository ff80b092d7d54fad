// The inner loops of cast, over contiguous elements: one for each pair of element types. in and out
// may only be the same memory when the types are. Floats round once to nearest even; to integers
// they truncate toward zero and stop at the ends, NaN gives 0; integers wrap into narrower ones; to
// bool, anything but 0 is true. Private to backends/cpu. Threads: any; pure functions on the given
// memory.
#pragma once

#include "isa_table.hpp"

#include <hearth/runtime/base/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

using CastLoop = void (*)(void* out, const void* in, std::int64_t count);

struct CastLoops {
  using Row = std::array<CastLoop, kDTypeCount>;
  std::array<Row, kDTypeCount> rows;  // by the input's type, then by the output's

  [[nodiscard]] CastLoop at(DType from, DType to) const noexcept {
    return rows[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
};
HEARTH_CPU_ISA_TABLE(CastLoops, cast_loops);

}  // namespace hearth::cpu
