// Compares the reads of a random program without faults with the reference. Threads: the program's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/random_program.hpp"

namespace hearth::testing {

struct ValueTally {
  std::uint64_t compared = 0;
  std::uint64_t skipped = 0;  ///< Ill conditioned.
};

/// The differences. Exact values must be equal. For smooth values the oracle measures conditioning:
/// the change when the inputs are disturbed by a few ulp. A value that changes by more than the
/// tolerance is not compared; a smaller change is added to the tolerance.
[[nodiscard]] std::vector<std::string> judge_values(const RandomProgram& program,
                                                    Values values,
                                                    const Device& reference,
                                                    ValueTally& tally);

}  // namespace hearth::testing
