// Products of i8 matrices with exact sums in i32: packs both operands into words (int_tiles.hpp),
// cuts the result into blocks, runs register tiles. A few rows use dot products with the other side
// in place. Threads: owner only; forks in the given arena, if any. Invariant: sums are exact, so no
// cut changes a result.
#pragma once

#include "matmul_product.hpp"

namespace hearth::cpu {

[[nodiscard]] std::int64_t int_product_scratch_bytes(const MatmulProduct& product,
                                                     IsaLevel isa) noexcept;

/// Runs the product of two i8 operands, with c in i32. Requires m, n > 0, no bias and a depth of at
/// most rules::kMostInt8Depth. arena == nullptr: runs on this thread alone, and caches no packed
/// operand.
void run_int_product(const MatmulProduct& product, IsaLevel isa, std::byte* scratch, Arena* arena);

}  // namespace hearth::cpu
