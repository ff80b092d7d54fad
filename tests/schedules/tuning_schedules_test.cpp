// Programs on a device that tries its kernels meanwhile, under many schedules. Each value is right,
// no planted candidate is ever picked, and each run ends.
#include "tests/support/explore.hpp"

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/device/backend_factory.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/runtime/device/tuned_product.hpp"
#include "tests/support/environment_variable.hpp"

namespace hearth::testing {
namespace {

using namespace std::chrono_literals;
using detail::CandidateId;
using detail::kRulePick;

constexpr CandidateId kFast = 1;
constexpr CandidateId kWrong = 2;
constexpr CandidateId kWild = 3;
constexpr CandidateId kHanging = 4;

void let_pass(std::chrono::nanoseconds time) {
  for (const Deadline end = Deadline::in(time); !end.has_passed();) {
    detail::current_context().parker().park(end);
  }
}

/// A device with these candidates; `picked` receives what its program runs.
detail::BackendFactory planned(std::vector<CandidateId> ids, std::vector<CandidateId>& picked) {
  std::vector<detail::Candidate> list{{.id = kRulePick, .bits = 1, .text_hash = 9, .name = "rule"}};
  for (const CandidateId id : ids) {
    list.push_back({.id = id, .bits = 1, .text_hash = 9, .name = "planned"});
  }
  const auto plan = [&picked](bool is_trial, const Launch& launch, Issue issue) {
    if (launch.call.op.kind() != OpKind::matmul) {
      return issue;
    }
    if (!is_trial) {
      picked.push_back(launch.pick);
    }
    std::byte* const result = launch.call.outputs[0].data;
    let_pass(launch.pick == kFast ? 50us : 100us);
    if (launch.pick == kWrong) {
      result[0] ^= std::byte{1};
    } else if (launch.pick == kWild) {
      result[-1] ^= std::byte{1};
    }
    while (launch.pick == kHanging) {
      detail::current_context().parker().park(Deadline::never());
    }
    return issue;
  };
  return {.make = [list, plan, opened = 0](const BackendRequest&) mutable {
    const bool is_trial = opened++ > 0;
    return std::make_unique<PlannedBackend>(list,
                                            [plan, is_trial](const Launch& launch, Issue issue) {
                                              return plan(is_trial, launch, std::move(issue));
                                            });
  }};
}

void multiply(const Device& device, int times, std::chrono::nanoseconds pause) {
  for (int i = 0; i < times; ++i) {
    const Tensor a = Tensor::from(device, std::vector<float>{1, 2, 3, 4, 5, 6}, Shape{2, 3});
    const Tensor b = Tensor::from(device, std::vector<float>{6, 5, 4, 3, 2, 1}, Shape{3, 2});
    require(matmul(a, b).to_vector<float>() == std::vector<float>{20, 14, 56, 41}, "a product");
    let_pass(pause);
  }
}

/// Two threads multiply, one with pauses in which trials run.
void work_beside_trials(ManualExecutor& executor,
                        std::vector<CandidateId> ids,
                        std::vector<CandidateId>& picked) {
  const TemporaryFolder folder;
  const EnvironmentVariable cache("HEARTH_CACHE_DIR", folder.path().string());
  const Runtime runtime({.devices = {{.name = "reference:0"}},
                         .autotune = AutotuneLevel::balanced,
                         .executor = &executor},
                        planned(std::move(ids), picked));
  const Device device = runtime.device();
  const auto other = executor.spawn({.name = "other"}, [device] { multiply(device, 6, 60ms); });
  multiply(device, 6, 3s);
  other->join();
}

ExploreOptions options(std::string name) {
  return {.name = std::move(name), .schedules = 25};
}

TEST(TuningSchedules, TrialsChangeNoValueAndFindTheFasterCandidate) {
  const Exploration found = explore(options("trials"), [](ManualExecutor& executor) {
    std::vector<CandidateId> picked;
    work_beside_trials(executor, {kWrong, kWild, kFast}, picked);
    require(std::ranges::count(picked, kWrong) + std::ranges::count(picked, kWild) == 0,
            "a planted candidate ran in the program");
    require(picked.back() == kFast, "the faster candidate was not found");
  });
  EXPECT_FALSE(found.failure.has_value()) << found.failure->text;
}

TEST(TuningSchedules, AHangingCandidateHoldsUpNoProgram) {
  const Exploration found = explore(options("hang"), [](ManualExecutor& executor) {
    std::vector<CandidateId> picked;
    work_beside_trials(executor, {kHanging, kFast}, picked);
    require(std::ranges::count(picked, kRulePick) == std::ranges::ssize(picked),
            "a device whose trials hang follows its rule");
  });
  EXPECT_FALSE(found.failure.has_value()) << found.failure->text;
}

// The runtime ends at any moment of a trial, also of its first steps.
TEST(TuningSchedules, ARunEndsAtAnyMomentOfATrial) {
  const Exploration found = explore(options("end"), [](ManualExecutor& executor) {
    for (const auto pause : {1ms, 21ms, 25ms, 60ms, 300ms}) {
      std::vector<CandidateId> picked;
      const TemporaryFolder folder;
      const EnvironmentVariable cache("HEARTH_CACHE_DIR", folder.path().string());
      const Runtime runtime({.devices = {{.name = "reference:0"}},
                             .autotune = AutotuneLevel::full,
                             .executor = &executor},
                            planned({kWrong, kFast}, picked));
      multiply(runtime.device(), 1, pause);
    }
  });
  EXPECT_FALSE(found.failure.has_value()) << found.failure->text;
}

}  // namespace
}  // namespace hearth::testing
