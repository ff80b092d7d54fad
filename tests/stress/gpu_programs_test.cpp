// Random programs on two logical devices of a GPU against the reference, with fusion on. The GPU is
// Vulkan's unless TESTED_DEVICE names another kind. RANDOM_GPU sets the number of programs (25
// by default), RANDOM_FIRST the first seed, RANDOM_BYTES the bytes of a single program.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/runtime.hpp>

#include "tests/support/random_program.hpp"
#include "tests/support/tested_devices.hpp"
#include "tests/support/value_judge.hpp"

namespace hearth::testing {
namespace {

TEST(RandomPrograms, AGpuAgreesWithReference) {
  const std::array<std::string, 2> names = two_tested("vulkan");
  const char* const variable =
      names[0] == "cuda:0" ? "HEARTH_CUDA_DEVICES" : "HEARTH_VULKAN_DEVICES";
  setenv(variable, "0,0", 1);  // NOLINT(concurrency-mt-unsafe): before the runtime
  const Runtime runtime(
      {.devices = {{.name = names[0]}, {.name = names[1]}, {.name = "reference:0"}},
       .fusion = Fusion::on,
       .round_intermediates = true});
  unsetenv(variable);  // NOLINT(concurrency-mt-unsafe)
  ValueTally tally;
  static_cast<void>(run_seeded(
      {.count_variable = "RANDOM_GPU", .count = 25, .least_bytes = 60, .most_bytes = 300},
      [&](std::span<const std::byte> input) {
        ByteReader bytes(input);
        const ProgramOptions options{.values = bytes.pick(4) == 0 ? Values::exact : Values::smooth};
        RandomProgram program(
            bytes.rest(), {runtime.device(names[0]), runtime.device(names[1])}, nullptr, options);
        program.run();
        return judge_values(program, options.values, runtime.device("reference:0"), tally);
      }));
  std::printf("%lu values compared, %lu skipped\n", tally.compared, tally.skipped);
  EXPECT_GT(tally.compared, 20 * tally.skipped);
  for (const std::string& name : names) {
    EXPECT_EQ(runtime.device(name).memory().live_tensor_count, 0) << name;
    EXPECT_EQ(runtime.device(name).memory().live_bytes, 0) << name;
  }
}

}  // namespace
}  // namespace hearth::testing
