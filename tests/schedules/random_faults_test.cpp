// Random programs of two threads on two sims, with shadow memory, under random schedules and with
// random faults on the first, against the reference in the same breath: every tensor that is read
// has the reference's bits or is poisoned; it is poisoned exactly if its op failed or one of its
// operands is; no more ops fail than the plan says; nothing is left when all handles are gone.
// RANDOM_FAULT_PROGRAMS says how many, RANDOM_FIRST which seed comes first.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/runtime.hpp>

#include "faulty_program.hpp"
#include "runtime/backend_factory.hpp"

namespace hearth::testing {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t fallback) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): before any thread
  return text == nullptr ? fallback : std::stoull(text);
}

struct Plan {
  sim::FaultPlan faults = {};
  bool loses = false;
  bool hangs = false;
};

const Error& root_of(const Error& error) {
  return error.cause ? root_of(*error.cause) : error;
}

Plan plan_of(std::uint64_t seed) {
  std::mt19937_64 random(seed * 7919);
  const auto pick = [&](std::uint64_t count) { return random() % count; };
  Plan plan;
  sim::FaultPlan& faults = plan.faults;
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
  return plan;
}

bool is_of_a_program(const Error& error) {
  return std::string(error.location.file) == FaultyProgram::kFile;
}
std::size_t node_at(SourceLoc place) {
  return place.line - FaultyProgram::line_of(0);
}
bool is_of_a_read(const Error& error) {
  return error.op == "readback" && !is_of_a_program(error);
}

/// What is wrong with what a program has seen; empty when nothing is.
class Judge {
 public:
  Judge(const FaultyProgram& program, const Plan& plan) : program_(program), plan_(plan) {}

  /// `submitted`: the ops of the sim with the faults.
  [[nodiscard]] std::vector<std::string> judge(std::uint64_t submitted) {
    for (const Observation& seen : program_.observations()) {
      if (seen.error) {
        look_at(seen);
      } else if (!seen.is_right) {
        say(seen.node, "has other values than the reference");
      }
    }
    if (plan_.loses || plan_.hangs) {
      judge_whole_device();
    } else {
      judge_poison();
      const std::size_t failures = failed_.size() + failed_reads_;
      if (failures > most_failures(submitted)) {
        wrong_.push_back(std::to_string(failures) + " ops failed by themselves, " +
                         std::to_string(most_failures(submitted)) + " were to");
      }
    }
    return wrong_;
  }

 private:
  void say(std::size_t node, const std::string& what) {
    wrong_.push_back("tensor " + std::to_string(node) + " " + what);
  }

  void look_at(const Observation& seen) {
    const Error& root = root_of(*seen.error);
    const bool is_planned = root.code == ErrorCode::out_of_memory ||
                            (plan_.loses && root.code == ErrorCode::device_lost) ||
                            root.text.find("as planned") != std::string::npos;
    if (!is_planned) {
      say(seen.node, "failed though nothing was planned: " + seen.error->to_string());
    }
    if (plan_.loses || plan_.hangs) {
      return;
    }
    if (is_of_a_read(root)) {
      ++failed_reads_;  // a view's bytes are put in order by an op of the read's own
      return;
    }
    if (!is_of_a_program(root) || !descends(seen.node, node_at(root.location))) {
      return say(seen.node, "is poisoned by something else: " + seen.error->to_string());
    }
    failed_.insert(node_at(root.location));
  }
  [[nodiscard]] bool descends(std::size_t node, std::size_t from) const {
    if (node == from) {
      return true;
    }
    for (const std::size_t operand : program_.nodes()[node].operands) {
      if (operand >= from && descends(operand, from)) {
        return true;
      }
    }
    return false;
  }

  // What failed by itself, and what comes from it.
  void judge_poison() {
    const std::vector<bool> poisoned =
        closure([this](std::size_t i) { return failed_.contains(i); });
    for (const Observation& seen : program_.observations()) {
      if (seen.error && is_of_a_read(root_of(*seen.error))) {
        continue;
      }
      if (poisoned[seen.node] != (seen.error != nullptr)) {
        say(seen.node, seen.error ? "is poisoned without a cause" : "has values, and no right to");
      }
    }
  }
  // The other device goes on; of one that was lost before the last look nothing is left.
  void judge_whole_device() {
    const std::vector<bool> touches =
        closure([this](std::size_t i) { return program_.nodes()[i].device == 0; });
    const std::size_t before = program_.observations().size() - program_.last_look().size();
    bool is_lost = false;
    for (std::size_t i = 0; i < program_.observations().size(); ++i) {
      const Observation& seen = program_.observations()[i];
      if (seen.error && !touches[seen.node]) {
        say(seen.node, "has nothing to do with the device that failed");
      }
      if (i < before) {
        is_lost = is_lost || (plan_.loses && seen.error);
      } else if (is_lost && !seen.error && program_.nodes()[seen.node].device == 0) {
        say(seen.node, "has outlived its device");
      }
    }
  }

