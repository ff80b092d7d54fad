// A Trainer's runs that end at difficult moments, and runs that resume with other options.
#include <hearth/parallel/trainer.hpp>

#include "digits_run.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/dataset_views.hpp>

#include <cfenv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;
using ::testing::Not;

/// A run of two epochs with metrics, in a folder.
struct WatchedRun {
  explicit WatchedRun(const std::filesystem::path& folder) {
    options = digits.options;
    options.epochs = 2;
    options.folder = folder;
    options.metrics = {accuracy_metric(), top_k_metric(3)};
    options.watch = "accuracy";
  }
  [[nodiscard]] TrainingResult fit() const { return digits.fit<NormNet>(options); }

  Digits digits;
  TrainerOptions options;
};

std::string weights_in(const std::filesystem::path& folder) {
  return text_of(folder / "model.safetensors");
}

TEST(TrainerResume, AStopInTheLastBatchOfAnEpochIsFollowedByItsValidation) {
  const TemporaryFolder folder;
  const WatchedRun whole(folder.path() / "whole");
  const TrainingResult wanted = whole.fit();
  WatchedRun run(folder.path() / "stopped");
  run.options.callbacks = {{.on_step = [](const TrainingStep& step, RunControl& control) {
    control.stop = step.step == 7;
  }}};
  const TrainingResult stopped = run.fit();
  EXPECT_EQ(stopped.reason, EndReason::stopped);
  EXPECT_EQ(stopped.ended_at->batch, 7);
  run.options.callbacks = {};
  run.options.resume = true;
  const TrainingResult rest = run.fit();
  EXPECT_EQ(rest.resumed_at->epoch, 1);
  EXPECT_EQ(rest.resumed_at->batch, 7);
  EXPECT_EQ(figures_of(rest), figures_of(wanted)) << "its rate, too";
  EXPECT_EQ(weights_in(run.options.folder), weights_in(whole.options.folder));
}

TEST(TrainerResume, AnErrorInAValidationOrACallbackCostsNoStep) {
  const TemporaryFolder folder;
  const WatchedRun whole(folder.path() / "whole");
  const TrainingResult wanted = whole.fit();
  const auto expect_no_loss = [&](const char* name, auto spoil) {
    WatchedRun run(folder.path() / name);
    spoil(run.options);
    EXPECT_THROW(static_cast<void>(run.fit()), std::exception) << name;
    WatchedRun again(folder.path() / name);
    again.options.resume = true;
    std::int64_t steps = 0;
    again.options.callbacks = {{.on_step = [&](const TrainingStep&, RunControl&) { ++steps; }}};
    const TrainingResult rest = again.fit();
    EXPECT_EQ(steps, 7) << name << ": those of the second epoch";
    EXPECT_EQ(figures_of(rest), figures_of(wanted)) << name;
    EXPECT_EQ(weights_in(again.options.folder), weights_in(whole.options.folder)) << name;
  };
  expect_no_loss("metric", [](TrainerOptions& options) {
    const auto measure = options.metrics[0].measure;
    // After the batch of the trial.
    options.metrics[0].measure = [measure, left = std::make_shared<int>(1)](const Tensor& outputs,
                                                                            const Tensor& targets) {
      if ((*left)-- == 0) {
        throw std::runtime_error("for a test");
      }
      return measure(outputs, targets);
    };
  });
  expect_no_loss("callback", [](TrainerOptions& options) {
    options.callbacks = {{.on_epoch = [](const EpochRecord&, RunControl&) {
      throw std::runtime_error("for a test");
    }}};
  });
}

/// The accuracy; raises Ctrl-C while it judges the batch of that number, from 0, not counting the
/// trial.
EvaluationMetric interrupting_metric(std::int64_t batch) {
  EvaluationMetric metric = accuracy_metric();
  metric.measure = [measure = metric.measure, left = std::make_shared<std::int64_t>(batch + 1)](
                       const Tensor& outputs, const Tensor& targets) {
    if ((*left)-- == 0) {
      std::raise(SIGINT);
    }
    return measure(outputs, targets);
  };
  return metric;
}

