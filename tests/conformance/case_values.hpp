// The numbers of a case's inputs: equal for every backend, layout and machine. Pure functions, any
// thread.
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

/// The elements of an input in row-major order. `seed` distinguishes the inputs of a call, and the
/// calls.
/// Threads: one, because the last large values are cached.
[[nodiscard]] std::vector<Number> case_values(const InputSpec& input,
                                              DType dtype,
                                              std::uint64_t seed);

}  // namespace hearth::conformance
