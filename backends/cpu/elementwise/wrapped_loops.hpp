// The inner loops of a function and the ops around it, as in GELU and softmax. They compute
// ((f(x ∘ before) + b) · y) · c, where ∘ subtracts, multiplies or divides. Each step is rounded
// like the separate op, and stays in registers. Private to backends/cpu. Threads: any; pure
// functions on the given memory.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <hearth/streams/op_kind.hpp>

#include <cstdint>

namespace hearth::cpu {

/// A row of floats, or one float, broadcast to all places.
struct FloatRow {
  const float* data = nullptr;
  bool is_one = false;
};

enum class WrappedBefore : std::uint8_t { nothing, difference, factor, quotient };

/// Absent steps have their neutral value.
struct WrappedCall {
  FloatRow x = {};
  WrappedBefore how = WrappedBefore::nothing;
  FloatRow before = {};  ///< A factor or divisor is one float.
  float sum = -0.0F;
  FloatRow y = {};  ///< Null: none.
  float factor = 1;
  bool is_far = false;   ///< The rows come from memory, and are prefetched.
  bool streams = false;  ///< Results that begin on whole lines are stored past the caches.
};
/// out may equal one of the rows, and overlaps none otherwise.
using WrappedLoop = void (*)(float* out, const WrappedCall& call, std::int64_t count);

/// Null if the level has no such loop: its programs run the steps one by one.
struct WrappedLoops {
  WrappedLoop exp;
  WrappedLoop erf;

  [[nodiscard]] WrappedLoop at(OpKind kind) const noexcept {
    return kind == OpKind::exp ? exp : kind == OpKind::erf ? erf : nullptr;
  }
};
HEARTH_CPU_ISA_TABLE(WrappedLoops, wrapped_loops);

}  // namespace hearth::cpu
