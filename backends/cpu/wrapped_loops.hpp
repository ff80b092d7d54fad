// The inner loops of a function with what programs write around it, GELU's and softmax's way:
// ((f(x ∘ before) + b) · y) · c, where ∘ subtracts, multiplies or divides, each step rounded as its
// own op rounds it, without a trip to memory in between. Private to backends/cpu. Threads: any;
// pure functions on the given memory.
#pragma once

#include "isa_table.hpp"

#include <hearth/streams/op_kind.hpp>

#include <cstdint>

namespace hearth::cpu {

/// A row of floats, or one float for all places.
struct FloatRow {
  const float* data = nullptr;
  bool is_one = false;
};

enum class WrappedBefore : std::uint8_t { nothing, difference, factor, quotient };

/// What is not there has the value that changes nothing.
struct WrappedCall {
  FloatRow x = {};
  WrappedBefore how = WrappedBefore::nothing;
  FloatRow before = {};  ///< One float for a factor or a divisor.
  float sum = -0.0F;
  FloatRow y = {};  ///< Null: none.
  float factor = 1;
  bool is_far = false;   ///< The rows come from memory: they are asked for some way ahead.
  bool streams = false;  ///< The results go past the caches, where they lie on whole lines.
};
/// out may be one of the rows, none that overlaps one otherwise.
using WrappedLoop = void (*)(float* out, const WrappedCall& call, std::int64_t count);

/// Null where the level has no such loop: its programs run the steps one by one.
struct WrappedLoops {
  WrappedLoop exp;
  WrappedLoop erf;

  [[nodiscard]] WrappedLoop at(OpKind kind) const noexcept {
    return kind == OpKind::exp ? exp : kind == OpKind::erf ? erf : nullptr;
  }
};
HEARTH_CPU_ISA_TABLE(WrappedLoops, wrapped_loops);

}  // namespace hearth::cpu
