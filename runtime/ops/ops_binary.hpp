// Binary ops and numbers for functions composed of them: errors carry the name that the program
// called. Private to runtime. Threads: any; pure functions.
#pragma once

#include <hearth/runtime/tensor.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth::detail {

/// div(a, b), reported as the composed function `called`.
[[nodiscard]] Tensor div_as(CalledAs called, const Arg& a, const Arg& b);
/// A number as a tensor of rank 0 on the device of `beside`, for ops without immediates. Errors:
/// those of scalar_of(), with the kind's name.
[[nodiscard]] Tensor number_tensor(OpKind kind, const Arg& number, const Arg& beside, DType dtype);

}  // namespace hearth::detail