// A validation has three batches; batch 4 is the second one of the second epoch's validation.
// Random numbers that the loss draws in a validation are drawn once.
TEST(TrainerResume, CtrlCEndsAValidationWhichIsMadeAnew) {
  const TemporaryFolder folder;
  const auto fit = [&](const char* name, const auto& change) {
    WatchedRun run(folder.path() / name);
    run.options.early_stopping = EarlyStopping{.patience = 2};
    run.options.schedule = PlateauRate{.patience = 1};
    change(run.options);
    Trainer<DigitNet> trainer(
        run.digits.runtime,
        DigitNet(run.options.devices.front()),
        [](const DigitNet& model, Batch& batch, const LossContext&) {
          const Tensor outputs = model.forward(batch.inputs, Mode::train);
          return LossOutputs{.loss = cross_entropy(outputs, batch.targets),
                             .outputs = outputs,
                             .targets = batch.targets};
        },
        run.options);
    return trainer.fit(run.digits.train, run.digits.test);
  };
  const TrainingResult wanted = fit("whole", [](TrainerOptions&) {});
  for (const std::int64_t batch : {0, 1, 4}) {
    const std::string name = "stopped-" + std::to_string(batch);
    const Console console;
    const TrainingResult stopped = fit(name.c_str(), [&](TrainerOptions& options) {
      options.metrics[0] = interrupting_metric(batch);
      options.console = console.options();
    });
    const std::int64_t epoch = 1 + batch / 3;
    EXPECT_EQ(stopped.reason, EndReason::interrupted);
    EXPECT_EQ(stopped.history.epochs.size(), static_cast<std::size_t>(epoch - 1));
    EXPECT_EQ(stopped.ended_at->epoch, epoch);
    EXPECT_EQ(stopped.ended_at->batch, 7) << "all are trained";
    EXPECT_EQ(stopped.partial->validation_loss, std::nullopt);
    EXPECT_THAT(
        console.text(),
        HasSubstr("epoch " + std::to_string(epoch) + "/2 interrupted after " +
                  std::to_string(batch % 3 + 1) + " of 3 validation batches, saved:  loss "));
    const TrainingResult rest =
        fit(name.c_str(), [](TrainerOptions& options) { options.resume = true; });
    EXPECT_EQ(rest.resumed_at->epoch, epoch);
    EXPECT_EQ(rest.resumed_at->batch, 7);
    EXPECT_EQ(rest.reason, wanted.reason);
    EXPECT_EQ(rest.best_epoch, wanted.best_epoch);
    EXPECT_EQ(figures_of(rest), figures_of(wanted)) << batch;
    for (const char* file : {"model.safetensors", "best.safetensors"}) {
      EXPECT_EQ(text_of(folder.path() / name / file), text_of(folder.path() / "whole" / file));
    }
  }
}

TEST(TrainerResume, CtrlCInTheLastBatchOfAValidationLosesNothingOfIt) {
  const TemporaryFolder folder;
  WatchedRun run(folder.path() / "run");
  run.options.metrics[0] = interrupting_metric(2);
  const TrainingResult stopped = run.fit();
  EXPECT_EQ(stopped.reason, EndReason::interrupted);
  ASSERT_EQ(stopped.history.epochs.size(), 1U);
  EXPECT_TRUE(stopped.history.epochs[0].validation_loss);
}

TEST(TrainerResume, AMetricThatDoesNotFitIsFoundBeforeTheFirstStep) {
  const TemporaryFolder folder;
  WatchedRun run(folder.path() / "run");
  run.options.metrics.push_back(binary_f1_metric());
  std::int64_t steps = 0;
  run.options.callbacks = {{.on_step = [&](const TrainingStep&, RunControl&) { ++steps; }}};
  EXPECT_THROW(static_cast<void>(run.fit()), Exception);
  EXPECT_EQ(steps, 0);
}

TEST(TrainerResume, FiguresStayWithTheirMetrics) {
  const TemporaryFolder folder;
  WatchedRun run(folder.path() / "run");
  run.options.epochs = 1;
  const TrainingResult first = run.fit();
  run.options.epochs = 2;
  run.options.resume = true;
  const EvaluationMetric half{
      .name = "half",
      .measure = [](const Tensor&, const Tensor&) { return std::vector<double>{1}; },
      .value = [](const std::vector<double>&) { return 0.5; }};
  run.options.metrics = {half, top_k_metric(3), accuracy_metric()};
  const TrainingResult rest = run.fit();
  const std::vector<double>& before = first.history.epochs[0].metrics;
  EXPECT_THAT(rest.history.epochs.at(0).metrics, ElementsAre(IsNan(), before[1], before[0]));
  EXPECT_EQ(rest.history.epochs.at(1).metrics[0], 0.5);
  EXPECT_GE(*rest.best_value, *first.best_value) << "accuracy is watched still";
}

