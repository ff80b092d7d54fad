// Where integers have no answer: division by 0, and 0 to a negative power. Looked for before a loop
// runs, because a division by 0 would end the process. Private to backends/cpu. Threads: any; pure
// functions on the given memory.
#pragma once

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/streams/op_kind.hpp>

#include <cstdint>
#include <limits>

namespace hearth::cpu {

inline constexpr std::int64_t kNoElement = std::numeric_limits<std::int64_t>::max();

/// An operand of integers: its elements, or one that stands for all.
struct IntegerOperand {
  const void* data = nullptr;
  bool is_one = false;
};

/// The first of `count` elements for which `kind`, div or pow, has no answer; kNoElement when all
/// have one. `type` is an integer type or bool.
[[nodiscard]] std::int64_t first_undefined(
    OpKind kind, DType type, IntegerOperand a, IntegerOperand b, std::int64_t count) noexcept;

}  // namespace hearth::cpu
