// Finds undefined integer results: division by 0, and 0 to a negative power. Checked before a loop
// runs, because a division by 0 would end the process. Private to backends/cpu. Threads: any; pure
// functions on the given memory.
#pragma once

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/streams/op_kind.hpp>

#include <cstdint>
#include <limits>

namespace hearth::cpu {

inline constexpr std::int64_t kNoElement = std::numeric_limits<std::int64_t>::max();

/// An integer operand: its elements, or a single one, broadcast to all.
struct IntegerOperand {
  const void* data = nullptr;
  bool is_one = false;
};

/// Returns the first of `count` elements for which `kind`, div or pow, is undefined; kNoElement if
/// there is none. `type` is an integer type or bool.
[[nodiscard]] std::int64_t first_undefined(
    OpKind kind, DType type, IntegerOperand a, IntegerOperand b, std::int64_t count) noexcept;

}  // namespace hearth::cpu
