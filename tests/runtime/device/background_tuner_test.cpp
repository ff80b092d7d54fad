// Trials beside a program, in virtual time, on backends whose candidates are planned.
#include "runtime/device/tuning/background_tuner.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/autotune/tune_store.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "runtime/device/backend_factory.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/runtime/stepped_runtime.hpp"
#include "tests/support/environment_variable.hpp"
#include "tuned_product.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using detail::Candidate;
using detail::CandidateId;
using detail::kRulePick;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::pass;
using testing::PlannedBackend;
using ::testing::SizeIs;

constexpr CandidateId kFast = 1;
constexpr CandidateId kWrong = 2;
constexpr CandidateId kWild = 3;
constexpr CandidateId kHanging = 4;
constexpr CandidateId kDeadly = 5;
constexpr int kDeadlyExit = 7;

// A program on a device with these candidates. Notes what runs, on the device and in trials.
class BackgroundTunerTest : public ::testing::Test {
 protected:
  struct Options {
    AutotuneLevel level = AutotuneLevel::balanced;
    bool deterministic = false;
  };

  void run(std::vector<CandidateId> ids,
           Options options,
           const std::function<void(const Runtime&)>& body) {
    candidates = {{.id = kRulePick, .bits = 1, .text_hash = 9, .name = "rule"}};
    for (const CandidateId id : ids) {
      candidates.push_back({.id = id, .bits = 1, .text_hash = 9, .name = "planned"});
    }
    opened = 0;
    detail::BackendFactory factory;
    factory.make = [this](const BackendRequest&) -> std::unique_ptr<Backend> {
      const bool is_trial = opened++ > 0;
      return std::make_unique<PlannedBackend>(candidates,
                                              [this, is_trial](const Launch& launch, Issue issue) {
                                                return plan(launch, std::move(issue), is_trial);
                                              });
    };
    executor.run([&] {
      const Runtime runtime({.devices = {{.name = "reference:0"}},
                             .deterministic = options.deterministic,
                             .autotune = options.level,
                             .executor = &executor},
                            factory);
      body(runtime);
    });
  }
  void run(std::vector<CandidateId> ids, const std::function<void(const Runtime&)>& body) {
    run(std::move(ids), Options(), body);
  }

  Issue plan(const Launch& launch, Issue issue, bool is_trial) {
    if (launch.call.op.kind() != OpKind::matmul) {
      return issue;
    }
    (is_trial ? tried : picked).push_back(launch.pick);
    std::byte* const result = launch.call.outputs[0].data;
    switch (launch.pick) {
      case kFast:
        pass(50us);
        break;
      case kWrong:
        result[0] ^= std::byte{1};
        break;
      case kWild:
        result[launch.call.outputs[0].element_count() * 4] ^= std::byte{1};
        break;
      case kHanging:
        while (true) {
          detail::current_context().parker().park(Deadline::never());
        }
      case kDeadly:
        std::_Exit(kDeadlyExit);
      default:
        pass(100us);
    }
    trial_time += is_trial ? (launch.pick == kFast ? 50us : 100us) : 0us;
    return issue;
  }

  static std::vector<float> product(const Runtime& runtime) {
    const Device device = runtime.device();
    const Tensor a = Tensor::from(device, std::vector<float>{1, 2, 3, 4, 5, 6}, Shape{2, 3});
    const Tensor b = Tensor::from(device, std::vector<float>{6, 5, 4, 3, 2, 1}, Shape{3, 2});
    return matmul(a, b).to_vector<float>();
  }
  [[nodiscard]] std::vector<detail::TuneEntry> stored() const {
    detail::Log log;
    return detail::TuneStore::open(
               {.folder = folder.path() / "autotune",
                .fingerprint = detail::Fingerprint::of_text(PlannedBackend::kFingerprint),
                .access = detail::TuneAccess::read},
               log)
        .value()
        .content()
        .entries;
  }
  [[nodiscard]] bool has_files() const {
    return std::filesystem::exists(folder.path() / "autotune");
  }

  const TemporaryFolder folder;
  const testing::EnvironmentVariable cache{"HEARTH_CACHE_DIR", folder.path().string()};
  const std::vector<float> expected{20, 14, 56, 41};
  ManualExecutor executor;
  std::vector<Candidate> candidates;
  int opened = 0;
  std::vector<CandidateId> picked;  ///< Picks of the device's launches.
  std::vector<CandidateId> tried;   ///< Picks of the trials' launches.
  std::chrono::microseconds trial_time{0};
};

TEST_F(BackgroundTunerTest, AnIdleDeviceFindsTheFasterCandidate) {
  run({kFast}, [&](const Runtime& runtime) {
    EXPECT_EQ(product(runtime), expected);
    EXPECT_EQ(picked.back(), kRulePick);
    pass(1min);
    EXPECT_EQ(product(runtime), expected);
    EXPECT_EQ(picked.back(), kFast);
  });
  ASSERT_THAT(stored(), SizeIs(1));
  EXPECT_EQ(stored()[0].ladder[0].id, kFast);
  tried.clear();
  run({kFast}, [&](const Runtime& runtime) {
    EXPECT_EQ(product(runtime), expected);
    EXPECT_EQ(picked.back(), kFast) << "the next run starts with it";
    pass(1min);
  });
  EXPECT_THAT(tried, IsEmpty());
}

