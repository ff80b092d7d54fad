// Random programs of two threads on two sims, with shadow memory, under random schedules and with
// random faults on the first, against the reference: every tensor that is read has the reference's
// bits or is poisoned; it is poisoned exactly if its op failed or one of its operands is; a step
// happens as a whole or not at all; no more ops fail than the plan says, and none is given up
// without limits of its stream; a restarted device works, and none of its old tensors does; nothing
// is left when all handles are gone. RANDOM_FAULT_PROGRAMS says how many, RANDOM_FIRST which seed
// comes first.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/runtime.hpp>

#include "fault_judge.hpp"
#include "faulty_program.hpp"
#include "runtime/device/backend_factory.hpp"

namespace hearth::testing {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t fallback) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): before any thread
  return text == nullptr ? fallback : std::stoull(text);
}

Plan plan_of(std::uint64_t seed) {
  std::mt19937_64 random(seed * 7919);
  const auto pick = [&](std::uint64_t count) { return random() % count; };
  Plan plan;
  FaultPlan& faults = plan.faults;
  switch (pick(10)) {
    case 0:
      break;
    case 1:
      faults.lost_at_submit = 1 + pick(40);
      plan.loses = true;
      break;
    case 2:
      faults.lost_at = std::chrono::microseconds(1 + pick(100));
      plan.loses = true;
      break;
    case 3:
      faults.failing_allocation = 1 + static_cast<std::int64_t>(pick(3));
      faults.failing_allocation_count = 1 + static_cast<std::int64_t>(pick(3));
      break;
    case 4:
      faults.failing_compiles = {1 + pick(20), 1 + pick(20)};
      break;
    case 5:
      faults.hanging_submit = 1 + pick(40);
      plan.hangs = true;
      break;
    default:
      faults.failing_submits = {1 + pick(15), 1 + pick(30), 1 + pick(40)};
  }
  plan.trains = pick(2) == 0;
  plan.restarts = !plan.is_of_ops() && pick(2) == 0;
  if (faults.failing_allocation > 0 && pick(2) == 0) {
    plan.has_page_each = true;
    faults.failing_allocation += static_cast<std::int64_t>(pick(40));
  }
  plan.gives_up = plan.is_of_ops() && pick(3) == 0;
  return plan;
}

struct Figures {
  std::uint64_t right = 0;
  std::uint64_t poisoned = 0;
  std::uint64_t ops = 0;
  std::uint64_t lost = 0;
  std::uint64_t hung = 0;
  std::uint64_t restarted = 0;
  std::uint64_t given_up = 0;
  std::uint64_t steps = 0;
  std::uint64_t steps_given_up = 0;
  std::uint64_t steps_torn = 0;

  void count(const FaultyProgram& program,
             const Plan& plan,
             const std::vector<std::size_t>& updated) {
    ops += program.nodes().size();
    restarted += plan.restarts ? 1 : 0;
    for (std::size_t i = 0; i < updated.size(); ++i) {
      const Step& step = program.steps()[i];
      ++steps;
      steps_given_up += step.error && updated[i] == 0 ? 1U : 0U;
      steps_torn += step.error && updated[i] != 0 ? 1U : 0U;
    }
    bool has_error = false;
    for (const Observation& seen : program.observations()) {
      given_up += seen.error && seen.error->text.starts_with("given up before") ? 1U : 0U;
    }
    for (const Observation& seen : program.last_look()) {
      ++(seen.error ? poisoned : right);
      has_error = has_error || seen.error;
    }
    lost += has_error && plan.loses ? 1 : 0;
    hung += has_error && plan.hangs ? 1 : 0;
  }
};

/// All drops have come, also those of streams that ended.
void settle(const Runtime& runtime) {
  const Deadline end = Deadline::in(std::chrono::milliseconds(10));
  while (!end.has_passed()) {
    current_context().parker().park(end);
  }
  for (const Device& device : runtime.devices()) {
    static_cast<void>(device.statistics());  // the actor's answer: it has looked at its lanes
  }
}

