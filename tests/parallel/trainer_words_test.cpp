// The output of a Trainer's run: its lines, its figures and its report, and resuming with other
// settings.
#include <hearth/parallel/trainer.hpp>

#include "digits_run.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/modules/flatten.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/runtime/trace_scope.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::int64_t count_of(std::string_view part, std::string_view text) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

/// A run in a folder, and its output.
struct SpokenRun {
  explicit SpokenRun(const std::filesystem::path& folder) : options(digits.options) {
    options.folder = folder;
    options.console = {.style = ConsoleStyle::plain, .out = file.get()};
  }
  TrainingResult fit() const { return digits.fit(options); }
  [[nodiscard]] std::string text() const {
    std::rewind(file.get());
    std::string all(8192, '\0');
    all.resize(std::fread(all.data(), 1, all.size(), file.get()));
    return all;
  }
  [[nodiscard]] std::string refusal() const {
    try {
      static_cast<void>(fit());
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "nothing was refused";
  }
  [[nodiscard]] std::string report() const { return text_of(options.folder / "report.html"); }

  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::tmpfile(), std::fclose};
  Digits digits;
  TrainerOptions options;
};

TEST(TrainerWords, AFigureThatTwoMetricsHaveIsShownOnce) {
  const TemporaryFolder folder;
  SpokenRun run(folder.path() / "run");
  run.options.metrics = {top_k_metric(3), accuracy_metric(), confusion_metric(10)};
  run.options.watch = "accuracy";
  Trainer<DigitNet> trainer = run.digits.trainer(run.options);
  const TrainingResult result = trainer.fit(run.digits.train, run.digits.test);
  ASSERT_EQ(result.history.metrics.size(), 2U);
  EXPECT_EQ(result.history.metrics[1].name, "accuracy");
  const std::vector<double> all = trainer.evaluate(run.digits.test).metrics;
  ASSERT_EQ(all.size(), 3U) << "evaluate() has them all";
  const std::vector<double>& last = result.history.epochs.back().metrics;
  EXPECT_EQ(last, (std::vector<double>{all[0], all[1]}));
  EXPECT_EQ(result.best_value,
            std::ranges::max(result.history.epochs, {}, [](const EpochRecord& epoch) {
              return epoch.metrics[1];
            }).metrics[1]);
  const std::string line = run.text().substr(0, run.text().find('\n'));
  EXPECT_EQ(count_of("  accuracy ", line), 1) << line;
  EXPECT_THAT(text_of(run.options.folder / "metrics.csv"),
              StartsWith("epoch,train_loss,validation_loss,top-3 accuracy,accuracy,first_"));
  EXPECT_EQ(count_of("<th>accuracy</th>", run.report()), 1);
  EXPECT_EQ(count_of("<title>Accuracy</title>", run.report()), 1);
  EXPECT_THAT(run.report(), HasSubstr("<th>9</th>")) << "the table is there";
}

TEST(TrainerWords, MetricsWithoutValidationDataAreMissedInALine) {
  const TemporaryFolder folder;
  SpokenRun run(folder.path());
  run.options.metrics = {accuracy_metric()};
  static_cast<void>(run.digits.trainer(run.options).fit(run.digits.train));
  EXPECT_EQ(count_of("there are no validation data: no metrics are computed", run.text()), 1);
  static_cast<void>(run.fit());
  EXPECT_EQ(count_of("there are no validation data", run.text()), 1) << "the second run has some";
}

TEST(TrainerWords, ALossThatIsNoNumberNamesItsBatches) {
  const auto refusal = [](std::int64_t accumulate, int batch) {
    Digits digits;
    TrainerOptions options = digits.options;
    options.accumulate = accumulate;
    const auto loss = [left = std::make_shared<int>(batch)](const Tensor& outputs,
                                                            const Tensor& targets) {
      return cross_entropy(outputs, targets) * (--*left == 0 ? std::nan("") : 1);
    };
    Trainer<DigitNet> trainer(digits.runtime, DigitNet(options.devices.front()), loss, options);
    try {
      trainer.fit(digits.train);
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), ErrorCode::non_finite);
      return error.error().text;
    }
    return std::string("nothing was refused");
  };
  EXPECT_EQ(refusal(1, 10),
            "step 10: the loss of rank 0 on cpu:0 is nan, from batch 3 of 7 in epoch 2: look at "
            "inputs and targets there, or lower the learning rate");
  EXPECT_THAT(refusal(2, 10), HasSubstr("step 6: "));
  EXPECT_THAT(refusal(2, 10), HasSubstr("from batches 3 to 4 of 7 in epoch 2: "));
  EXPECT_THAT(refusal(2, 7), HasSubstr("from batch 7 of 7 in epoch 1: "));
}

