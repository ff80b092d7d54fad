// Copies elements bit by bit: copy, concat, slice_scatter. Private to backends/gpu. Threads:
// owner only.
#pragma once

#include <cstdint>

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

/// Elements that a workgroup of these kernels moves: four a thread.
inline constexpr std::int64_t kGroupUnits = 4 * kGroupThreads;

[[nodiscard]] constexpr std::int64_t groups_for(std::int64_t units) noexcept {
  return (units + kGroupUnits - 1) / kGroupUnits;
}

/// Copies a view over `shape` to a tensor at `to` with strides of any sign. Requires that no two
/// elements have the same target.
[[nodiscard]] Status encode_move(const TensorView& from,
                                 const Shape& shape,
                                 std::uint64_t to,
                                 const Strides& to_strides,
                                 KernelEncoder& encoder);

[[nodiscard]] Status encode_copy(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Status encode_concat(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Status encode_slice_scatter(const KernelCall& call, KernelEncoder& encoder);

/// True for a copy of contiguous elements, which reads each element before it writes it.
[[nodiscard]] bool copy_may_alias(OpKind kind, int index) noexcept;

/// Refuses calls inside update groups; only pointwise kernels run there.
[[nodiscard]] Status check_no_guard(const KernelCall& call, const KernelEncoder& encoder);

}  // namespace hearth::gpu
