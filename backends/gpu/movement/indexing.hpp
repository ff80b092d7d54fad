// Elements and slices by index: gather, index_select, their adjoints scatter_add and index_add, and
// scatter.
// An index outside its axis is reported in the error cell; nothing is read or written for it.
// Private to backends/gpu. Threads: owner only.
#pragma once

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

[[nodiscard]] Support supports_indexing(const KernelCall& call, const DeviceLimits& limits);
/// Encodes gather and index_select.
[[nodiscard]] Status encode_pick(const KernelCall& call, KernelEncoder& encoder);
/// Encodes scatter_add and index_add; they add in the order of the index, so results are
/// reproducible to the bit.
[[nodiscard]] Status encode_add_at(const KernelCall& call, KernelEncoder& encoder);

/// Encodes scatter: updates of one element are joined in the order of the index.
[[nodiscard]] Status encode_scatter(const KernelCall& call, KernelEncoder& encoder);
/// True for input 0 of scatter: elements without an update keep their bytes.
[[nodiscard]] bool scatter_may_alias(OpKind kind, int index) noexcept;

/// Checks every index, for calls that move no elements.
[[nodiscard]] Status encode_index_check(const KernelCall& call,
                                        std::int64_t axis_size,
                                        KernelEncoder& encoder);

/// The index's strides over the shape of the part. The index of index_select and index_add lies
/// along the axis alone.
[[nodiscard]] Strides index_strides(const KernelCall& call) noexcept;

}  // namespace hearth::gpu
