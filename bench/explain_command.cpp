// hearth-bench explain NAME|FILE: shows the kernels of a program's ops, and why each of them ends.
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/settings.hpp>
#include <hearth/runtime/explanation.hpp>
#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/trace_scope.hpp>
#include <hearth/streams/trace/op_trace_file.hpp>

#include "commands.hpp"
#include "explain_picture.hpp"
#include "explain_programs.hpp"
#include "trace_table.hpp"

namespace hearth::bench {
namespace {

struct Asked {
  std::string name;
  std::string device = "cpu:0";
  std::string fusion;
  std::string picture;
  bool backward = false;
  bool as_json = false;
};

void require(const Status& status, const char* option) {
  if (!status.has_value()) {
    throw std::runtime_error(std::string("explain: ") + option + ": " + status.error().text);
  }
}

// Reports errors in the arguments before any work.
void check(const Asked& asked) {
  require_program(asked.name);
  if (asked.backward && !has_gradients(asked.name)) {
    throw std::runtime_error(
        "explain: --backward: '" + asked.name +
        (is_built_in(asked.name)
             ? "' is an optimizer's step, which has no gradient"
             : "' is a recording, which runs as it was: its own backward passes are in it"));
  }
  if (!asked.picture.empty()) {
    require(check_writable(asked.picture), "--svg");
  }
}

struct Explained {
  Explanation explanation;
  /// Time of each kernel; empty: not measured, or the kernels differ.
  std::vector<double> seconds = {};
  std::string tape;              ///< Note on the tape's choices, if it had peaks.
  std::optional<OpTrace> trace;  ///< The recording, which owns the file names.
};

/// Time of each kernel; empty if the trace has other kernels.
std::vector<double> seconds_of(const Explanation& explanation,
                               const std::filesystem::path& trace,
                               const std::string& device) {
  std::vector<double> seconds;
  for (const TimedKernel& timed : read_kernels(trace, device)) {
    const std::size_t i = seconds.size();
    if (i >= explanation.kernels.size() || explanation.kernels[i].name != timed.name) {
      return {};
    }
    seconds.push_back(timed.seconds);
  }
  return seconds.size() == explanation.kernels.size() ? seconds : std::vector<double>();
}

/// The program runs twice before: a device makes a plan at the first run, and steps reuse the
/// results of the first one. Skipped when HEARTH_FUSION_LIMIT lets only the first groups run fused:
/// those groups must be the ones that are shown.
Explained explain_program(const Asked& asked) {
  RuntimeOptions options{.devices = {{.name = asked.device}}};
  if (!asked.fusion.empty()) {  // else HEARTH_FUSION applies
    const std::map<std::string, Fusion> kinds{
        {"off", Fusion::off}, {"single", Fusion::single}, {"on", Fusion::on}};
    options.fusion = kinds.at(asked.fusion);
  }
  const Runtime runtime(options);
  const Device device = runtime.device(asked.device);
  Explained explained;
  std::function<void()> program;
  if (is_built_in(asked.name)) {
    program = explained_program(asked.name, device, asked.backward);
  } else {
    explained.trace = hearth::read_trace(asked.name).value();
    program = [&explained, &device] { static_cast<void>(replay(*explained.trace, device)); };
  }
  const bool is_limited =
      detail::Settings::from_environment().text(detail::Setting::fusion_limit).has_value();
  const int warm_runs = is_limited ? 0 : 2;
  for (int i = 0; i < warm_runs; ++i) {
    program();
    device.sync();  // a boundary: only ops that are complete between two of them get a plan
  }
  if (asked.picture.empty()) {
    explained.explanation = explain(device, program);
  } else {
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / fmt::format("hearth-explain-{}.json", ::getpid());
    {
      const TraceScope trace(runtime, file);
      explained.explanation = explain(device, program);
    }
    explained.seconds = seconds_of(explained.explanation, file, asked.device);
    std::filesystem::remove(file);
  }
  if (explained.trace) {
    take_lines(explained.explanation, *explained.trace);
  }
  if (const std::optional<DevicePeaks> peaks = device.peaks(); asked.backward && peaks) {
    explained.tape = fmt::format(
        "the tape kept what is quicker to read than to recompute here: {} "
        "(hearth-bench peaks {} measures anew)\n",
        peaks->to_string(),
        asked.device);
  }
  return explained;
}

}  // namespace

int explain_command(int argc, char** argv) {
  CLI::App app("Shows which kernels a program's ops become, and why each of them ends.",
               "hearth-bench explain");
  Asked asked;
  app.add_option("NAME", asked.name, "One of " + joined_names() + "; or the file of a recording")
      ->required();
  app.add_flag("--backward", asked.backward, "With the gradients of all inputs");
  app.add_flag("--json", asked.as_json, "As one JSON object");
  app.add_option("--svg", asked.picture, "Draw it into this file too");
  app.add_option("--device", asked.device, "Where it runs")->capture_default_str();
  app.add_option(
         "--fusion", asked.fusion, "off, single or on; else the value of HEARTH_FUSION, or on")
      ->check(CLI::IsMember({"off", "single", "on"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  check(asked);
  const Explained explained = explain_program(asked);
  const Explanation& explanation = explained.explanation;
  if (!asked.picture.empty()) {
    const std::string svg =
        draw_explanation(explanation,
                         asked.name + (asked.backward ? ", forward and backward" : ""),
                         explained.seconds);
    require(write_file_atomically(asked.picture, std::as_bytes(std::span(svg))), "--svg");
  }
  const std::string text =
      asked.as_json ? explanation.to_json() : explanation.to_string() + explained.tape;
  std::printf("%s", text.c_str());
  return 0;
}

}  // namespace hearth::bench