TEST(TrainerWords, AMetricWithoutANameOrAFunctionIsRefused) {
  Digits digits;
  const auto refusal = [&](const EvaluationMetric& metric) {
    TrainerOptions options = digits.options;
    options.metrics = {accuracy_metric(), metric};
    try {
      static_cast<void>(digits.trainer(options));
    } catch (const ArgumentError& error) {
      return error.error().text;
    }
    return std::string("nothing was refused");
  };
  EvaluationMetric metric = accuracy_metric();
  metric.name = {};
  EXPECT_EQ(refusal(metric), "Trainer: metric 2 has no name");
  EXPECT_EQ(refusal({.name = "x", .measure = nullptr, .value = nullptr}),
            "Trainer: the metric 'x' has no function measure: one of your own needs measure and "
            "value");
  metric.name = "y";
  metric.value = {};
  EXPECT_THAT(refusal(metric), HasSubstr("the metric 'y' has no function value: "));
}

TEST(TrainerWords, TwoFiguresOfOneNameAreRefused) {
  const TemporaryFolder folder;
  SpokenRun run(folder.path() / "run");
  run.options.metrics = {accuracy_metric(), f1_metric(10), binary_f1_metric()};
  EXPECT_THAT(run.refusal(),
              HasSubstr("metrics 2 and 3 are both called 'F1', but are not the same figure: give "
                        "one another name"));
  EvaluationMetric own = accuracy_metric();
  own.figure = {};
  run.options.metrics = {own, own};
  EXPECT_THAT(run.refusal(), HasSubstr("metrics 1 and 2 are both called 'accuracy'"));
}

TEST(TrainerWords, TheReportBeginsWithWhatTheRunIsMadeOf) {
  const TemporaryFolder folder;
  SpokenRun run(folder.path() / "run");
  run.options.optimizer = Sgd::Config{.learning_rate = 0.02, .momentum = 0.9};
  run.options.schedule = CosineRate{.end = 0.1, .warmup_steps = 3};
  run.options.clip = {.max_norm = 5};
  run.options.notes = {{"author", "me"}};
  static_cast<void>(run.fit());
  const std::string report = run.report();
  for (const char* fact : {"<b>state</b>finished",
                           "<b>epochs</b>3 of 3",
                           "<b>optimizer</b>Sgd with momentum 0.9, learning rate 0.02",
                           "<b>schedule</b>cosine to 0.1, 3 steps of warm-up",
                           "<b>gradient clipping</b>norm 5",
                           "<b>device</b>cpu:0",
                           "<b>batch size</b>10",
                           "<b>training data</b>64 examples",
                           "<b>validation data</b>30 examples",
                           "<b>seed</b>5",
                           "<b>author</b>me"}) {
    EXPECT_THAT(report, HasSubstr(fact));
  }
  EXPECT_THAT(report, ContainsRegex("<b>best epoch</b>[1-3], validation loss [0-9.]+<"));
}

// A layer knows its tensors as "weight" and "bias"; a trace uses their names in the whole model.
TEST(TrainerWords, CopiesForTheDevicesCountToTheirLayers) {
  const TemporaryFolder folder;
  const Runtime runtime(cpu_devices(2));
  Generator generator(1);
  const Device first = runtime.device("cpu:0");
  const Sequential model(Flatten(), Linear({.in = 784, .out = 10}, first, generator));
  {
    const TraceScope trace(runtime, folder.path() / "copies.json");
    const Trainer trainer(runtime, model, kLoss, {.console = {.style = ConsoleStyle::silent}});
  }
  const std::string text = text_of(folder.path() / "copies.json");
  EXPECT_THAT(text, HasSubstr(R"("layer":"1","tensor":"1.weight")"));
  EXPECT_THAT(text, Not(HasSubstr(R"("layer":"weight")")));
}

