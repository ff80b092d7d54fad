// What a kernel that fails leaves in its error cell, and what the host makes of it. A cell is 32
// bytes of memory that both sides see; the host clears it before the launch. Shaders have, behind
// the prelude:
//   fail(cell, code, a, b, c)   the first that comes leaves its words; does nothing for cell 0
// Values. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <hearth/runtime/base/error.hpp>
#include <hearth/streams/op_kind.hpp>

namespace hearth::vulkan {

/// What went wrong, with the words that belong to it. The texts are those of the other backends.
enum class Failing : std::uint32_t {
  none = 0,
  class_outside = 1,     ///< a: the target, b: the row, c: how many classes
  index_outside = 2,     ///< a: the index, b: its place, c: the size of the axis
  division_by_zero = 3,  ///< b: the place
  zero_to_negative = 4,  ///< b: the place
};

struct ErrorCellWords {
  std::uint32_t code = 0;
  std::uint32_t kind = 0;  ///< The OpKind of the launch; the host's.
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
};
static_assert(sizeof(ErrorCellWords) == 32);

/// The function fail().
[[nodiscard]] std::string_view glsl_fail() noexcept;

/// Requires words of a kernel that failed.
[[nodiscard]] Error error_of(const ErrorCellWords& words, std::string_view device);

}  // namespace hearth::vulkan