// A burst of 20 ms, one step of at most 10, and 2 % of the time.
TEST_F(BackgroundTunerTest, TrialsKeepTheirBudget) {
  run({kFast}, [&](const Runtime& runtime) {
    static_cast<void>(product(runtime));
    for (int i = 1; i <= 40 && trial_time < 100ms; ++i) {
      pass(100ms);
      EXPECT_LE(trial_time, i * 2ms + 30ms);
    }
    EXPECT_GT(trial_time, 30ms) << "it goes on once the burst is spent";
  });
}

TEST_F(BackgroundTunerTest, WithoutAWantedCallTheThreadSleeps) {
  run({kFast}, [&](const Runtime& runtime) {
    static_cast<void>(product(runtime));
    pass(1min);
    const std::uint64_t steps = executor.step_count();
    const std::size_t runs = tried.size();
    pass(1h);
    EXPECT_LE(executor.step_count() - steps, 10U);
    EXPECT_EQ(tried.size(), runs);
  });
}

TEST_F(BackgroundTunerTest, ABusyDeviceHasNoTrials) {
  run({kFast}, [&](const Runtime& runtime) {
    for (int i = 0; i < 300; ++i) {
      static_cast<void>(product(runtime));
      pass(10ms);
    }
    EXPECT_THAT(tried, IsEmpty());
  });
}

TEST_F(BackgroundTunerTest, WrongAndWildCandidatesNeverWin) {
  run({kWrong, kWild, kFast}, [&](const Runtime& runtime) {
    for (int i = 0; i < 30; ++i) {
      EXPECT_EQ(product(runtime), expected);
      pass(1s);
    }
    EXPECT_EQ(picked.back(), kFast);
  });
  EXPECT_THAT(picked, Not(Contains(kWrong)));
  EXPECT_THAT(picked, Not(Contains(kWild)));
  ASSERT_THAT(stored(), SizeIs(1));
  EXPECT_THAT(stored()[0].quarantined, SizeIs(2));
}

// The device goes on; the runtime's end abandons the thread; the mark stays for the next start.
TEST_F(BackgroundTunerTest, AHangingCandidateHoldsUpNothing) {
  run({kHanging, kFast}, [&](const Runtime& runtime) {
    for (int i = 0; i < 30; ++i) {
      EXPECT_EQ(product(runtime), expected);
      pass(1s);
    }
    EXPECT_THAT(tried, Contains(kHanging));
  });
  EXPECT_THAT(picked, Each(kRulePick));
}

TEST_F(BackgroundTunerTest, ACandidateThatEndedTheProcessIsNeverTriedAgain) {
  EXPECT_EXIT(run({kDeadly, kFast},
                  [&](const Runtime& runtime) {
                    static_cast<void>(product(runtime));
                    pass(1min);
                  }),
              ::testing::ExitedWithCode(kDeadlyExit),
              "");
  run({kDeadly, kFast}, [&](const Runtime& runtime) {
    EXPECT_EQ(product(runtime), expected);
    pass(1min);
    EXPECT_EQ(product(runtime), expected);
    EXPECT_EQ(picked.back(), kFast);
    // Another call of the kind does not try it either.
    static_cast<void>(
        matmul(ones(runtime.device(), Shape{4, 3}), ones(runtime.device(), Shape{3, 2}))
            .to_vector<float>());
    pass(1min);
  });
  EXPECT_THAT(tried, Not(Contains(kDeadly)));
  ASSERT_THAT(stored(), SizeIs(2));
  for (const detail::TuneEntry& entry : stored()) {
    ASSERT_THAT(entry.quarantined, SizeIs(1));
    EXPECT_THAT(entry.quarantined[0].reason, HasSubstr("ended the process"));
    EXPECT_EQ(entry.ladder.front().id, kFast);
  }
}

TEST_F(BackgroundTunerTest, LevelsWithoutTrialsTryAndWriteNothing) {
  for (const AutotuneLevel level : {AutotuneLevel::off, AutotuneLevel::cached_only}) {
    run({kFast}, {.level = level}, [&](const Runtime& runtime) {
      static_cast<void>(product(runtime));
      pass(1min);
    });
    EXPECT_THAT(tried, IsEmpty());
    EXPECT_EQ(opened, 1);
    EXPECT_FALSE(has_files());
  }
}

TEST_F(BackgroundTunerTest, DeterministicRuntimesHaveNoTrials) {
  run({kFast}, {.deterministic = true}, [&](const Runtime& runtime) {
    static_cast<void>(product(runtime));
    pass(1min);
  });
  EXPECT_THAT(tried, IsEmpty());
  EXPECT_FALSE(has_files());
}

TEST_F(BackgroundTunerTest, MinimalTriesTwoCandidatesOfACall) {
  run({11, 12, 13}, {.level = AutotuneLevel::minimal}, [&](const Runtime& runtime) {
    static_cast<void>(product(runtime));
    pass(1min);
  });
  EXPECT_THAT(tried, Contains(11));
  EXPECT_THAT(tried, Contains(12));
  EXPECT_THAT(tried, Not(Contains(13)));
}

TEST_F(BackgroundTunerTest, AnEndDuringATrialDoesNotWait) {
  detail::TimePoint begin;
  run({kFast}, [&](const Runtime& runtime) {
    static_cast<void>(product(runtime));
    pass(50ms);
    EXPECT_THAT(tried, Not(IsEmpty()));
    begin = testing::now();
  });
  executor.run([&] { EXPECT_LT(testing::now() - begin, 1ms); });
}

}  // namespace
}  // namespace hearth
