// Error cells: the words by which a failing kernel reports to the host, and their translation to
// errors. A cell is 32 bytes of memory that both sides see. The host clears it before the launch.
// Shaders have, behind the prelude:
//   fail(cell, code, a, b, c)   the first failure stores its words; does nothing for cell 0
// Values. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <hearth/runtime/base/error.hpp>
#include <hearth/streams/op_kind.hpp>

namespace hearth::gpu {

/// Failures, with the words that they store. Other backends use the same texts.
enum class Failing : std::uint32_t {
  none = 0,
  class_outside = 1,     ///< a: the target, b: the row, c: the number of classes
  index_outside = 2,     ///< a: the index, b: its place, c: the size of the axis
  division_by_zero = 3,  ///< b: the place
  zero_to_negative = 4,  ///< b: the place
};

struct ErrorCellWords {
  std::uint32_t code = 0;
  std::uint32_t kind = 0;  ///< The OpKind of the launch, written by the host.
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
};
static_assert(sizeof(ErrorCellWords) == 32);

/// GLSL definition of fail().
[[nodiscard]] std::string_view glsl_fail() noexcept;

/// The error that the words describe. Requires words of a failed kernel.
[[nodiscard]] Error error_of(const ErrorCellWords& words, std::string_view device);

}  // namespace hearth::gpu
