#include "faulty_run.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <hearth/backends/sim/async_sim.hpp>
#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/runtime.hpp>

#include "runtime/device/backend_factory.hpp"

namespace hearth::testing {
namespace {

/// Queries on one sim.
struct Sim {
  std::function<std::uint64_t()> submitted;
  std::function<std::vector<sim::ShadowReport>()> shadow_reports;
};

/// The sims of a run by name, each of the latest generation.
using Sims = std::map<std::string, Sim>;

template <class AnySim>
std::unique_ptr<Backend> noted(std::unique_ptr<AnySim> sim, Sim& note) {
  note = {.submitted = [sim = sim.get()] { return sim->submitted(); },
          .shadow_reports = [sim = sim.get()] { return sim->shadow_reports(); }};
  return sim;
}

detail::BackendFactory factory_of(const FaultyRun& run, Sims& sims) {
  return {.make = [&run, &sims](const BackendRequest& request) -> std::unique_ptr<Backend> {
    if (!request.name.starts_with("sim:")) {
      return nullptr;
    }
    const bool is_faulty = request.name == "sim:0" && !sims.contains("sim:0");
    const FaultPlan faults = is_faulty ? run.faults : FaultPlan{};
    if (run.sim % 2 == 1 || faults.hanging_submit != 0 || request.sim_schedule) {
      const auto seed = static_cast<std::uint64_t>(run.sim / 2);
      return noted(std::make_unique<sim::AsyncSim>(sim::AsyncSimOptions{
                       .name = request.name,
                       .faults = faults,
                       .late_failures_name_cells = run.plan.checks,
                       .schedule = {.queues = 1 + run.sim % 3,
                                    .reorder_seed = run.sim % 5 == 0 ? 0 : seed,
                                    .cost_seed = run.sim % 7 == 0 ? 0 : seed}}),
                   sims[request.name]);
    }
    return noted(std::make_unique<sim::SimBackend>(
                     sim::SimOptions{.name = request.name, .faults = faults, .has_shadow = true}),
                 sims[request.name]);
  }};
}

/// Waits until all drops have arrived, including those of ended streams or of streams that wait for
/// a hung device.
void settle(const Runtime& runtime, bool hangs) {
  const Deadline end = Deadline::in(hangs ? 3 * kDefaultWait : std::chrono::milliseconds(10));
  while (!end.has_passed()) {
    detail::current_context().parker().park(end);
  }
  for (const Device& device : runtime.devices()) {
    static_cast<void>(device.statistics());  // the actor has visited its lanes by then
  }
}

void look_for_leaks(const Runtime& runtime, const Sims& sims, std::vector<std::string>& wrong) {
  for (const Device& device : runtime.devices()) {
    const MemoryStatistics memory = device.memory();
    if (memory.live_tensor_count != 0 || memory.live_bytes != 0) {
      wrong.push_back(device.name() + " keeps " + std::to_string(memory.live_tensor_count) +
                      " tensors, " + std::to_string(memory.live_bytes) + " bytes");
    }
  }
  for (const auto& [name, sim] : sims) {
    for (const sim::ShadowReport& report : sim.shadow_reports()) {
      wrong.push_back(name + ": shadow memory: " + report.text);
    }
  }
}

/// Runs the program inside the executor and judges it.
std::vector<std::string> judge_program(const FaultyRun& run,
                                       const Runtime& runtime,
                                       detail::Executor& executor,
                                       const Sims& sims,
                                       FaultFigures& figures) {
  std::optional<RecordScope> recording;
  if (run.plan.is_recorded()) {
    recording.emplace(runtime, RecordOptions{.bytes = RecordedBytes::none});
  }
  RandomProgram program(run.program,
                        {runtime.device("sim:0"), runtime.device("sim:1")},
                        &executor,
                        {.values = run.values,
                         .trains = run.plan.trains,
                         .restarts = run.plan.restarts,
                         .checks = run.plan.checks,
                         .graphs = run.plan.graphs,
                         .cancels = run.plan.cancels,
                         .most_threads = 3});
  program.run();
  std::optional<OpTrace> trace;
  if (recording) {
    trace = recording->take().value();
  }
  FaultJudge judge(program, run.plan, trace ? &*trace : nullptr);
  judge.judge_errors(sims.at("sim:0").submitted());
  judge.judge_values(program.expected(runtime.device("reference:0"), judge.updated()));
  figures.count(program, run.plan, judge);
  std::vector<std::string> wrong = judge.wrong();
  wrong.insert(wrong.end(), program.wrong().begin(), program.wrong().end());
  return wrong;
}

void pick_faults(ByteReader& bytes, Plan& plan) {
  const auto number = [&](int count) { return 1 + static_cast<std::uint64_t>(bytes.pick(count)); };
  FaultPlan& faults = plan.faults;
  switch (bytes.pick(10)) {
    case 0:
      return;
    case 1:
      faults.lost_at_submit = number(80);
      plan.loses = true;
      return;
    case 2:
      faults.lost_at = std::chrono::microseconds(number(100));
      plan.loses = true;
      return;
    case 3:
      faults.failing_allocation = static_cast<std::int64_t>(number(3));
      faults.failing_allocation_count = static_cast<std::int64_t>(number(3));
      plan.has_page_each = bytes.pick(2) == 0;
      faults.failing_allocation += plan.has_page_each ? bytes.pick(40) : 0;
      return;
    case 4:
      faults.failing_compiles = {number(40), number(40)};
      return;
    case 5:
      faults.hanging_submit = number(80);
      plan.hangs = true;
      return;
    case 6:
    case 7:
      faults.late_failures = {number(3), number(6), number(12)};
      plan.checks = true;
      plan.trains = true;
      return;
    default:
      faults.failing_submits = {number(30), number(60), number(80)};
  }
}

}  // namespace

FaultyRun faulty_run_of(std::span<const std::byte> input) {
  ByteReader bytes(input);
  FaultyRun run{.schedule = static_cast<std::uint64_t>(bytes.pick(256) * 256 + bytes.pick(256)),
                .sim = bytes.pick(210)};
  run.fusion = static_cast<Fusion>(run.sim / 2 % 3);
  // A sim's own kernels round once an op, in f64; a fused kernel computes like a device.
  const bool is_exact = bytes.pick(3) == 0 || run.fusion == Fusion::on;
  run.values = is_exact ? Values::exact : Values::smooth;
  Plan& plan = run.plan;
  const int flags = bytes.pick(36);
  plan.trains = flags % 2 == 0;
  pick_faults(bytes, plan);
  plan.restarts = !plan.is_of_ops() && flags / 2 % 2 == 0;
  plan.cancels = plan.is_of_ops() && flags / 4 % 3 == 0;
  plan.graphs = flags / 12 == 2 && run.values == Values::exact && plan.trains;
  run.faults = plan.faults;
  run.program = bytes.rest();
  return run;
}

void FaultFigures::count(const RandomProgram& program, const Plan& plan, const FaultJudge& judge) {
  const std::vector<std::size_t>& updated = judge.updated();
  ops += program.nodes().size();
  restarted += plan.restarts ? 1 : 0;
  steps_torn += judge.torn();
  for (std::size_t i = 0; i < updated.size(); ++i) {
    const Step& step = program.steps()[i];
    ++steps;
    steps_cancelled += step.error && updated[i] == 0 ? 1U : 0U;
    steps_kept_late += step.error && updated[i] == 0 && plan.checks ? 1U : 0U;
  }
  for (const Observation& seen : program.observations()) {
    cancelled += seen.error && seen.error->text.starts_with("cancelled before it ran") ? 1U : 0U;
  }
  bool has_error = false;
  for (const Observation& seen : program.last_look()) {
    ++(seen.error ? poisoned : right);
    has_error = has_error || seen.error;
  }
  lost += has_error && plan.loses ? 1 : 0;
  hung += has_error && plan.hangs ? 1 : 0;
  for (const auto& [what, times] : program.coverage()) {
    coverage[what] += times;
  }
}

std::vector<std::string> judge_faulty_run(const FaultyRun& run, FaultFigures& figures) {
  Sims sims;
  const detail::BackendFactory factory = factory_of(run, sims);
  ManualExecutor executor(run.schedule, {.max_steps = 5'000'000, .preempts_at_locks = true});
  std::vector<std::string> wrong;
  executor.run([&] {
    const MemoryPooling pooling =
        run.plan.has_page_each ? MemoryPooling::exclusive : MemoryPooling::default_pooling;
    const Runtime runtime({.devices = {{.name = "sim:0", .memory = pooling},
                                       {.name = "sim:1"},
                                       {.name = "reference:0"}},
                           .fusion = run.fusion,
                           .executor = &executor},
                          factory);
    wrong = judge_program(run, runtime, executor, sims, figures);
    settle(runtime, run.plan.hangs);
    look_for_leaks(runtime, sims, wrong);
  });
  return wrong;
}

}  // namespace hearth::testing
