// Optimizers on an asynchronous device: steps are submitted before the host knows whether earlier
// ones happen, and the counts are right.
#include <hearth/modules/adadelta.hpp>
#include <hearth/modules/adagrad.hpp>
#include <hearth/modules/lamb.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/lion.hpp>
#include <hearth/modules/muon.hpp>
#include <hearth/modules/nadam.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/radam.hpp>
#include <hearth/modules/rms_prop.hpp>
#include <hearth/modules/training_state.hpp>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"

namespace hearth {
namespace {

using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::Not;

RuntimeOptions asynchronous(FaultPlan faults = {}) {
  return {.devices = {{.name = "sim:0",
                       .faults = std::move(faults),
                       .sim_schedule = SimSchedule{.queues = 2, .reorder_seed = 3, .cost_seed = 3}},
                      {.name = "reference:0"}},
          .wait_limit = std::chrono::seconds(10)};
}

struct TwoHeads {
  Linear first, second;
  TwoHeads(const Device& device, Generator& generator)
      : first({.in = 4, .out = 3}, device, generator),
        second({.in = 4, .out = 3}, device, generator) {}
  HEARTH_MODULE(TwoHeads, first, second)
};

/// A model, its optimizer, and steps that depend only on their number.
struct Training {
  Device device;
  Generator generator{1};
  TwoHeads net;
  Optimizer optimizer;

  Training(Device on, Optimizer by)
      : device(std::move(on)), net(device, generator), optimizer(std::move(by)) {}

