// Ops of two operands for functions that are made of them: what goes wrong has the name that the
// program called. Private to runtime. Threads: any; pure functions.
#pragma once

#include <hearth/runtime/tensor.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth::detail {

/// div(a, b). `called` is a name of a function that is made of it.
[[nodiscard]] Tensor div_as(CalledAs called, const Arg& a, const Arg& b);

}  // namespace hearth::detail
