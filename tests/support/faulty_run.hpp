// A random program on two sims under a manual executor, with faults on the first sim, and its
// check; everything derives from bytes. Threads: one at a time.
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
  Plan plan = {};         ///< The plan that the judge knows.
  FaultPlan faults = {};  ///< The actual faults.
  Values values = Values::smooth;
  int sim = 0;  ///< Kind of sim: odd numbers are asynchronous, with order and costs by seed.
  Fusion fusion = Fusion::off;
  std::span<const std::byte> program = {};
};

/// The first bytes select schedule, faults and sim; the other bytes are the program.
[[nodiscard]] FaultyRun faulty_run_of(std::span<const std::byte> input);

/// Counts over many runs.
struct FaultFigures {
  std::uint64_t right = 0;  ///< Tensors at the end.
  std::uint64_t poisoned = 0;
  std::uint64_t ops = 0;
  std::uint64_t lost = 0;
  std::uint64_t hung = 0;
  std::uint64_t restarted = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t steps = 0;
  std::uint64_t steps_cancelled = 0;
  std::uint64_t steps_torn = 0;
  std::uint64_t steps_kept_late = 0;  ///< After kernels that failed while they ran, or may have.
  RandomProgram::Coverage coverage = {};

  void count(const RandomProgram& program, const Plan& plan, const FaultJudge& judge);
};

/// Runs the program and returns its violations:
/// - every tensor that is read has the reference's bits or is poisoned;
/// - a tensor is poisoned exactly if its op failed or one of its operands is poisoned;
/// - a step happens as a whole or not at all;
/// - no more ops fail than planned, and none is cancelled without limits of its stream;
/// - a restarted device works, and none of its old tensors does;
/// - no tensor is left when all handles are gone;
/// - no op touches bytes of another one.
[[nodiscard]] std::vector<std::string> judge_faulty_run(const FaultyRun& run,
                                                        FaultFigures& figures);

}  // namespace hearth::testing