TEST(TrainerWords, ARunEndsWithALineOfWhatCameOfIt) {
  const TemporaryFolder folder;
  SpokenRun run(folder.path() / "run");
  static_cast<void>(run.fit());
  EXPECT_THAT(run.text(),
              ContainsRegex("\nfinished in [0-9.]+ s; best: validation loss [0-9.]+ in epoch "
                            "[1-3]\nweights and report: "));
  SpokenRun stuck(folder.path() / "stuck");
  stuck.options.optimizer = Sgd::Config{.learning_rate = 0};
  stuck.options.early_stopping = EarlyStopping{.patience = 2};
  stuck.options.epochs = 9;
  static_cast<void>(stuck.fit());
  EXPECT_THAT(stuck.text(),
              HasSubstr("\nstopped early: the validation loss has not improved for 2 epochs; best: "
                        "validation loss "));
}

TEST(TrainerWords, CtrlCAtTheEndOfAnEpochIsSaidOnce) {
  const TemporaryFolder folder;
  for (const bool is_in_last_batch : {false, true}) {
    SpokenRun run(folder.path() / (is_in_last_batch ? "batch" : "epoch"));
    TrainerCallback callback;
    if (is_in_last_batch) {
      callback.on_step = [](const TrainingStep& step, RunControl&) {
        if (step.place.batch == step.place.batch_count) {
          std::raise(SIGINT);
        }
      };
    } else {
      callback.on_epoch = [](const EpochRecord&, RunControl&) { std::raise(SIGINT); };
    }
    run.options.callbacks = {callback};
    const TrainingResult result = run.fit();
    EXPECT_EQ(result.reason, EndReason::interrupted);
    EXPECT_EQ(result.ended_at->batch, 7);
    const std::string text = run.text();
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    EXPECT_THAT(text, StartsWith("epoch 1/3 interrupted after 7 of 7 batches, saved:  loss "));
    EXPECT_EQ(count_of("validation loss", text), is_in_last_batch ? 0 : 1);
  }
}

/// One epoch, and then options for more.
struct ChangedRun : SpokenRun {
  explicit ChangedRun(const std::filesystem::path& folder) : SpokenRun(folder) {
    options.epochs = 2;
    options.callbacks = {
        {.on_epoch = [](const EpochRecord&, RunControl& control) { control.stop = true; }}};
    static_cast<void>(fit());
    options.callbacks = {};
    options.resume = true;
  }
  [[nodiscard]] std::string resumed() const {
    static_cast<void>(fit());
    const std::string all = text();
    const std::size_t begin = all.find("resumed");
    return begin == all.npos ? all : all.substr(begin, all.find('\n', begin) - begin);
  }
};

TEST(TrainerWords, ARunThatGoesOnWithOtherSettingsSaysWhich) {
  const TemporaryFolder folder;
  int number = 0;
  const auto said_with = [&](auto change) {
    ChangedRun run(folder.path() / std::to_string(number++));
    change(run.options);
    return run.resumed();
  };
  EXPECT_EQ(said_with([](TrainerOptions&) {}), "resumed at epoch 2, batch 1");
  EXPECT_EQ(
      said_with([](TrainerOptions& o) { o.optimizer = Adam::Config{.learning_rate = 0.001}; }),
      "resumed at epoch 2, batch 1; learning rate 0.001 instead of the saved run's 0.005");
  EXPECT_EQ(said_with([](TrainerOptions& o) {
              o.epochs = 3;
              o.schedule = CosineRate{};
            }),
            "resumed at epoch 2, batch 1; epochs 3 instead of the saved run's 2; schedule cosine "
            "to 0 instead of the saved run's constant");
  EXPECT_EQ(said_with([](TrainerOptions& o) {
              o.optimizer = Adam::Config{.learning_rate = 5e-3, .decoupled = true};
            }),
            "resumed at epoch 2, batch 1; decoupled on instead of the saved run's off");
  EXPECT_EQ(said_with([](TrainerOptions& o) {
              o.optimizer = Adam::Config{.learning_rate = 5e-3,
                                         .weight_decay = 0.5,
                                         .groups = {{.match = "*.bias", .weight_decay = 0}}};
              o.clip = {.max_norm = 1};
            }),
            "resumed at epoch 2, batch 1; weight decay 0.5 instead of the saved run's 0; parameter "
            "groups *.bias, weight decay 0 instead of the saved run's none; clip norm 1 instead of "
            "the saved run's none");
}

TEST(TrainerWords, ARunThatGoesOnHasTheNewLearningRate) {
  const TemporaryFolder folder;
  ChangedRun run(folder.path() / "run");
  run.options.optimizer = Adam::Config{.learning_rate = 0.125};
  const TrainingResult result = run.fit();
  EXPECT_EQ(result.history.epochs.at(0).last_learning_rate, 0.005);
  EXPECT_EQ(result.history.epochs.at(1).first_learning_rate, 0.125);
}

