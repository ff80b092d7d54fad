// The inner loops of the collectives that run in host memory.
// Stateless. Threads: any; the ranges of calls that run at once must not overlap.
// Invariant: an element's sum depends on the ranks' elements and their order alone, not on how the
// range was cut.
#pragma once

#include <hearth/runtime/base/dtype.hpp>

#include <cstddef>
#include <span>

namespace hearth::detail {

/// Whether sum_ranks supports the type: f32, f64, f16, bf16, i32, i64.
[[nodiscard]] bool can_sum(DType dtype) noexcept;

/// Sums element by element, from the first rank to the last. Writes the sum to each of `targets`,
/// which may be the ranks' own memory. Integers wrap around. Requires can_sum(dtype), and that
/// elements [begin, end) exist in all of them.
void sum_ranks(std::span<std::byte* const> ranks,
               std::span<std::byte* const> targets,
               DType dtype,
               std::size_t begin,
               std::size_t end) noexcept;

}  // namespace hearth::detail
