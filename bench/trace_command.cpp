// hearth-bench trace FILE --by layer|op|line [--depth N]: sums the times of a traced program.
#include <cstdio>
#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "trace_table.hpp"

namespace hearth::bench {

int trace_command(int argc, char** argv) {
  CLI::App app("Adds up what a traced program (TraceScope, HEARTH_TRACE_FILE) spent its time on.",
               "hearth-bench trace");
  std::string file;
  std::string by = "layer";
  std::string device;
  std::size_t depth = 0;
  std::size_t rows = 30;
  app.add_option("FILE", file, "The file of the trace")->required();
  app.add_option("--by", by, "layer, op or line")
      ->check(CLI::IsMember({"layer", "op", "line"}))
      ->capture_default_str();
  app.add_option("--depth",
                 depth,
                 "By layer: how many names of a path count, 1 for \"layers\" of \"layers.0.norm\"; "
                 "without: all")
      ->check(CLI::Range(1, 1000));
  app.add_option("--device", device, "Only this device, for example cpu:0");
  app.add_option("--rows", rows, "How many of the costliest rows to print")->capture_default_str();
  try {
    app.parse(argc, argv);
    if (depth > 0 && by != "layer") {
      throw CLI::ValidationError("--depth", "goes with --by layer");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const std::map<std::string, TraceKey> keys{
      {"layer", TraceKey::layer}, {"op", TraceKey::op}, {"line", TraceKey::line}};
  const TraceKey key = keys.at(by);
  std::printf(
      "%s",
      read_trace(file, {.key = key, .device = device, .depth = depth}).to_text(key, rows).c_str());
  return 0;
}

}  // namespace hearth::bench
