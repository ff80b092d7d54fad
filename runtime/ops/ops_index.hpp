// Index ops for functions composed of them: errors carry the name that the program called. Private
// to runtime. Threads: any; pure functions.
#pragma once

#include <hearth/runtime/tensor.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth::detail {

[[nodiscard]] Tensor gather_as(CalledAs called, const Arg& x, int axis, const Arg& index);
[[nodiscard]] Tensor index_select_as(CalledAs called, const Arg& x, int axis, const Arg& index);

}  // namespace hearth::detail
