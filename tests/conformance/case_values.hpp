// The numbers that a case's inputs hold: the same for every backend, layout and machine. Pure
// functions, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "op_case.hpp"

namespace hearth::conformance {

/// One element: floats in `real`, integers and bool in `integer`.
struct Number {
  double real = 0;
  std::int64_t integer = 0;
};

/// The elements of an input in row-major order. `seed` tells the inputs of a call, and the calls,
/// apart. Threads: one, as large values that were made last are kept.
[[nodiscard]] std::vector<Number> case_values(const InputSpec& input,
                                              DType dtype,
                                              std::uint64_t seed);

}  // namespace hearth::conformance