/// `plan` is what the judge knows, `faults` what happens.
std::vector<std::string> run_program(std::uint64_t seed,
                                     const Plan& plan,
                                     const FaultPlan& faults,
                                     Figures& figures) {
  std::map<std::string, sim::SimBackend*> sims;  // of the last generation
  const BackendFactory factory{
      .make = [&](const BackendRequest& request) -> std::unique_ptr<Backend> {
        if (!request.name.starts_with("sim:")) {
          return nullptr;
        }
        auto sim = std::make_unique<sim::SimBackend>(sim::SimOptions{
            .name = request.name,
            .faults = request.name == "sim:0" && !sims.contains("sim:0") ? faults : FaultPlan{},
            .queues = 1 + static_cast<int>(seed % 3),
            .copy_engines = static_cast<int>(seed % 5 == 0),
            .reorder_seed = seed % 2 == 0 ? seed : 0,
            .effects = seed % 7 == 0 ? sim::Effects::at_end : sim::Effects::at_submit,
            .has_shadow = true});
        sims[request.name] = sim.get();
        return sim;
      }};
  ManualExecutor executor(seed, {.max_steps = 1'000'000, .preempts_at_locks = true});
  std::vector<std::string> wrong;
  executor.run([&] {
    const MemoryPooling pooling =
        plan.has_page_each ? MemoryPooling::exclusive : MemoryPooling::default_pooling;
    const Runtime runtime({.devices = {{.name = "sim:0", .memory = pooling},
                                       {.name = "sim:1"},
                                       {.name = "reference:0"}},
                           .executor = &executor,
                           .backend_factory = &factory});
    {
      std::optional<RecordScope> recording;
      if (plan.is_recorded()) {
        recording.emplace(runtime, RecordOptions{.bytes = RecordedBytes::none});
      }
      FaultyProgram program({runtime.device("sim:0"), runtime.device("sim:1")},
                            executor,
                            {.seed = seed,
                             .trains = plan.trains,
                             .restarts = plan.restarts,
                             .gives_up = plan.gives_up});
      program.run();
      std::optional<OpTrace> trace;
      if (recording) {
        trace = recording->take().value();
      }
      FaultJudge judge(program, plan, trace ? &*trace : nullptr);
      judge.judge_errors(sims.at("sim:0")->submitted());
      judge.judge_values(program.expected(runtime.device("reference:0"), judge.updated()));
      wrong = judge.wrong();
      figures.count(program, plan, judge.updated());
    }
    settle(runtime);
    for (const Device& device : runtime.devices()) {
      const MemoryStatistics memory = device.memory();
      if (memory.live_tensor_count != 0 || memory.live_bytes != 0) {
        wrong.push_back(device.name() + " keeps " + std::to_string(memory.live_tensor_count) +
                        " tensors, " + std::to_string(memory.live_bytes) + " bytes");
      }
    }
    for (const auto& [name, sim] : sims) {
      for (const sim::ShadowReport& report : sim->shadow_reports()) {
        wrong.push_back(name + ": shadow memory: " + report.text);
      }
    }
  });
  return wrong;
}

TEST(RandomFaults, EveryTensorIsRightOrPoisonedWithCause) {
  const std::uint64_t first = number_from("RANDOM_FIRST", 1);
  const std::uint64_t count = number_from("RANDOM_FAULT_PROGRAMS", 300);
  Figures figures;
  for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    const Plan plan = plan_of(seed);
    for (const std::string& wrong : run_program(seed, plan, plan.faults, figures)) {
      ADD_FAILURE() << "seed " << seed << ": " << wrong;
    }
  }
  std::printf(
      "%lu programs, %lu tensors made, at the end %lu right and %lu poisoned, %lu reads given up; "
      "%lu devices lost, %lu hung, %lu restarted; %lu steps, %lu of them given up, %lu torn\n",
      count,
      figures.ops,
      figures.right,
      figures.poisoned,
      figures.given_up,
      figures.lost,
      figures.hung,
      figures.restarted,
      figures.steps,
      figures.steps_given_up,
      figures.steps_torn);
  EXPECT_GT(figures.right, figures.poisoned);
  EXPECT_GT(figures.poisoned, 0U);
  EXPECT_GT(figures.given_up, 0U);
}

// What the judge is for: a bit that turned over on its way out is seen.
TEST(RandomFaults, AWrongBitIsSeen) {
  Figures figures;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Plan plan{.faults = {.corrupted_downloads = {1, 2, 3}}};
    EXPECT_FALSE(run_program(seed, plan, plan.faults, figures).empty()) << "seed " << seed;
  }
}

// And memory that is short although the plan speaks of other failures.
TEST(RandomFaults, MemoryThatIsShortThoughNobodyPlannedItIsSeen) {
  const Plan plan{.faults = {.failing_submits = {1, 2, 3}}, .has_page_each = true};
  const FaultPlan faults{.failing_allocation = 5, .failing_allocation_count = 3};
  Figures figures;
  int seen_count = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<std::string> wrong = run_program(seed, plan, faults, figures);
    seen_count += std::ranges::any_of(wrong, [](const std::string& text) {
      return text.find("failed though nothing was planned") != std::string::npos;
    });
  }
  EXPECT_GT(seen_count, 0);
}

}  // namespace
}  // namespace hearth::testing