  template <class Start>
  [[nodiscard]] std::vector<bool> closure(const Start& start) const {
    std::vector<bool> reached;
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      bool is_reached = start(i);
      for (const std::size_t operand : program_.nodes()[i].operands) {
        is_reached = is_reached || reached[operand];
      }
      reached.push_back(is_reached);
    }
    return reached;
  }

  [[nodiscard]] std::size_t most_failures(std::uint64_t submitted) const {
    const sim::FaultPlan& faults = plan_.faults;
    std::size_t most = faults.failing_compiles.size();
    most += faults.failing_allocation > 0
                ? static_cast<std::size_t>(faults.failing_allocation_count)
                : 0;
    for (const std::uint64_t submit : faults.failing_submits) {
      most += submit <= submitted ? 1 : 0;
    }
    return most;
  }

  const FaultyProgram& program_;
  const Plan& plan_;
  std::set<std::size_t> failed_;
  std::size_t failed_reads_ = 0;
  std::vector<std::string> wrong_;
};

struct Figures {
  std::uint64_t right = 0;
  std::uint64_t poisoned = 0;
  std::uint64_t ops = 0;
  std::uint64_t lost = 0;
  std::uint64_t hung = 0;

  void count(const FaultyProgram& program, const Plan& plan) {
    ops += program.nodes().size();
    bool has_error = false;
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

std::vector<std::string> run_program(std::uint64_t seed, const Plan& plan, Figures& figures) {
  std::vector<sim::SimBackend*> sims;
  const BackendFactory factory{
      .make = [&](const BackendRequest& request) -> std::unique_ptr<Backend> {
        if (!request.name.starts_with("sim:")) {
          return nullptr;
        }
        auto sim = std::make_unique<sim::SimBackend>(sim::SimOptions{
            .name = request.name,
            .faults = request.name == "sim:0" ? plan.faults : sim::FaultPlan{},
            .queues = 1 + static_cast<int>(seed % 3),
            .copy_engines = static_cast<int>(seed % 5 == 0),
            .reorder_seed = seed % 2 == 0 ? seed : 0,
            .effects = seed % 7 == 0 ? sim::Effects::at_end : sim::Effects::at_submit,
            .has_shadow = true});
        sims.push_back(sim.get());
        return sim;
      }};
  ManualExecutor executor(seed, {.max_steps = 1'000'000, .preempts_at_locks = true});
  std::vector<std::string> wrong;
  executor.run([&] {
    const Runtime runtime(
        {.devices = {{.name = "sim:0"}, {.name = "sim:1"}, {.name = "reference:0"}},
         .executor = &executor,
         .backend_factory = &factory});
    {
      FaultyProgram program({runtime.device("sim:0"), runtime.device("sim:1")},
                            runtime.device("reference:0"),
                            executor,
                            seed);
      program.run();
      wrong = Judge(program, plan).judge(sims.front()->submitted());
      figures.count(program, plan);
    }
    settle(runtime);
    for (const Device& device : runtime.devices()) {
      const MemoryStatistics memory = device.memory();
      if (memory.live_tensor_count != 0 || memory.live_bytes != 0) {
        wrong.push_back(device.name() + " keeps " + std::to_string(memory.live_tensor_count) +
                        " tensors, " + std::to_string(memory.live_bytes) + " bytes");
      }
    }
    for (const sim::SimBackend* sim : sims) {
      for (const sim::ShadowReport& report : sim->shadow_reports()) {
        wrong.push_back(sim->info().name + ": shadow memory: " + report.text);
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
    for (const std::string& wrong : run_program(seed, plan_of(seed), figures)) {
      ADD_FAILURE() << "seed " << seed << ": " << wrong;
    }
  }
  std::printf(
      "%lu programs, %lu tensors made, at the end %lu right and %lu poisoned; "
      "%lu devices lost, %lu hung\n",
      count,
      figures.ops,
      figures.right,
      figures.poisoned,
      figures.lost,
      figures.hung);
  EXPECT_GT(figures.right, figures.poisoned);
  EXPECT_GT(figures.poisoned, 0U);
}

// What the judge is for: a bit that turned over on its way out is seen.
TEST(RandomFaults, AWrongBitIsSeen) {
  Figures figures;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Plan plan{.faults = {.corrupted_downloads = {1, 2, 3}}};
    EXPECT_FALSE(run_program(seed, plan, figures).empty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hearth::testing