TEST(TrainerResume, WithAnotherFigureToWatchTheBestIsChosenAnew) {
  const TemporaryFolder folder;
  WatchedRun run(folder.path() / "run");
  run.options.epochs = 1;
  static_cast<void>(run.fit());
  const Console console;
  run.options.console = console.options();
  run.options.epochs = 2;
  run.options.resume = true;
  run.options.watch = {};
  run.options.early_stopping = EarlyStopping{.patience = 1};
  const TrainingResult rest = run.fit();
  EXPECT_EQ(rest.best_epoch, 2);
  EXPECT_EQ(rest.best_value, rest.history.epochs.at(1).validation_loss);
  EXPECT_THAT(console.text(),
              HasSubstr("the run watched the metric accuracy, and watches the validation loss "
                        "now: the best epoch is chosen again"));
}

// The C library rounds the numbers of the state's text by the program's setting.
TEST(TrainerResume, ReadsItsFiguresWhateverTheProgramRoundsTo) {
  const TemporaryFolder folder;
  WatchedRun run(folder.path() / "run");
  const TrainingResult first = run.fit();
  run.options.resume = true;
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD}) {
    ++run.options.epochs;
    std::fesetround(rounding);
    const TrainingResult rest = run.fit();
    std::fesetround(FE_TONEAREST);
    for (std::size_t epoch = 0; epoch < first.history.epochs.size(); ++epoch) {
      const EpochRecord& got = rest.history.epochs.at(epoch);
      const EpochRecord& wanted = first.history.epochs[epoch];
      EXPECT_EQ(got.train_loss, wanted.train_loss);
      EXPECT_EQ(got.validation_loss, wanted.validation_loss);
      EXPECT_EQ(got.metrics, wanted.metrics);
      EXPECT_EQ(got.last_learning_rate, wanted.last_learning_rate);
    }
  }
}

TEST(TrainerResume, WhereThereIsNothingToResumeANewRunBegins) {
  const TemporaryFolder folder;
  WatchedRun run(folder.path() / "run");
  const Console console;
  run.options.console = console.options();
  run.options.resume = true;
  const TrainingResult result = run.fit();
  EXPECT_FALSE(result.resumed_at);
  EXPECT_EQ(result.history.epochs.size(), 2U);
  EXPECT_THAT(console.text(), HasSubstr("nothing to resume in"));
  EXPECT_EQ(run.fit().resumed_at->epoch, 3) << "the same program again";
}

