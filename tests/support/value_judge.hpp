// What a random program without faults has read, against the reference. Threads: the program's.
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

/// What is wrong. Exact values are equal. Of smooth ones the oracle itself says how well they are
/// conditioned: how far they move when the inputs are disturbed by a few ulp; one that moves by
/// more than the tolerance is not compared, one that moves a little gets that much more room.
[[nodiscard]] std::vector<std::string> judge_values(const RandomProgram& program,
                                                    Values values,
                                                    const Device& reference,
                                                    ValueTally& tally);

}  // namespace hearth::testing
