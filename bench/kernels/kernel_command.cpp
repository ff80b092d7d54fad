// hearth-bench kernel FILE --against FILE: two versions of a kernel, compared by the judge.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/commands.hpp"
#include "kernel_file.hpp"
#include "session.hpp"

namespace hearth::bench {
namespace {

Result<KernelRequest> request_of(const CommandLine& line) {
  KernelRequest request;
  for (const std::string& text : line.texts("--input")) {
    HEARTH_TRY(NamedOperand operand, parse_operand(text));
    request.inputs.push_back(std::move(operand));
  }
  for (const std::string& text : line.texts("--output")) {
    HEARTH_TRY(NamedOperand operand, parse_operand(text));
    request.outputs.push_back(std::move(operand));
  }
  request.defines = line.texts("--define");
  HEARTH_TRY(const double threads, line.number("--threads"));
  request.threads = static_cast<int>(threads);
  HEARTH_TRY(request.bytes, line.number("--bytes"));
  HEARTH_TRY(request.flops, line.number("--flops"));
  return request;
}

Result<std::vector<Row>> measure(Session& session, const CommandLine& line) {
  HEARTH_TRY(const KernelRequest request, request_of(line));
  HEARTH_TRY(const double tolerance, line.number("--tolerance"));
  const std::string& mine = line.names()[0];
  HEARTH_TRY(const KernelFile challenger, KernelFile::load(mine, request));
  std::vector<Row> rows;
  if (!line.has("--against")) {
    for (const MeasureOptions& options : session.options()) {
      rows.push_back(measure_problem(session.device(), challenger.problem(), options));
      rows.back().name = "kernel";
      rows.back().version = mine;
    }
    return rows;
  }
  const std::string& other = line.text("--against");
  HEARTH_TRY(const KernelFile incumbent, KernelFile::load(other, request));
  for (const MeasureOptions& options : session.options()) {
    session.progress().show(mine, 0, 1);
    for (Row& row : measure_versions(session.device(),
                                     {.incumbent = incumbent.problem(),
                                     .challenger = challenger.problem(),
                                     .incumbent_name = other,
                                     .challenger_name = mine,
                                     .tolerance = tolerance},
                                     options)) {
      row.name = "kernel";
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace

int kernel_command(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  CommandLine line(
      "kernel FILE --against FILE --input x:f32[4096,4096] [options]",
      "Times a kernel of yours, and compares it with another version of it.\n"
      "FILE: a shared object (.so) or C++ (.cpp) with the entry point of hearth_kernel.h, GLSL\n"
      "(.glsl) as in docs/kernels.md, or an expression such as 'x*sigmoid(x)'.\n"
      "docs/benchmarks.md has an example to follow.",
      with_common_options(
          {{"--against", "FILE", "", "The version to compare with; its results count as right"},
           {"--input", "NAME:TYPE[N,N]", "", "An input; once for each, in their order"},
           {"--output", "NAME:TYPE[N,N]", "", "A result; none: y, like the first input"},
           {"--header", "", "", "Print hearth_kernel.h, the entry point of C++ kernels"},
           {"--define", "NAME=VALUE", "", "A macro for C++ and GLSL; may be repeated"},
           {"--threads", "N", "256", "GLSL: threads of a workgroup"},
           {"--bytes", "N", "0", "Bytes that a run moves; 0: its inputs and results"},
           {"--flops", "N", "0", "Operations of a run; 0: unknown"},
           {"--tolerance", "T", "0", "Largest |a - b| / (1 + |b|); 0: by element type"}}));
  if (const std::optional<int> status = line.read(given)) {
    return *status;
  }
  if (line.has("--header")) {
    fmt::print("{}", kernel_header());
    return static_cast<int>(Exit::fine);
  }
  if (line.names().size() != 1) {
    return refuse("kernel", "it takes one file or expression; --help has an example", Exit::usage);
  }
  const Result<std::unique_ptr<Session>> session =
      Session::open(line, fmt::format("hearth-bench kernel {}", fmt::join(given, " ")));
  if (!session.has_value()) {
    return refuse("kernel", session.error().text, exit_of(session.error()));
  }
  Result<std::vector<Row>> rows = measure(*session.value(), line);
  if (!rows.has_value()) {
    return refuse("kernel", rows.error().text, exit_of(rows.error()));
  }
  session.value()->rows() = std::move(rows).value();
  return session.value()->finish(line, true);
}

}  // namespace hearth::bench