TEST(TrainerWords, ARunDoesNotGoOnInTheMiddleOfAnEpochOfOtherData) {
  const TemporaryFolder folder;
  SpokenRun run(folder.path() / "run");
  run.options.callbacks = {{.on_step = [](const TrainingStep& step, RunControl& control) {
    control.stop = step.step == 3;
  }}};
  static_cast<void>(run.fit());
  run.options.callbacks = {};
  run.options.resume = true;
  const ImageDataset more(make_digits({.count = 85}));
  const auto fit_on = [&](const Dataset& data) {
    return run.digits.trainer(run.options).fit(data, run.digits.test);
  };
  const auto refusal_of = [&](const Dataset& data) -> std::string {
    try {
      static_cast<void>(fit_on(data));
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "other data in the middle of an epoch";
  };
  EXPECT_THAT(refusal_of(more),
              HasSubstr("was stopped after batch 3 of an epoch of other data: batches an epoch 7, "
                        "and here 9; it can only go on behind a whole epoch"));
  const std::int64_t count = run.digits.train.size();
  const ImageDataset as_many_batches(make_digits({.count = count == 66 ? 65 : 66}));
  EXPECT_THAT(refusal_of(as_many_batches),
              HasSubstr(fmt::format("training examples {}, and here", count)));
  static_cast<void>(run.fit());
  // Possible after whole epochs.
  run.options.epochs = 4;
  EXPECT_EQ(fit_on(more).history.epochs.back().sample_count, 85);
  EXPECT_THAT(run.text(), HasSubstr("; batches an epoch 9 instead of the saved run's 7"));
}

TEST(TrainerWords, ARunThatStoppedBehindTheLastBatchGoesOnWithOtherData) {
  const TemporaryFolder folder;
  SpokenRun run(folder.path() / "run");
  run.options.callbacks = {{.on_step = [](const TrainingStep& step, RunControl& control) {
    control.stop = step.step == 7;
  }}};
  static_cast<void>(run.fit());
  run.options.callbacks = {};
  run.options.resume = true;
  run.options.epochs = 2;
  for (const int examples : {85, 45}) {
    SCOPED_TRACE(examples);
    std::filesystem::remove_all(folder.path() / "copy");
    std::filesystem::copy(
        folder.path() / "run", folder.path() / "copy", std::filesystem::copy_options::recursive);
    run.options.folder = folder.path() / "copy";
    const ImageDataset other(make_digits({.count = examples}));
    const TrainingResult result = run.digits.trainer(run.options).fit(other, run.digits.test);
    ASSERT_EQ(result.history.epochs.size(), 2U);
    EXPECT_EQ(result.history.epochs[0].sample_count, run.digits.train.size());
    EXPECT_EQ(result.history.epochs[1].sample_count, examples);
    EXPECT_THAT(run.text(), HasSubstr("resumed at the end of epoch 1"));
  }
}

TEST(TrainerWords, AStateOfAnEarlierBuildThatSaysNoSettingsIsResumed) {
  const TemporaryFolder folder;
  ChangedRun run(folder.path() / "run");
  run.options.optimizer = Adam::Config{.learning_rate = 0.25};
  const std::filesystem::path file = run.options.folder / "training.safetensors";
  {
    Trainer<DigitNet> trainer = run.digits.trainer(run.options);
    TrainingProgress progress = trainer.parallel().load(file);
    std::string& state = progress.notes.at("trainer.state");
    const std::size_t begin = state.find(R"("settings":)");
    ASSERT_NE(begin, std::string::npos);
    state.erase(begin, state.find(R"("steps":)", begin) - begin);
    trainer.parallel().save(file, progress);
  }
  EXPECT_EQ(run.resumed(), "resumed at epoch 2, batch 1");
}

TEST(TrainerWords, WhatCannotGoOnIsRefusedWithBothValues) {
  const TemporaryFolder folder;
  ChangedRun run(folder.path() / "run");
  run.options.batch_size = 20;
  EXPECT_THAT(run.refusal(),
              HasSubstr("had batch_size 10, this one has 20: resume it with the same, or begin a "
                        "new one in another folder, or without resume"));
  EXPECT_THAT(run.text(), Not(HasSubstr("resumed")));
  run.options.batch_size = 10;
  run.options.average_decay = 0.9;
  EXPECT_THAT(run.refusal(), HasSubstr("had average_decay 0, this one has 0.9"));
}

}  // namespace
}  // namespace hearth
