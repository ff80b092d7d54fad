// Elements from one place to another, bit by bit: copy, concat, slice_scatter. Private to
// backends/vulkan. Threads: owner only.
#pragma once

#include "backends/vulkan/kernel_encoder.hpp"

namespace hearth::vulkan {

/// The elements of a view over `shape` into a tensor that begins at `to` and has these strides, of
/// any sign; no two elements go to one place.
[[nodiscard]] Status encode_move(const TensorView& from,
                                 const Shape& shape,
                                 std::uint64_t to,
                                 const Strides& to_strides,
                                 KernelEncoder& encoder);

[[nodiscard]] Status encode_copy(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Status encode_concat(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Status encode_slice_scatter(const KernelCall& call, KernelEncoder& encoder);

/// A copy of what is contiguous reads each element before it writes it.
[[nodiscard]] bool copy_may_alias(OpKind kind, int index) noexcept;

/// Refused inside of update groups, as all kernels that are not pointwise.
[[nodiscard]] Status check_no_guard(const KernelCall& call, const KernelEncoder& encoder);

}  // namespace hearth::vulkan
