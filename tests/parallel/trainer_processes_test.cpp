// A Trainer over several processes, which threads play here; mpirun_test has real ones.
#include <hearth/modules/evaluation_metric.hpp>
#include <hearth/parallel/trainer.hpp>

#include "digits_run.hpp"
#include "fake_network.hpp"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;

TEST(TrainerProcesses, WithDifferentSettingsAreRejected) {
  struct Case {
    std::function<void(TrainerOptions&)> change;  // in process 1
    std::string words;
  };
  const std::vector<Case> cases{
      {[](TrainerOptions& options) { options.early_stopping->min_change = 0.5; },
       "has early stopping after 3 epochs without a change of 0.5, process 0"},
      {[](TrainerOptions& options) { options.drop_last = true; }, "has drop_last on, process 0"},
      {[](TrainerOptions& options) { options.metrics.front().name = "hits"; },
       "has metric hits, process 0"},
  };
  const ImageDataset data(make_digits({.count = 24}));
  for (const Case& each : cases) {
    testing::FakeNetwork network(2);
    testing::as_processes(network, 2, [&](const ProcessGroup& group) {
      const Runtime runtime(testing::cpu_devices(1));
      TrainerOptions options{.epochs = 1, .batch_size = 12};
      options.metrics = {accuracy_metric()};
      options.early_stopping = EarlyStopping{.patience = 3};
      options.console.style = ConsoleStyle::silent;
      options.parallel.processes = group;
      if (!group.is_first()) {
        each.change(options);
      }
      std::string error = "no error";
      try {
        Trainer<testing::DigitNet> trainer(
            runtime, testing::DigitNet(runtime.device()), testing::kLoss, options);
        static_cast<void>(trainer.fit(data, data));
      } catch (const Exception& exception) {
        error = exception.error().text;
      }
      EXPECT_THAT(error, HasSubstr(each.words)) << "process " << group.rank();
    });
  }
}

}  // namespace
}  // namespace hearth
