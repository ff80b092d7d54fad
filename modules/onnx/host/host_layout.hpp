// Shapes, views and selections on the host. All are HostHandlers (op_row.hpp). Stateless.
// Threads: any.
#pragma once

#include "modules/onnx/values/call.hpp"

namespace hearth::onnx {

[[nodiscard]] bool identity_on_host(Call& call);
[[nodiscard]] bool reshape_on_host(Call& call);
[[nodiscard]] bool squeeze_on_host(Call& call);
[[nodiscard]] bool unsqueeze_on_host(Call& call);
[[nodiscard]] bool flatten_on_host(Call& call);
[[nodiscard]] bool concat_on_host(Call& call);
[[nodiscard]] bool slice_on_host(Call& call);
[[nodiscard]] bool split_on_host(Call& call);
[[nodiscard]] bool gather_on_host(Call& call);
[[nodiscard]] bool expand_on_host(Call& call);
[[nodiscard]] bool tile_on_host(Call& call);
[[nodiscard]] bool transpose_on_host(Call& call);
[[nodiscard]] bool range_on_host(Call& call);
[[nodiscard]] bool constant_of_shape_on_host(Call& call);
[[nodiscard]] bool reduce_sum_on_host(Call& call);
[[nodiscard]] bool reduce_prod_on_host(Call& call);
[[nodiscard]] bool reduce_max_on_host(Call& call);
[[nodiscard]] bool reduce_min_on_host(Call& call);
[[nodiscard]] bool cum_sum_on_host(Call& call);
[[nodiscard]] bool non_zero_on_host(Call& call);
[[nodiscard]] bool compress_on_host(Call& call);

}  // namespace hearth::onnx
