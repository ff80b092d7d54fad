// Elements and slices by index: gather, index_select, and their adjoints scatter_add and index_add.
// An index outside of its axis is left in the error cell, and nothing is read or written for it.
// Private to backends/vulkan. Threads: owner only.
#pragma once

#include "backends/vulkan/kernel_encoder.hpp"

namespace hearth::vulkan {

[[nodiscard]] Support supports_indexing(const KernelCall& call, const DeviceLimits& limits);
/// gather, index_select.
[[nodiscard]] Status encode_pick(const KernelCall& call, KernelEncoder& encoder);
/// scatter_add, index_add: in the order of the index, with the same bits every time.
[[nodiscard]] Status encode_add_at(const KernelCall& call, KernelEncoder& encoder);

/// Looks at every index, for calls that have nothing to move.
[[nodiscard]] Status encode_index_check(const KernelCall& call,
                                        std::int64_t axis_size,
                                        KernelEncoder& encoder);

/// The index's strides over the shape of the part: of index_select and index_add it lies along the
/// axis alone.
[[nodiscard]] Strides index_strides(const KernelCall& call) noexcept;

}  // namespace hearth::vulkan
