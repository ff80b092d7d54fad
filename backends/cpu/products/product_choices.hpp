// The table of choices of products, as candidates for a tuner. A row keeps its number as long as
// stored picks name it. Pure functions. Threads: any.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"
#include "matmul_product.hpp"

#include <hearth/autotune/candidate.hpp>

#include <vector>

namespace hearth::cpu {

/// Returns the choice of this pick; nullptr for the rule and for numbers without a row.
[[nodiscard]] const ProductChoice* choice_of(detail::CandidateId pick) noexcept;

/// Returns the rule and the rows that the product allows, all of equal bits; empty without one.
///
/// Cost: 2 µs.
[[nodiscard]] std::vector<detail::Candidate> product_candidates(const MatmulProduct& product,
                                                                const KernelContext& context);

}  // namespace hearth::cpu
