// Arithmetic, comparisons and logic on the host, for shapes and other small values.
// All are HostHandlers (op_row.hpp). Stateless. Threads: any.
#pragma once

#include "modules/onnx/values/call.hpp"

namespace hearth::onnx {

[[nodiscard]] bool add_on_host(Call& call);
[[nodiscard]] bool sub_on_host(Call& call);
[[nodiscard]] bool mul_on_host(Call& call);
[[nodiscard]] bool div_on_host(Call& call);
[[nodiscard]] bool mod_on_host(Call& call);
[[nodiscard]] bool pow_on_host(Call& call);
[[nodiscard]] bool min_on_host(Call& call);
[[nodiscard]] bool max_on_host(Call& call);
[[nodiscard]] bool equal_on_host(Call& call);
[[nodiscard]] bool less_on_host(Call& call);
[[nodiscard]] bool less_or_equal_on_host(Call& call);
[[nodiscard]] bool greater_on_host(Call& call);
[[nodiscard]] bool greater_or_equal_on_host(Call& call);
[[nodiscard]] bool and_on_host(Call& call);
[[nodiscard]] bool or_on_host(Call& call);
[[nodiscard]] bool xor_on_host(Call& call);
[[nodiscard]] bool not_on_host(Call& call);
[[nodiscard]] bool where_on_host(Call& call);
[[nodiscard]] bool cast_on_host(Call& call);
[[nodiscard]] bool cast_like_on_host(Call& call);
[[nodiscard]] bool neg_on_host(Call& call);
[[nodiscard]] bool abs_on_host(Call& call);
[[nodiscard]] bool floor_on_host(Call& call);
[[nodiscard]] bool ceil_on_host(Call& call);
[[nodiscard]] bool round_on_host(Call& call);
[[nodiscard]] bool sqrt_on_host(Call& call);
[[nodiscard]] bool exp_on_host(Call& call);
[[nodiscard]] bool log_on_host(Call& call);
[[nodiscard]] bool sign_on_host(Call& call);
[[nodiscard]] bool reciprocal_on_host(Call& call);

}  // namespace hearth::onnx
