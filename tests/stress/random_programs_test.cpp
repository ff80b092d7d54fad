// Random programs of up to 64 ops on cpu against reference. RANDOM_PROGRAMS says how many (1,000 by
// default), RANDOM_FIRST which seed comes first.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>

#include "random_program.hpp"

namespace hearth::testing {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t fallback) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): before any thread
  return text == nullptr ? fallback : std::stoull(text);
}

using Values = std::vector<std::vector<double>>;

struct Tally {
  std::uint64_t compared = 0;
  std::uint64_t skipped = 0;
};

// The oracle itself says how well a value is conditioned: how far it moves when the inputs are
// disturbed by a few ulp. A value that moves by more than the tolerance is not compared (DESIGN
// §9); one that moves a little gets that much more room.
void compare(const Values& cpu,
             const Values& reference,
             const Values& disturbed,
             const Values& disturbed_again,
             std::uint64_t seed,
             Tally& tally) {
  ASSERT_EQ(cpu.size(), reference.size()) << "seed " << seed;
  for (std::size_t t = 0; t < reference.size(); ++t) {
    ASSERT_EQ(cpu[t].size(), reference[t].size()) << "seed " << seed << " tensor " << t;
    for (std::size_t i = 0; i < reference[t].size(); ++i) {
      const double want = reference[t][i];
      const double moved =
          std::max(std::abs(disturbed[t][i] - want), std::abs(disturbed_again[t][i] - want));
      const double tolerance = 2e-5 * (1 + std::abs(want));
      if (!std::isfinite(want) || !(moved <= 20 * tolerance)) {
        ++tally.skipped;
        continue;
      }
      ++tally.compared;
      ASSERT_NEAR(cpu[t][i], want, tolerance + 16 * moved)
          << "seed " << seed << " tensor " << t << " element " << i;
    }
  }
}

// What fails is kept, whole and cut down, for hearth-bench replay.
void keep_failure(const Runtime& runtime, const RandomProgram& program) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string name = "random_program_" + std::to_string(program.seed);
  const Device cpu = runtime.device("cpu:0");
  {
    const RecordScope scope(runtime, folder / (name + ".trace"));
    static_cast<void>(run_program(program, cpu, 0, 0));
  }
  const auto failure =
      reduce_recording(folder / (name + ".trace"),
                       folder / (name + ".min.trace"),
                       cpu,
                       {.against = runtime.device("reference:0"), .tolerance = 2e-5});
  std::printf("seed %lu: %s.trace in %s, %s\n",
              program.seed,
              name.c_str(),
              folder.c_str(),
              failure ? ("cut down to " + name + ".min.trace: " + failure->to_string()).c_str()
                      : "which agrees when it is replayed");
}

TEST(RandomPrograms, CpuAgreesWithReference) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}, {.name = "reference:0"}}});
  const Device cpu = runtime.device("cpu:0");
  const Device reference = runtime.device("reference:0");
  const std::uint64_t first = number_from("RANDOM_FIRST", 1);
  const std::uint64_t count = number_from("RANDOM_PROGRAMS", 1000);
  Tally tally;
  for (std::uint64_t seed = first; seed < first + count && !HasFatalFailure(); ++seed) {
    const RandomProgram program{.seed = seed};
    constexpr double kFewUlp = 5e-7;
    compare(run_program(program, cpu, 0, 0),
            run_program(program, reference, 0, 0),
            run_program(program, reference, kFewUlp, seed),
            run_program(program, reference, kFewUlp, seed + 1'000'000'007),
            seed,
            tally);
    if (HasFatalFailure()) {
      keep_failure(runtime, program);
    }
  }
  std::printf(
      "%lu programs, %lu values compared, %lu skipped\n", count, tally.compared, tally.skipped);
  EXPECT_GT(tally.compared, 20 * tally.skipped);
  EXPECT_EQ(cpu.memory().live_tensor_count, 0);
  EXPECT_EQ(cpu.memory().live_bytes, 0);
}

}  // namespace
}  // namespace hearth::testing
