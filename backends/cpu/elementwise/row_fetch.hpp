// Loads pieces of strided or 16-bit rows into the contiguous form of the loops; pieces that have
// this form are used in place. Private to backends/cpu. Threads: one object for each, which holds
// the buffers.
#pragma once

#include "cast_loops.hpp"
#include "move_loops.hpp"
#include "unary_loops.hpp"

#include <hearth/backends/kernel.hpp>

#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// Description of one operand's rows, shared by all threads of a kernel.
struct RowSource {
  const std::byte* data = nullptr;
  DType stored = DType::f32;
  DType type = DType::f32;  ///< Type that the loop reads: compute_dtype(stored).
  std::int64_t step = 1;    ///< Elements between neighbours in a row.
  CastLoop cast = nullptr;
  GatherLoop gather = nullptr;

  RowSource() = default;
  RowSource(const TensorView& view, std::int64_t inner_step, IsaLevel isa) noexcept
      : data(view.data),
        stored(view.dtype),
        type(compute_dtype(view.dtype)),
        step(inner_step),
        cast(cast_loops(isa).at(stored, type)),
        gather(move_loops(isa).gathers[MoveLoops::size_index(size_bytes(stored))]) {}

  [[nodiscard]] bool converts() const noexcept {
    return stored == DType::f16 || stored == DType::bf16;
  }
  [[nodiscard]] bool is_direct() const noexcept { return step == 1 && !converts(); }
};

template <std::int64_t kElements>
class RowBuffer {
 public:
  /// Returns `count` elements from `offset` on, in elements of the operand; count ≤ kElements
  /// unless the source is direct.
  [[nodiscard]] const std::byte* fetch(const RowSource& source,
                                       std::int64_t offset,
                                       std::int64_t count) {
    const std::byte* at = source.data + offset * size_bytes(source.stored);
    if (source.step != 1) {
      std::byte* const packed = source.converts() ? raw_ : wide_;
      source.gather(packed, count, at, 0, source.step, 1, count);
      at = packed;
    }
    return as_read(source, at, count);
  }
  /// Returns room for `count` elements in their stored type; as_read() then returns them in the
  /// loop's type.
  [[nodiscard]] std::byte* room(const RowSource& source) noexcept {
    return source.converts() ? raw_ : wide_;
  }
  [[nodiscard]] const std::byte* as_read(const RowSource& source,
                                         const std::byte* stored,
                                         std::int64_t count) noexcept {
    if (!source.converts()) {
      return stored;
    }
    source.cast(wide_, stored, count);
    return wide_;
  }

 private:
  alignas(64) std::byte raw_[static_cast<std::size_t>(kElements) * 2];
  alignas(64) std::byte wide_[static_cast<std::size_t>(kElements) * 8];
};

}  // namespace hearth::cpu
