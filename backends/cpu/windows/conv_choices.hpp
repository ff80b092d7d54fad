// The table of choices of convolutions, as candidates for a tuner. A row keeps its number as long
// as stored picks name it. Pure functions. Threads: any.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"
#include "conv_taps.hpp"

#include <hearth/autotune/candidate.hpp>

#include <functional>
#include <vector>

namespace hearth::cpu {

/// Returns the choice of this pick; nullptr for the rule and for numbers without a row.
[[nodiscard]] const TapChoice* tap_choice_of(detail::CandidateId pick) noexcept;

/// The convolutions that a call consists of, with the plans that a choice gives them.
using TapPlans = std::vector<TapPlan>;

/// Returns the rule and the rows whose plans differ from it and from earlier rows, all of equal
/// bits; empty without one. `plan`: returns the plans of the call for a choice.
[[nodiscard]] std::vector<detail::Candidate> tap_candidates(
    const std::function<TapPlans(const TapChoice&)>& plan);

}  // namespace hearth::cpu
