// The inner loops that move elements as raw bits, by element size: gathering strided blocks,
// filling, selecting, and copying past the caches. Private to backends/cpu. Threads: any; pure
// functions on the given memory.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// to[r·to_stride + c] = from[r·row_stride + c·column_stride] for r < rows, c < columns; strides
/// count elements. Fast where a column or a row of `from` is contiguous.
using GatherLoop = void (*)(std::byte* to,
                            std::int64_t to_stride,
                            const std::byte* from,
                            std::int64_t row_stride,
                            std::int64_t column_stride,
                            std::int64_t rows,
                            std::int64_t columns);
/// Writes one element `count` times.
using FillLoop = void (*)(std::byte* to, const std::byte* element, std::int64_t count);
/// to[i] = condition[i] ? a[i] : b[i]. to may equal a or b.
using SelectLoop =
    void (*)(void* to, const void* condition, const void* a, const void* b, std::int64_t count);
/// Copies bytes with stores that bypass the caches. No overlap. A fence makes them visible to other
/// threads.
using StreamLoop = void (*)(std::byte* to, const std::byte* from, std::int64_t size_bytes);
using FenceFn = void (*)();

struct MoveLoops {
  std::array<GatherLoop, 4> gathers;  // by size_index
  std::array<FillLoop, 4> fills;      // by size_index
  std::array<std::array<SelectLoop, 4>, 4>
      selects;  // by size_index; then 1 if a is one element, plus 2 if b is
  StreamLoop stream;
  FenceFn fence;
  /// Results of this size leave the caches before they are read; stores that bypass the caches
  /// avoid reading the lines first.
  static constexpr std::int64_t kStreamBytes = std::int64_t{32} << 20;

  /// Returns 0 … 3 for elements of 1, 2, 4, 8 bytes.
  [[nodiscard]] static std::size_t size_index(std::int64_t element_bytes) noexcept {
    return static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(element_bytes)));
  }
};
HEARTH_CPU_ISA_TABLE(MoveLoops, move_loops);

}  // namespace hearth::cpu
