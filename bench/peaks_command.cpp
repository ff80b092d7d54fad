// hearth-bench peaks [DEVICE...]: measures the peaks of a device and stores them for all programs.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <hearth/runtime/runtime.hpp>

#include "commands.hpp"
#include "kernels/command_line.hpp"
#include "kernels/contest.hpp"
#include "kernels/roofs.hpp"
#include "kernels/stopwatch.hpp"

namespace hearth::bench {
namespace {

/// Times multiply-adds on this thread against themselves: whether other programs disturb it.
detail::Judgement judge_machine() {
  const Side side = [](std::int32_t run_count) -> Result<detail::Sample> {
    Stopwatch watch(detail::SampleSource::host_thread);
    for (std::int32_t i = 0; i < run_count; ++i) {
      static_cast<void>(run_multiply_adds());
    }
    return watch.stop(run_count, 0);
  };
  return time_alone(side, {}).value().judgement;
}

}  // namespace

int peaks_command(int argc, char** argv) {
  CLI::App app(
      "Measures peak rates of devices and stores them in the cache folder "
      "(HEARTH_CACHE_DIR). By them a tape decides which values it recomputes instead of keeping "
      "them. "
      "Let nothing else run meanwhile: on a busy machine stored peaks only rise, and the exit "
      "status is 4.",
      "hearth-bench peaks");
  std::vector<std::string> names{"auto"};
  app.add_option("DEVICE", names, "cpu:0, vulkan:0; auto is a GPU if there is one")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  RuntimeOptions options;
  for (const std::string& name : names) {
    options.devices.push_back({.name = name});
  }
  const Runtime runtime(options);
  const detail::Judgement quiet = judge_machine();
  for (const Device& device : runtime.devices()) {
    const std::optional<DevicePeaks> before = device.peaks();
    const DevicePeaks now = runtime.measure_peaks(device);
    std::printf("%s, %s\n  %s\n",
                device.name().c_str(),
                device.description().c_str(),
                now.to_string().c_str());
    if (before) {
      std::printf("  before: %s\n", before->to_string().c_str());
    }
  }
  if (quiet.verdict != detail::Verdict::same) {
    std::printf("%s; stored peaks only rise, so measure again when the machine is idle\n",
                describe(quiet).c_str());
    return static_cast<int>(Exit::unclear);
  }
  return 0;
}

}  // namespace hearth::bench