  static bool is_good(int number) { return number % 4 != 2; }
  /// Some steps have a label outside the classes, some omit the second head.
  [[nodiscard]] Gradients gradients(int number) const {
    const Tensor x = reshape(arange(device, 0, 8, 1), {2, 4}) * (0.1 * (number + 1));
    const std::int64_t label = is_good(number) ? number % 3 : 3;
    auto [loss, gradients] = value_and_grad(net, [&](const TwoHeads& tracked) {
      Tensor y = tracked.first.forward(x);
      if (number % 3 != 1) {
        y = y + tracked.second.forward(x);
      }
      return cross_entropy(y, Tensor::from(device, std::vector{label, std::int64_t{0}}, {2}));
    });
    return std::move(gradients);
  }
  void run(int begin, int end) {
    std::vector<Pending<StepReport>> reports;
    for (int number = begin; number < end; ++number) {
      reports.push_back(optimizer.step(net, gradients(number)));
    }
    std::int64_t happened = optimizer.step_count();
    for (int number = end; number-- > begin;) {
      const Pending<StepReport>& report = reports[static_cast<std::size_t>(number - begin)];
      ASSERT_EQ(report.wait().has_value(), is_good(number)) << "step " << number;
      if (is_good(number)) {
        EXPECT_EQ(std::move(reports[static_cast<std::size_t>(number - begin)]).get().step,
                  happened--);
      }
    }
  }
  [[nodiscard]] std::vector<std::vector<float>> weights() const {
    std::vector<std::vector<float>> all;
    net.visit("", [&](const std::string&, const Tensor& tensor) {
      all.push_back(tensor.to_vector<float>());
    });
    return all;
  }
};

std::vector<Optimizer> optimizers() {
  const std::vector<ParameterGroup> groups{{.match = "second.*", .rate_factor = 0.5}};
  std::vector<Optimizer> all;
  all.emplace_back(Sgd({.learning_rate = 0.1}));
  all.emplace_back(Sgd({.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5}));
  all.emplace_back(Sgd({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}));
  all.emplace_back(Adam({.learning_rate = 0.1, .weight_decay = 0.1}));
  all.emplace_back(AdamW({.learning_rate = 0.1, .groups = groups}));
  all.emplace_back(RmsProp({.learning_rate = 0.1, .momentum = 0.5, .centered = true}));
  all.emplace_back(Adagrad({.learning_rate = 0.1, .rate_decay = 0.5}));
  all.emplace_back(Adadelta({}));
  all.emplace_back(RAdam({.learning_rate = 0.1, .beta2 = 0.7}));
  all.emplace_back(NAdam({.learning_rate = 0.1}));
  all.emplace_back(Lion({.learning_rate = 0.1}));
  all.emplace_back(Lamb({.learning_rate = 0.1, .groups = groups}));
  all.emplace_back(Muon({.learning_rate = 0.1, .groups = groups}));
  return all;
}

TEST(AsyncSteps, SkippedStepsCountForNothingAsWhereTheHostCounts) {
  for (std::size_t kind = 0; kind < optimizers().size(); ++kind) {
    SCOPED_TRACE("optimizer " + std::to_string(kind));
    const Runtime runtime(asynchronous());
    Training there(runtime.device("sim:0"), std::move(optimizers()[kind]));
    Training here(runtime.device("reference:0"), std::move(optimizers()[kind]));
    there.run(0, 14);
    here.run(0, 14);
    EXPECT_EQ(there.weights(), here.weights());
    EXPECT_EQ(there.optimizer.step_count(), 11);
    EXPECT_EQ(there.optimizer.skipped_steps(), here.optimizer.skipped_steps());
    EXPECT_THAT(there.optimizer.skipped_steps(), Not(IsEmpty()));
  }
}

TEST(AsyncSteps, AStateIsSavedAndLoadedWhereverTheStepsAreCounted) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "async_steps.safetensors";
  for (std::size_t kind = 0; kind < optimizers().size(); ++kind) {
    SCOPED_TRACE("optimizer " + std::to_string(kind));
    const Runtime runtime(asynchronous());
    Training whole(runtime.device("reference:0"), std::move(optimizers()[kind]));
    whole.run(0, 14);
    for (const char* const before : {"sim:0", "reference:0"}) {
      for (const char* const after : {"sim:0", "reference:0"}) {
        Training first(runtime.device(before), std::move(optimizers()[kind]));
        first.run(0, 7);
        save_training(first.net, first.optimizer, {}, file);
        Training second(runtime.device(after), std::move(optimizers()[kind]));
        second.optimizer.prepare(second.net);
        static_cast<void>(load_training(second.net, second.optimizer, file));
        second.run(7, 14);
        EXPECT_EQ(second.weights(), whole.weights()) << before << " to " << after;
      }
    }
  }
}

// A step that waited for the previous one would wait for the hung op, up to the limit, and throw.
TEST(AsyncSteps, NoStepWaitsForTheOneBefore) {
  for (std::size_t kind = 0; kind < optimizers().size(); ++kind) {
    const Runtime runtime(asynchronous({.hanging_submit = 12}));
    Training training(runtime.device("sim:0"), std::move(optimizers()[kind]));
    std::vector<Pending<StepReport>> reports;
    for (const int number : {0, 1, 3, 4}) {
      reports.push_back(training.optimizer.step(training.net, training.gradients(number)));
    }
    for (const Pending<StepReport>& report : reports) {
      EXPECT_FALSE(report.is_ready()) << "optimizer " << kind;
    }
    training.device.restart();
    for (const Pending<StepReport>& report : reports) {
      EXPECT_EQ(report.wait().error().code, ErrorCode::device_lost);
    }
  }
}

TEST(AsyncSteps, ALostStepThatNobodyReadIsThrownByTheNextOnceItIsKnown) {
  const Runtime runtime(asynchronous());
  Training training(runtime.device("sim:0"), Adam({.learning_rate = 0.1}));
  for (const int number : {0, 1, 2}) {
    static_cast<void>(training.optimizer.step(training.net, training.gradients(number)));
  }
  EXPECT_EQ(training.optimizer.step_count(), 2) << "waits, and reads nothing";
  const auto before = training.weights();
  try {
    static_cast<void>(training.optimizer.step(training.net, training.gradients(3)));
    FAIL() << "a step was lost, and nobody knows";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_range);
    ASSERT_NE(error.error().cause, nullptr);
    EXPECT_THAT(error.error().cause->op, ::testing::StartsWith("cross_entropy"));
    EXPECT_THAT(error.error().cause->location.file, EndsWith("async_steps_test.cpp"));
  }
  EXPECT_EQ(training.weights(), before) << "the step that threw changed nothing";
  EXPECT_EQ(training.optimizer.step(training.net, training.gradients(3)).get().step, 3);
}

// The state tensors of an optimizer whose first step was lost are made anew, but not while a later
// step with them is in flight.
TEST(AsyncSteps, AFirstStepThatIsLostCostsLaterOnesNothing) {
  const Runtime runtime(asynchronous());
  Training there(runtime.device("sim:0"), Adam({.learning_rate = 0.1}));
  Training here(runtime.device("reference:0"), Adam({.learning_rate = 0.1}));
  for (Training* const each : {&there, &here}) {
    each->run(2, 3);
    each->run(2, 9);
  }
  EXPECT_EQ(there.weights(), here.weights());
}

}  // namespace
}  // namespace hearth
