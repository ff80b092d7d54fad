// The inner loops of cast, over contiguous elements: one for each pair of element types. in and out
// may share memory only if their types are equal. Floats round once to nearest even. Floats to
// integers truncate toward zero and saturate; NaN gives 0. Integers wrap into narrower ones. To
// bool, any value but 0 is true. Private to backends/cpu. Threads: any; pure functions on the given
// memory.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <hearth/runtime/base/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

using CastLoop = void (*)(void* out, const void* in, std::int64_t count);

struct CastLoops {
  using Row = std::array<CastLoop, kDTypeCount>;
  std::array<Row, kDTypeCount> rows;  // by input type, then by output type

  [[nodiscard]] CastLoop at(DType from, DType to) const noexcept {
    return rows[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
};
HEARTH_CPU_ISA_TABLE(CastLoops, cast_loops);

}  // namespace hearth::cpu
