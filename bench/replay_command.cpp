// hearth-bench replay: runs a recording again on any device. Compares the results with the recorded
// ones or another device's, times it, or reduces it to the ops that make it fail. Exits with 0 if
// nothing differs, 1 if something does, 2 if the file is rejected.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>

#include "commands.hpp"

namespace hearth::bench {
namespace {

struct Settings {
  std::string file;
  std::string device = "cpu:0";
  std::string against;
  std::string reduce_to;
  double tolerance = 0;
  int times = 1;
  bool prints_every_row = false;
};

RuntimeOptions devices_of(const Settings& settings) {
  RuntimeOptions options{.devices = {{.name = settings.device}}};
  if (!settings.against.empty() && settings.against != settings.device) {
    options.devices.push_back({.name = settings.against});
  }
  return options;
}

double seconds_of(const Settings& settings, const Device& device, const ReplayOptions& options) {
  std::vector<double> seconds;
  for (int i = 0; i < settings.times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(replay(settings.file, device, options));
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::nth_element(seconds, seconds.begin() + settings.times / 2);
  return seconds[static_cast<std::size_t>(settings.times) / 2];
}

int run(const Settings& settings) {
  const Runtime runtime(devices_of(settings));
  const Device device = runtime.device(settings.device);
  ReplayOptions options{.tolerance = settings.tolerance};
  if (!settings.against.empty()) {
    options.against = runtime.device(settings.against);
  }
  const ReplayReport report = replay(settings.file, device, options);
  for (const auto& [key, value] : report.notes) {
    std::printf("%s: %s\n", key.c_str(), value.c_str());
  }
  std::printf("%s", report.to_string(settings.prints_every_row).c_str());
  if (!settings.reduce_to.empty()) {
    const std::optional<ReplayFailure> failure =
        reduce_recording(settings.file, settings.reduce_to, device, options);
    std::printf("%s\n",
                failure ? (settings.reduce_to + ": " + failure->to_string()).c_str()
                        : "nothing fails here, so there is nothing to cut down to");
  }
  if (settings.times > 1) {
    std::printf("median of %d replays: %.3f ms\n",
                settings.times,
                seconds_of(settings, device, options) * 1e3);
  }
  return report.agrees() ? 0 : 1;
}

}  // namespace

int replay_command(int argc, char** argv) {
  Settings settings;
  CLI::App app("Runs a recording (HEARTH_RECORD_FILE, RecordScope) again.", "hearth-bench replay");
  app.add_option("file", settings.file, "The recording")->required();
  app.add_option("--device", settings.device, "Where it runs")->capture_default_str();
  app.add_option("--against",
                 settings.against,
                 "Compare with a replay on this device, not with what was recorded");
  app.add_option(
      "--tolerance", settings.tolerance, "Largest |a - b| / (1 + |b|); 0 = by element type");
  app.add_option("--reduce",
                 settings.reduce_to,
                 "Write the smallest program that fails in the same way to this file");
  app.add_option("--times",
                 settings.times,
                 "Number of replays whose median time is printed too, reading the file included")
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--all", settings.prints_every_row, "Print every value that was read");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!(settings.tolerance >= 0)) {  // rejects NaN, too
    std::fprintf(stderr, "hearth-bench: --tolerance: %g is not 0 or more\n", settings.tolerance);
    return 2;
  }
  unsetenv("HEARTH_RECORD_FILE");  // NOLINT(concurrency-mt-unsafe): no thread yet; the replay is
                                   // not to overwrite it
  try {
    return run(settings);
  } catch (const FileError& refused) {
    std::fprintf(stderr, "hearth-bench: %s\n", refused.what());
    return 2;
  }
}

}  // namespace hearth::bench
