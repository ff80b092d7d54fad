// Runtime::tune and the levels of RuntimeOptions::autotune, on a cpu device.
#include <hearth/runtime/all.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/autotune/tune_store.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/machine_load.hpp>

#include "runtime/client/ask.hpp"
#include "runtime/device/backend_factory.hpp"
#include "runtime/device/tuning/wanted_call.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using detail::CandidateId;
using detail::kRulePick;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// A cpu backend that notes the picks of its launches.
class Watched final : public testing::ForwardingBackend {
 public:
  struct Notes {
    std::vector<CandidateId> picks;  ///< Picks of products.
    bool refuses = false;            ///< Each pick but the rule.
  };
  Watched(std::unique_ptr<Backend> inner, Notes& notes)
      : ForwardingBackend(std::move(inner)), notes_(notes) {}

 private:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    if (launch.call.op.kind() == OpKind::matmul) {
      notes_.picks.push_back(launch.pick);
      if (notes_.refuses && launch.pick != kRulePick) {
        return {.status = Error{.code = ErrorCode::unsupported, .text = "refused"},
                .may_have_begun = false,
                .is_pick_refused = true};
      }
    }
    return ForwardingBackend::submit_one(launch, after);
  }
  Notes& notes_;
};

class Tune : public ::testing::Test {
 protected:
  std::unique_ptr<Runtime> open(std::optional<AutotuneLevel> level) {
    detail::BackendFactory factory;
    factory.make = [this](const BackendRequest& request) -> std::unique_ptr<Backend> {
      return std::make_unique<Watched>(make_backend(request).value(), notes);
    };
    return std::make_unique<Runtime>(
        RuntimeOptions{.devices = {{.name = "cpu:0"}}, .autotune = level}, factory);
  }
  // A product whose rule packs weights that a swapped product reads in place.
  static std::vector<float> run_product(const Runtime& runtime) {
    const Device device = runtime.device();
    std::vector<float> values(32 * 256);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 1.0F / static_cast<float>(i % 97 + 3);
    }
    const Tensor a = Tensor::from(device, values, Shape{32, 256});
    const Tensor b =
        Tensor::from(device, std::vector<float>(values.rbegin(), values.rend()), Shape{32, 256});
    return matmul(a, transpose(b)).to_vector<float>();
  }
  static WantedCalls wanted(const Runtime& runtime) {
    return *ask<AskWantedCalls>(runtime.device().endpoint(), std::nullopt, SourceLoc::current());
  }
  // Stores an entry with this pick for all calls without one.
  void store_pick(const Runtime& runtime, CandidateId pick, std::uint64_t text_hash) {
    const BackendInfo info =
        make_backend({.name = "cpu:0", .cores = runtime.device().cores()}).value()->info();
    detail::Log log;
    detail::TuneStore store =
        detail::TuneStore::open({.folder = folder.path() / "autotune",
                                 .fingerprint = detail::Fingerprint::of_text(info.fingerprint)},
                                log)
            .value();
    for (const WantedCall& call : wanted(runtime).calls) {
      store
          .merge({{.key = call.key,
                   .label = "product",
                   .ladder = {{.id = pick, .text_hash = text_hash},
                              {.id = kRulePick, .text_hash = text_hash}},
                   .tuned_at = detail::time_of_day()}},
                 {})
          .value();
    }
  }
  // The candidate behind the rule for a product of the runtime, and its text.
  detail::Candidate other_candidate() const {
    const auto backend = make_backend({.name = "cpu:0"}).value();
    const detail::Layout a(Shape{32, 256});
    Strides strides{};
    strides[0] = 1;
    strides[1] = 256;
    const detail::Layout b(Shape{256, 32}, strides);
    const detail::Layout c(Shape{32, 32});
    OpRecord record;
    record.kind = OpKind::matmul;
    record.input_count = 2;
    record.output_count = 1;
    const std::vector<TensorView> inputs{{.layout = &a}, {.layout = &b}};
    const std::vector<TensorView> outputs{{.layout = &c}};
    return backend->kernels()
        .candidates({.op = OpView(record, nullptr), .inputs = inputs, .outputs = outputs})
        .at(1);
  }

  const TemporaryFolder folder;
  const testing::EnvironmentVariable cache{"HEARTH_CACHE_DIR", folder.path().string()};
  Watched::Notes notes;
};

