// Random graphs of ops and their gradients (support/random_graph.hpp) on a cpu device that fuses,
// against one that runs each op by itself: equal bits and equal errors. In virtual time, so that a
// window ends only where its program ends it. RANDOM_GRAPHS sets the number, RANDOM_FIRST the first
// seed, RANDOM_BYTES the bytes of a single program. RANDOM_STORY=1 prints its ops.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/support/random_graph.hpp"
#include "tests/support/sanitizers.hpp"

namespace hearth::testing {
namespace {

constexpr SeededPrograms kPrograms{.count_variable = "RANDOM_GRAPHS",
                                   .count = kSanitizerTakesAddresses ? 150 : 1500,
                                   .least_bytes = 30,
                                   .most_bytes = 150};

/// Calls body(runtime that fuses, runtime that does not) in virtual time.
template <class Body>
void with_both(const Body& body) {
  ManualExecutor executor(1, {.max_steps = 1'000'000'000'000});
  executor.run([&] {
    const std::vector<DeviceOptions> devices = {{.name = "cpu:0"}};
    const Runtime fused({.devices = devices,
                         .fusion = Fusion::on,
                         .round_intermediates = true,
                         .executor = &executor});
    const Runtime singly({.devices = devices,
                          .fusion = Fusion::off,
                          .round_intermediates = true,
                          .executor = &executor});
    body(fused.device("cpu:0"), singly.device("cpu:0"));
  });
}

TEST(RandomGraphs, HaveTheBitsAndErrorsOfSingleOps) {
  const bool tells = number_from("RANDOM_STORY", 0) != 0;
  GraphFigures figures;
  DeviceStatistics done;
  with_both([&](const Device& fused, const Device& singly) {
    static_cast<void>(run_seeded(kPrograms, [&](auto bytes) -> std::vector<std::string> {
      try {
        static_cast<void>(run_graphs(singly, bytes));
      } catch (const ArgumentError& refused) {
        return {refused.what()};
      }
      std::vector<std::string> story;
      const std::vector<GraphResult> want =
          run_graphs(singly, bytes, &figures, tells ? &story : nullptr);
      std::vector<std::string> wrong = compare_graphs(want, run_graphs(fused, bytes));
      // A repeated program recalls its groups instead of gathering them anew.
      const std::vector<std::string> again = compare_graphs(want, run_graphs(fused, bytes));
      wrong.insert(wrong.end(), again.begin(), again.end());
      if (!wrong.empty() && tells) {
        wrong.push_back(fmt::format("the program\n  {}", fmt::join(story, "\n  ")));
      }
      return wrong;
    }));
    done = fused.statistics();
    for (const Device& device : {fused, singly}) {
      EXPECT_EQ(device.memory().live_tensor_count, 0);
      EXPECT_EQ(device.memory().live_bytes, 0);
    }
  });
  std::printf("%lu ops and %lu sweeps, %lu results, %lu of them errors; %lu ops in %lu kernels\n",
              figures.ops,
              figures.sweeps,
              figures.results,
              figures.failed,
              done.fused_ops,
              done.fused_kernels);
  EXPECT_GT(done.fused_kernels, figures.sweeps);
}

}  // namespace
}  // namespace hearth::testing
