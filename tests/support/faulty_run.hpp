// A random program on two sims under a manual executor, with faults on the first, and what is wrong
// with it: all from bytes. Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/support/fault_judge.hpp"
#include "tests/support/random_program.hpp"

namespace hearth::testing {

struct FaultyRun {
  std::uint64_t schedule = 0;
  Plan plan = {};         ///< What the judge knows.
  FaultPlan faults = {};  ///< What happens.
  Values values = Values::smooth;
  int sim = 0;  ///< Which sim it is: odd ones are asynchronous, in an order and at costs by seed.
  Fusion fusion = Fusion::off;
  std::span<const std::byte> program = {};
};

/// The first bytes say which schedule, faults and sim; the others are the program.
[[nodiscard]] FaultyRun faulty_run_of(std::span<const std::byte> input);

/// Over many runs. Counts.
struct FaultFigures {
  std::uint64_t right = 0;  ///< Tensors at the end.
  std::uint64_t poisoned = 0;
  std::uint64_t ops = 0;
  std::uint64_t lost = 0;
  std::uint64_t hung = 0;
  std::uint64_t restarted = 0;
  std::uint64_t given_up = 0;
  std::uint64_t steps = 0;
  std::uint64_t steps_given_up = 0;
  std::uint64_t steps_torn = 0;
  std::uint64_t steps_kept_late = 0;  ///< Behind kernels that fail late, or may have been.
  RandomProgram::Coverage coverage = {};

  void count(const RandomProgram& program, const Plan& plan, const FaultJudge& judge);
};

/// Every tensor that is read has the reference's bits or is poisoned; it is poisoned exactly if its
/// op failed or one of its operands is; a step happens as a whole or not at all; no more ops fail
/// than the plan says, and none is given up without limits of its stream; a restarted device works,
/// and none of its old tensors does; nothing is left when all handles are gone; no op touches bytes
/// that are another's.
[[nodiscard]] std::vector<std::string> judge_faulty_run(const FaultyRun& run,
                                                        FaultFigures& figures);

}  // namespace hearth::testing
