// Random programs on two logical Vulkan devices of one card against the reference, with fusion on.
// RANDOM_VULKAN sets the number (25 by default), RANDOM_FIRST the first seed, RANDOM_BYTES the
// bytes of a single program.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/runtime.hpp>

#include "tests/support/random_program.hpp"
#include "tests/support/value_judge.hpp"

namespace hearth::testing {
namespace {

TEST(RandomPrograms, VulkanAgreesWithReference) {
  setenv("HEARTH_VULKAN_DEVICES", "0,0", 1);  // NOLINT(concurrency-mt-unsafe): before the runtime
  const Runtime runtime(
      {.devices = {{.name = "vulkan:0"}, {.name = "vulkan:1"}, {.name = "reference:0"}},
       .fusion = Fusion::on,
       .round_intermediates = true});
  unsetenv("HEARTH_VULKAN_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  ValueTally tally;
  static_cast<void>(run_seeded(
      {.count_variable = "RANDOM_VULKAN", .count = 25, .least_bytes = 60, .most_bytes = 300},
      [&](std::span<const std::byte> input) {
        ByteReader bytes(input);
        const ProgramOptions options{.values = bytes.pick(4) == 0 ? Values::exact : Values::smooth};
        RandomProgram program(bytes.rest(),
                              {runtime.device("vulkan:0"), runtime.device("vulkan:1")},
                              nullptr,
                              options);
        program.run();
        return judge_values(program, options.values, runtime.device("reference:0"), tally);
      }));
  std::printf("%lu values compared, %lu skipped\n", tally.compared, tally.skipped);
  EXPECT_GT(tally.compared, 20 * tally.skipped);
  for (const char* name : {"vulkan:0", "vulkan:1"}) {
    EXPECT_EQ(runtime.device(name).memory().live_tensor_count, 0) << name;
    EXPECT_EQ(runtime.device(name).memory().live_bytes, 0) << name;
  }
}

}  // namespace
}  // namespace hearth::testing
