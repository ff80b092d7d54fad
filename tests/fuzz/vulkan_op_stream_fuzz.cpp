// Programs on two logical devices of one Vulkan card, with fusion on, against the reference. Half
// of them are stepped by a ManualExecutor, with several threads and kernels that block. The others
// run on threads of the operating system, where a pool compiles the kernels of groups concurrently.
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/runtime.hpp>

#include "fuzz_targets.hpp"
#include "tests/support/environment_variable.hpp"
#include "tests/support/fault_judge.hpp"
#include "tests/support/value_judge.hpp"

namespace hearth::fuzz {
namespace {

using testing::ByteReader;
using testing::Values;

struct Run {
  std::uint64_t schedule = 0;
  std::string shuffle = {};  ///< HEARTH_VULKAN_SHUFFLE; empty: the driver's order.
  bool is_stepped = false;
  Values values = Values::exact;
  testing::Plan plan = {};
  Input program = {};

  [[nodiscard]] bool has_faults() const {
    return !plan.is_of_ops() || !plan.faults.failing_compiles.empty();
  }
};

// A hang costs real seconds, and each one leaves an abandoned device.
void pick_faults(ByteReader& bytes, Run& run) {
  const auto number = [&](int count) { return 1 + static_cast<std::uint64_t>(bytes.pick(count)); };
  testing::Plan& plan = run.plan;
  const int choice = bytes.pick(64);
  if (choice == 0) {
    plan.faults.hanging_submit = number(40);
    plan.hangs = true;
    plan.restarts = true;
    run.is_stepped = false;  // virtual time would stand still
  } else if (choice < 16) {
    plan.faults.lost_at_call = number(256);
    plan.loses = true;
    plan.restarts = bytes.pick(2) == 0;
  } else if (choice < 28) {
    plan.faults.failing_compiles = {number(40), number(40)};
    plan.keeps_failing = true;
  }
}

Run run_of(Input input) {
  ByteReader bytes(input);
  Run run{.schedule = static_cast<std::uint64_t>(bytes.pick(256))};
  if (const int seed = bytes.pick(256); seed % 2 != 0) {
    run.shuffle = std::to_string(seed);
  }
  run.is_stepped = bytes.pick(2) == 0;
  pick_faults(bytes, run);
  const int flags = bytes.pick(16);
  run.values = !run.has_faults() && flags % 2 == 0 ? Values::smooth : Values::exact;
  run.plan.trains = flags / 2 % 2 == 0;
  run.plan.cancels = run.has_faults() && run.plan.is_of_ops() && flags / 4 == 0;
  const std::size_t most_bytes = run.plan.hangs ? 60 : 300;
  run.program = bytes.rest().first(std::min(bytes.left(), most_bytes));
  return run;
}

RuntimeOptions options_of(const Run& run, detail::Executor* executor) {
  RuntimeOptions options{
      .devices = {{.name = "vulkan:0"}, {.name = "vulkan:1"}, {.name = "reference:0"}},
      .fusion = Fusion::on,
      .round_intermediates = true,
      .executor = executor};
  if (run.has_faults()) {
    options.devices[0].faults = run.plan.faults;
  }
  if (run.plan.hangs) {
    options.wait_limit = std::chrono::seconds(4);
  }
  return options;
}

void judge(const Run& run,
           const testing::RandomProgram& program,
           const Device& reference,
           const OpTrace* trace,
           std::vector<std::string>& wrong) {
  if (!run.has_faults()) {
    testing::ValueTally tally;
    wrong = judge_values(program, run.values, reference, tally);
    return;
  }
  testing::FaultJudge judge(program, run.plan, trace);
  judge.judge_errors(0);
  judge.judge_values(program.expected(reference, judge.updated()));
  wrong = judge.wrong();
  wrong.insert(wrong.end(), program.wrong().begin(), program.wrong().end());
}

std::vector<std::string> run_program(const Run& run, detail::Executor* executor) {
  std::vector<std::string> wrong;
  const Runtime runtime(options_of(run, executor));
  const std::array devices{runtime.device("vulkan:0"), runtime.device("vulkan:1")};
  {
    std::optional<RecordScope> recording;
    if (run.has_faults() && run.plan.is_recorded()) {
      recording.emplace(runtime, RecordOptions{.bytes = RecordedBytes::none});
    }
    testing::RandomProgram program(run.program,
                                   devices,
                                   executor,
                                   {.values = run.values,
                                    .trains = run.plan.trains,
                                    .restarts = run.plan.restarts,
                                    .cancels = run.plan.cancels,
                                    .most_threads = executor != nullptr ? 3 : 1});
    program.run();
    std::optional<OpTrace> trace;
    if (recording) {
      trace = recording->take().value();
    }
    judge(run, program, runtime.device("reference:0"), trace ? &*trace : nullptr, wrong);
  }
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
  return wrong;
}

}  // namespace

std::string lack_of_vulkan() {
  for (const AvailableDevice& device : available_devices()) {
    if (device.name == "vulkan:0") {
      return device.lack;
    }
  }
  return "there is no vulkan:0";
}

void fuzz_vulkan_op_stream(Input input) {
  const Run run = run_of(input);
  const testing::EnvironmentVariable twice("HEARTH_VULKAN_DEVICES", "0,0");
  const testing::EnvironmentVariable shuffle("HEARTH_VULKAN_SHUFFLE", run.shuffle);
  std::vector<std::string> wrong;
  if (run.is_stepped) {
    ManualExecutor executor(run.schedule, {.max_steps = 20'000'000});
    executor.run([&] { wrong = run_program(run, &executor); });
  } else {
    wrong = run_program(run, nullptr);
  }
  if (!wrong.empty()) {
    throw FuzzFailure(wrong.front());
  }
}

}  // namespace hearth::fuzz
