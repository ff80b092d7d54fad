// Binary ops for functions composed of them: errors carry the name that the program called. Private
// to runtime. Threads: any; pure functions.
#pragma once

#include <hearth/runtime/tensor.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth::detail {

/// div(a, b), reported as the composed function `called`.
[[nodiscard]] Tensor div_as(CalledAs called, const Arg& a, const Arg& b);

}  // namespace hearth::detail
