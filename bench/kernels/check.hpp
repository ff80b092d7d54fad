// Correctness of kernels before they are timed: by bytes, and against backends/reference.
// Threads: that of the device.
#pragma once

#include <hearth/autotune/candidate.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/base/result.hpp>

#include "operands.hpp"
#include "problem.hpp"

namespace hearth::bench {

/// Outcome of a check. `text` names the comparison or the mistake: "reference, 16 of 1024".
struct Checked {
  bool is_right = true;
  bool is_refused = false;  ///< The call does not allow this pick: nothing ran.
  std::string text = {};
};

/// Runs each candidate on three sets of data. The rule, which is the first one, must agree with the
/// reference on plain data. A candidate of its bits class must have its bytes on all three; one of
/// another class must agree with the reference. No candidate may write beyond its results.
///
/// Errors: those of the rule's kernel, and out_of_memory.
[[nodiscard]] Result<std::vector<Checked>> check_candidates(
    BenchDevice& device,
    Operands& operands,
    const Problem& problem,
    std::span<const detail::Candidate> candidates);

/// Compares results with the reference. Where the reference would take long, it computes every n-th
/// row or image, up to the last one. Requires operands that fill() wrote.
///
/// Errors: those of reference::evaluate().
[[nodiscard]] Result<Checked> check_reference(Operands& operands,
                                              const Problem& problem,
                                              const Operands::Results& results);

}  // namespace hearth::bench