TEST_F(Tune, AStoredPickRunsAndKeepsTheBits) {
  std::vector<float> expected;
  const detail::Candidate other = other_candidate();
  {
    const auto runtime = open(AutotuneLevel::balanced);
    expected = run_product(*runtime);
    EXPECT_THAT(wanted(*runtime).calls, SizeIs(1));
    store_pick(*runtime, other.id, other.text_hash);
  }
  EXPECT_THAT(notes.picks, Each(kRulePick));
  for (const AutotuneLevel level : {AutotuneLevel::cached_only, AutotuneLevel::full}) {
    notes.picks.clear();
    const auto runtime = open(level);
    EXPECT_EQ(run_product(*runtime), expected);
    EXPECT_THAT(notes.picks, Contains(other.id));
    EXPECT_THAT(wanted(*runtime).calls, IsEmpty());
  }
}

TEST_F(Tune, APickOfAnotherTextIsNotUsed) {
  const detail::Candidate other = other_candidate();
  {
    const auto runtime = open(AutotuneLevel::balanced);
    static_cast<void>(run_product(*runtime));
    store_pick(*runtime, other.id, other.text_hash + 1);
  }
  const auto runtime = open(AutotuneLevel::cached_only);
  static_cast<void>(run_product(*runtime));
  EXPECT_THAT(notes.picks, AllOf(Not(IsEmpty()), Each(kRulePick)));
}

TEST_F(Tune, ARefusedPickFallsBackToTheRuleOnce) {
  const detail::Candidate other = other_candidate();
  std::vector<float> expected;
  {
    const auto runtime = open(AutotuneLevel::balanced);
    expected = run_product(*runtime);
    store_pick(*runtime, other.id, other.text_hash);
  }
  notes = {.picks = {}, .refuses = true};
  const auto runtime = open(AutotuneLevel::cached_only);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run_product(*runtime), expected);
  }
  EXPECT_EQ(std::ranges::count(notes.picks, other.id), 1);
  EXPECT_EQ(std::ranges::count(notes.picks, kRulePick), 3);
}

TEST_F(Tune, OffReadsNoPick) {
  const detail::Candidate other = other_candidate();
  {
    const auto runtime = open(AutotuneLevel::balanced);
    static_cast<void>(run_product(*runtime));
    store_pick(*runtime, other.id, other.text_hash);
  }
  const auto runtime = open(AutotuneLevel::off);
  static_cast<void>(run_product(*runtime));
  EXPECT_THAT(notes.picks, AllOf(Not(IsEmpty()), Each(kRulePick)));
  EXPECT_THAT(wanted(*runtime).calls, IsEmpty());
}

TEST_F(Tune, CachedOnlyWritesNothingAndRefusesTrials) {
  const auto runtime = open(AutotuneLevel::cached_only);
  static_cast<void>(run_product(*runtime));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "autotune"));
  try {
    runtime->tune(runtime->device());
    FAIL() << "no error";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tune: cpu:0 runs no trials: autotune is cached_only"));
  }
}

// The environment stands for the options that a program leaves open.
TEST_F(Tune, TheVariableGivesTheLevel) {
  const testing::EnvironmentVariable level("HEARTH_AUTOTUNE", "off");
  const auto runtime = open(std::nullopt);
  EXPECT_THROW(runtime->tune(runtime->device()), ArgumentError);
  const auto chosen = open(AutotuneLevel::minimal);
  EXPECT_NO_THROW(chosen->tune(chosen->device())) << "options come first";
}

// On a busy machine the trials have no verdict; then the call is left over or unclear.
TEST_F(Tune, TrialsEndAndChangeNoBit) {
  const auto runtime = open(AutotuneLevel::minimal);
  const std::vector<float> before = run_product(*runtime);
  const TuneReport report = runtime->tune(runtime->device(), 2s);
  EXPECT_EQ(report.tuned_count + report.left_count, 1) << report.to_string();
  EXPECT_EQ(run_product(*runtime), before);
  if (report.tuned_count == 1 && report.unclear_count == 0) {
    EXPECT_THAT(wanted(*runtime).calls, IsEmpty());
  }
}

TEST_F(Tune, ADeviceWithoutChoicesReturnsAtOnce) {
  const Runtime runtime({.devices = {{.name = "reference:0"}}});
  EXPECT_EQ(runtime.tune(runtime.device()).to_string(),
            "0 calls tuned, 0 faster, 0 unclear, 0 left");
  const Runtime other({.devices = {{.name = "reference:0"}}});
  EXPECT_THROW(runtime.tune(other.device()), ArgumentError);
}

}  // namespace
}  // namespace hearth
