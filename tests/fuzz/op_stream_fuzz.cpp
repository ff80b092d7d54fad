#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/streams/trace/op_trace_checker.hpp>

#include "fuzz_targets.hpp"
#include "tests/support/faulty_run.hpp"
#include "tests/support/value_judge.hpp"

namespace hearth::fuzz {
namespace {

constexpr std::int64_t kBudget = 64 << 20;

void require_nothing(const std::vector<std::string>& wrong, const std::string& where) {
  if (!wrong.empty()) {
    throw FuzzFailure(where + ": " + wrong.front());
  }
}

void look_for_leaks(const std::array<Device, 2>& devices, std::vector<std::string>& wrong) {
  for (const Device& device : devices) {
    static_cast<void>(device.catch_up_later().wait());
    const MemoryStatistics memory = device.memory();
    if (memory.live_tensor_count != 0 || memory.live_bytes != 0) {
      wrong.push_back(fmt::format("{} tensors and {} bytes are left behind on {}",
                                  memory.live_tensor_count,
                                  memory.live_bytes,
                                  device.name()));
    }
  }
}

/// Runs the program without faults on two devices of this type; all values are exact. Returns the
/// recording.
OpTrace run_whole(const std::string& type, std::uint64_t schedule, bool has_graphs, Input bytes) {
  OpTrace trace;
  std::vector<std::string> wrong;
  ManualExecutor executor(schedule, {.max_steps = 20'000'000});
  executor.run([&] {
    const Runtime runtime({.devices = {{.name = type + ":0", .memory_budget_bytes = kBudget},
                                       {.name = type + ":1", .memory_budget_bytes = kBudget},
                                       {.name = "reference:2", .memory_budget_bytes = kBudget}},
                           .executor = &executor});
    const std::array devices{runtime.device(type + ":0"), runtime.device(type + ":1")};
    {
      testing::RandomProgram program(
          bytes,
          devices,
          &executor,
          {.values = testing::Values::exact, .graphs = has_graphs, .most_threads = 4});
      RecordScope recording(runtime);
      program.run();
      trace = recording.take().value();
      testing::ValueTally tally;
      wrong = judge_values(program, testing::Values::exact, runtime.device("reference:2"), tally);
    }
    look_for_leaks(devices, wrong);
  });
  require_nothing(wrong, type);
  return trace;
}

void check_recording(const OpTrace& trace, bool is_replayed) {
  const Status valid = check_trace(trace);
  if (!valid.has_value()) {
    throw FuzzFailure("the recording is not valid: " + valid.error().text);
  }
  if (!is_replayed) {
    return;
  }
  const Runtime runtime({.devices = {{.name = "reference:0", .memory_budget_bytes = kBudget}}});
  const ReplayReport report = replay(trace, runtime.device("reference:0"));
  if (report.count(Verdict::same_bits) + report.count(Verdict::close) != report.rows.size()) {
    throw FuzzFailure("replayed, it differs:\n" + report.to_string());
  }
}

}  // namespace

void fuzz_op_stream(Input input) {
  constexpr std::size_t kHead = 3;
  constexpr std::size_t kMostBytes = 600;
  if (input.size() < kHead) {
    return;
  }
  const auto schedule = static_cast<std::uint64_t>(input[0]);
  const bool is_replayed = (std::to_integer<int>(input[1]) & 7) == 0;
  const bool has_graphs = (std::to_integer<int>(input[1]) & 8) != 0;
  const int mode = std::to_integer<int>(input[2]) % 4;
  const Input bytes = input.subspan(kHead, std::min(input.size() - kHead, kMostBytes));
  if (mode >= 2) {
    testing::FaultFigures figures;
    require_nothing(judge_faulty_run(testing::faulty_run_of(bytes), figures), "with faults");
    return;
  }
  check_recording(run_whole(mode == 0 ? "cpu" : "sim", schedule, has_graphs, bytes), is_replayed);
}

}  // namespace hearth::fuzz
