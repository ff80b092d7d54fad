// hearth-bench peaks [DEVICE...]: measures the peaks of a device and stores them for all programs.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <hearth/runtime/runtime.hpp>

#include "commands.hpp"

namespace hearth::bench {

int peaks_command(int argc, char** argv) {
  CLI::App app(
      "Measures peak rates of devices and stores them in the cache folder "
      "(HEARTH_CACHE_DIR). By them a tape decides which values it recomputes instead of keeping "
      "them. "
      "Let nothing else run meanwhile.",
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
  return 0;
}

}  // namespace hearth::bench