TEST(TrainerResume, ByAnotherOptimizerItSaysWhichTwo) {
  const auto expect_refused = [](const OptimizerConfig& was, const OptimizerConfig& is, auto text) {
    const TemporaryFolder folder;
    WatchedRun run(folder.path() / "run");
    run.options.epochs = 1;
    run.options.optimizer = was;
    static_cast<void>(run.fit());
    run.options.resume = true;
    run.options.epochs = 2;
    run.options.optimizer = is;
    try {
      static_cast<void>(run.fit());
      ADD_FAILURE() << text;
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
    run.options.optimizer = was;
    EXPECT_EQ(run.fit().history.epochs.size(), 2U) << "what was there is as it was";
  };
  const Adam::Config adam;
  const Sgd::Config momentum{.learning_rate = 0.01, .momentum = 0.9};
  expect_refused(adam, AdamW::Config{}, "the state of a training by Adam, this one is by AdamW");
  expect_refused(adam, Sgd::Config{}, "a training by Adam, this one is by Sgd");
  expect_refused(Sgd::Config{}, momentum, "a training by Sgd, this one is by Sgd with momentum");
}

TEST(TrainerResume, AStateThatCannotBeReadSaysWhatToDo) {
  const TemporaryFolder folder;
  WatchedRun run(folder.path() / "run");
  run.options.epochs = 1;
  static_cast<void>(run.fit());
  run.options.resume = true;
  const std::filesystem::path file = run.options.folder / "training.safetensors";
  const auto refusal_of = [&](const std::string& state) {
    TrainingProgress progress;
    {
      Trainer<NormNet> trainer = run.digits.trainer<NormNet>(run.options);
      progress = trainer.parallel().load(file);
      progress.notes["trainer.state"] = state;
      trainer.parallel().save(file, progress);
    }
    try {
      static_cast<void>(run.fit());
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  for (const char* state : {"{", "[1]", "{}", R"({"format":2,"epoch":"one"})"}) {
    const std::string text = refusal_of(state);
    EXPECT_THAT(text, HasSubstr("training.safetensors: no run can go on from it: "));
    EXPECT_THAT(text, HasSubstr("begin a new one in another folder, or without resume"));
    EXPECT_THAT(text, Not(HasSubstr("json."))) << state;
  }
  EXPECT_THAT(refusal_of(R"({"format":1})"), HasSubstr("another version of Hearth wrote it"));
}

TEST(TrainerResume, AFinishedRunKeepsItsReport) {
  const TemporaryFolder folder;
  WatchedRun run(folder.path() / "run");
  run.options.metrics[0] = confusion_metric(10);
  static_cast<void>(run.fit());
  const std::string before = text_of(run.options.folder / "report.html");
  EXPECT_THAT(before, HasSubstr("<th>9</th>"));
  run.options.resume = true;
  static_cast<void>(run.fit());
  EXPECT_EQ(text_of(run.options.folder / "report.html"), before);
}

TEST(TrainerResume, ANewRunReplacesTheFilesOfAnOldOne) {
  const TemporaryFolder folder;
  WatchedRun run(folder.path() / "run");
  run.options.epochs = 3;
  run.options.keep_epochs = 2;
  static_cast<void>(run.fit());
  const auto exists = [&](const char* name) {
    return std::filesystem::exists(run.options.folder / name);
  };
  EXPECT_TRUE(exists("epoch-3.safetensors"));
  run.options.epochs = 1;
  static_cast<void>(run.fit());
  EXPECT_TRUE(exists("epoch-1.safetensors"));
  EXPECT_FALSE(exists("epoch-2.safetensors"));
  EXPECT_FALSE(exists("epoch-3.safetensors"));
  // A resumed run keeps them.
  run.options.epochs = 2;
  run.options.resume = true;
  static_cast<void>(run.fit());
  EXPECT_TRUE(exists("epoch-1.safetensors"));
  EXPECT_TRUE(exists("epoch-2.safetensors"));
  // Files of an old run that had no epochs.
  run.options.resume = false;
  run.options.keep_epochs = 0;
  static_cast<void>(run.fit());
  EXPECT_FALSE(exists("epoch-1.safetensors"));
}

TEST(TrainerResume, ARunThatIsStoppedSaysSo) {
  Digits digits;
  const Console console;
  TrainerOptions options = digits.options;
  options.console = console.options();
  options.callbacks = {{.on_step = [](const TrainingStep& step, RunControl& control) {
    control.stop = step.step == 2;
  }}};
  static_cast<void>(digits.fit(options));
  EXPECT_THAT(console.text(), HasSubstr("epoch 1/3 stopped after 2 of 7 batches:  loss"));
  const TemporaryFolder folder;
  options.folder = folder.path();
  static_cast<void>(digits.fit(options));
  EXPECT_THAT(console.text(), HasSubstr("epoch 1/3 stopped after 2 of 7 batches, saved:  loss"));
}

/// Batches whose cursor moves to the next epoch as soon as the last batch was read.
class WrappingBatches {
 public:
  explicit WrappingBatches(std::int64_t count = 4) : count_(count) {}
  [[nodiscard]] std::vector<HostBatch> next() {
    if (is_over_ || count_ == 0) {
      is_over_ = false;
      return {};
    }
    cursor_.batch++;
    if (cursor_.batch == count_) {
      cursor_ = {.epoch = cursor_.epoch + 1, .batch = 0};
      is_over_ = true;
    }
    loader_.seek({});
    return loader_.next();
  }
  [[nodiscard]] LoaderCursor cursor() const { return cursor_; }
  [[nodiscard]] std::int64_t batch_count() const { return count_; }
  void seek(LoaderCursor cursor) {
    cursor_ = cursor;
    is_over_ = false;
  }
  void set_world(int world) { loader_.set_world(world); }

 private:
  const Digits digits_;
  ShardedLoader loader_{
      digits_.train, digits_.runtime.executor(), {.batch_size = 8, .worker_count = 0}, 1};
  std::int64_t count_;
  LoaderCursor cursor_;
  bool is_over_ = false;
};

TEST(TrainerResume, ACursorMayBeInTheNextEpochBehindTheLastBatch) {
  const TemporaryFolder folder;
  for (const std::int64_t accumulate : {1, 2, 3}) {
    Digits digits;
    TrainerOptions options = digits.options;
    options.accumulate = accumulate;
    options.epochs = 2;
    WrappingBatches train;
    std::int64_t steps = 0;
    options.callbacks = {{.on_step = [&](const TrainingStep&, RunControl& control) {
      control.stop = ++steps > 20;
    }}};
    const TrainingResult result = digits.trainer(options).fit(train);
    EXPECT_EQ(result.reason, EndReason::finished) << accumulate;
    ASSERT_EQ(result.history.epochs.size(), 2U);
    EXPECT_EQ(result.history.epochs[0].sample_count, 32);
    EXPECT_EQ(steps, 2 * ((4 + accumulate - 1) / accumulate));
    // Stopped in the last step of the first epoch, and resumed.
    options.folder = folder.path() / std::to_string(accumulate);
    steps = 0;
    const std::int64_t last = (4 + accumulate - 1) / accumulate;
    options.callbacks = {{.on_step = [&](const TrainingStep&, RunControl& control) {
      control.stop = ++steps == last;
    }}};
    WrappingBatches stopped;
    static_cast<void>(digits.trainer(options).fit(stopped));
    options.callbacks = {};
    options.resume = true;
    WrappingBatches resumed;
    EXPECT_EQ(figures_of(digits.trainer(options).fit(resumed)), figures_of(result)) << accumulate;
  }
}

TEST(TrainerResume, DataWithoutABatchAreRefused) {
  Digits digits;
  WrappingBatches none(0);
  EXPECT_THROW(static_cast<void>(digits.trainer(digits.options).fit(none)), ArgumentError);
}

// With two devices too: the report of a step has the rate.
TEST(TrainerResume, ARateThatACallbackSetsIsReportedAndKept) {
  for (const int world : {1, 2}) {
    const TemporaryFolder folder;
    Digits digits(world);
    TrainerOptions options = digits.options;
    options.optimizer = Sgd::Config{.learning_rate = 0.25};
    options.folder = folder.path();
    std::optional<Trainer<DigitNet>> trainer;
    options.callbacks = {{.on_step = [&](const TrainingStep& step, RunControl& control) {
      if (step.step == 2) {
        trainer->parallel().set_learning_rate(0.125);
      }
      control.stop = step.step == 5;
    }}};
    trainer.emplace(digits.runtime, DigitNet(options.devices.front()), kLoss, options);
    const TrainingResult stopped = trainer->fit(digits.train, digits.test);
    EXPECT_THAT(stopped.history.rates.points(), ElementsAre(0.25, 0.25, 0.125, 0.125, 0.125));
    options.callbacks = {};
    options.resume = true;
    const TrainingResult rest = digits.fit(options);
    EXPECT_EQ(rest.history.epochs.at(0).first_learning_rate, 0.25);
    EXPECT_EQ(rest.history.epochs.at(0).last_learning_rate, 0.125);
    EXPECT_EQ(rest.history.epochs.at(2).last_learning_rate, 0.125);
  }
}

TEST(TrainerResume, AnEmptyDataSetIsNamed) {
  Digits digits;
  const std::vector<std::int64_t> none;
  const SubsetDataset empty(digits.train, none);
  Trainer<DigitNet> trainer = digits.trainer(digits.options);
  const auto refusal = [](const auto& call) {
    try {
      static_cast<void>(call());
    } catch (const ArgumentError& error) {
      return std::string(error.error().text);
    }
    return std::string("nothing was refused");
  };
  EXPECT_EQ(refusal([&] { return trainer.fit(empty, digits.test); }),
            "Trainer: the training data set is empty");
  EXPECT_EQ(refusal([&] { return trainer.fit(digits.train, empty); }),
            "Trainer: the validation data set is empty");
  EXPECT_EQ(refusal([&] { return trainer.evaluate(empty); }),
            "Trainer: the data set to evaluate is empty");
}

// sim:0 writes all files; it is lost in a step or in a save, depending on the submit's number.
TEST(TrainerResume, TheLossOfTheDeviceThatSavesIsSurvived) {
  for (std::uint64_t submit = 105; submit < 400; submit += 31) {
    const TemporaryFolder folder;
    Digits digits;
    const Runtime runtime(
        {.devices = {{.name = "sim:0", .faults = FaultPlan{.lost_at_submit = submit}},
                     {.name = "sim:1"}}});
    TrainerOptions options = digits.options;
    options.devices = {runtime.device("sim:0"), runtime.device("sim:1")};
    options.epochs = 2;
    options.average_decay = 0.9;
    options.save_every = 1;
    options.folder = folder.path() / "run";
    options.parallel.on_loss = DeviceLossPolicy::shrink;
    Trainer<DigitNet> trainer(
        runtime, DigitNet(options.devices.front()), CrossEntropyLoss(), options);
    const TrainingResult result = trainer.fit(digits.train, digits.test);
    EXPECT_EQ(result.reason, EndReason::finished) << submit;
    EXPECT_EQ(trainer.parallel().world(), 1) << submit;
    // The state is that of the remaining devices.
    options.devices = {runtime.device("sim:1")};
    options.resume = true;
    Trainer<DigitNet> again(
        runtime, DigitNet(options.devices.front()), CrossEntropyLoss(), options);
    EXPECT_EQ(again.fit(digits.train, digits.test).resumed_at->epoch, 3) << submit;
  }
}

}  // namespace
}  // namespace hearth
