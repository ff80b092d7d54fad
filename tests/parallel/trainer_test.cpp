// A Trainer from a model and data to a saved model, and every way in which a run can end and
// resume.
#include <hearth/parallel/trainer.hpp>

#include "digits_run.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/sanitizers.hpp"

#include <hearth/modules/array_dataset.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/digits.hpp>
#include <hearth/modules/image_dataset.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/runtime/base/file.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Trainer, LearnsDigitsAndLeavesAModelAFigureFileAndAReport) {
  const TemporaryFolder folder;
  const Digits digits;
  TrainerOptions options = digits.options;
  options.epochs = 20;
  options.optimizer = Adam::Config{.learning_rate = 2e-2};
  options.metrics = {accuracy_metric(), confusion_metric(10)};
  options.folder = folder.path() / "run";
  Trainer<DigitNet> trainer = digits.trainer(options);
  const TrainingResult result = trainer.fit(digits.train, digits.train);
  EXPECT_EQ(result.reason, EndReason::finished);
  ASSERT_EQ(result.history.epochs.size(), 20U);
  EXPECT_GT(result.history.epochs.back().metrics[0], 0.8);
  EXPECT_LT(result.history.epochs.back().train_loss, result.history.epochs.front().train_loss);
  DigitNet loaded(options.devices.front());
  load_weights(loaded, options.folder);
  EXPECT_EQ(weights_of(loaded), weights_of(trainer.model()));
  EXPECT_THAT(text_of(options.folder / "metrics.csv"),
              StartsWith("epoch,train_loss,validation_loss,accuracy,first_learning_rate,"));
  const std::string report = text_of(options.folder / "report.html");
  EXPECT_THAT(report, HasSubstr("<b>state</b>finished"));
  EXPECT_THAT(report, HasSubstr("inner.weight"));
  EXPECT_THAT(report, HasSubstr("<th>9</th>"));
}

TEST(Trainer, NeedsNoValidationAndNoFolder) {
  const Digits digits;
  const TrainingResult result = digits.trainer(digits.options).fit(digits.train);
  ASSERT_EQ(result.history.epochs.size(), 3U);
  EXPECT_GT(result.median_step, std::chrono::nanoseconds::zero());
  std::chrono::nanoseconds all{};
  for (const auto& epoch : result.history.epochs) {
    all += epoch.duration;
  }
  EXPECT_GT(all, 10 * result.median_step) << "of 21 steps";
  EXPECT_GT(result.samples_per_s, 0);
  EXPECT_FALSE(result.history.epochs[0].validation_loss);
  EXPECT_EQ(result.history.epochs[0].sample_count, 64);
  EXPECT_EQ(result.best_epoch, 3) << "by the training loss";
}

TEST(Trainer, TheValidatedModelIsInEvaluationMode) {
  Digits digits;
  digits.options.epochs = 1;
  Trainer<DigitNet> trainer = digits.trainer(digits.options);
  const TrainingResult result = trainer.fit(digits.train, digits.test);
  const DigitNet model = trainer.model();
  const Examples all = digits.test.read(std::vector<std::int64_t>{0, 1, 2, 3});
  const EvaluationFigures first = trainer.evaluate(digits.test);
  EXPECT_EQ(first.loss, *result.history.epochs[0].validation_loss);
  EXPECT_EQ(trainer.evaluate(digits.test).loss, first.loss) << "a dropout would draw";
  EXPECT_EQ(first.sample_count, 30);
}

TEST(Trainer, TwoDevicesAreOneWithTheWholeBatch) {
  expect_division_changes_nothing([](const Device& /*device*/) { return kLoss; },
                                  [](TrainerOptions& options) {
                                    options.metrics = {accuracy_metric(), top_k_metric(3)};
                                    options.schedule = CosineRate{.warmup_steps = 2};
                                    options.clip = {.max_norm = 0.5};
                                  });
}

TEST(Trainer, EachStepHasTheRateOfItsSchedule) {
  Digits digits;
  TrainerOptions options = digits.options;
  options.optimizer = Sgd::Config{.learning_rate = 0.25};
  options.schedule = OneCycleRate{.warmup_steps = 2};
  std::vector<double> rates;
  options.callbacks = {{.on_step = [&](const TrainingStep& step, RunControl&) {
    EXPECT_EQ(step.step, static_cast<std::int64_t>(rates.size()) + 1);
    rates.push_back(step.learning_rate);
  }}};
  const TrainingResult result = digits.fit(options);
  ASSERT_EQ(rates.size(), 21U);  // 7 batches in 3 epochs
  EXPECT_EQ(result.history.rates.points(), rates);
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(result.history.epochs[epoch].first_learning_rate, rates[7 * epoch]);
    EXPECT_EQ(result.history.epochs[epoch].last_learning_rate, rates[7 * epoch + 6]);
  }
  for (std::size_t i = 0; i < rates.size(); ++i) {
    EXPECT_EQ(rates[i], 0.25 * rate_factor(options.schedule, static_cast<std::int64_t>(i), 21));
  }
}

// 64 examples are three batches of twenty and a rest; all 30 of the others are validated.
TEST(Trainer, DropLastLeavesOutTheRestOfTheTrainingDataAlone) {
  Digits digits;
  TrainerOptions options = digits.options;
  options.epochs = 1;
  options.drop_last = true;
  options.batch_size = 20;
  std::int64_t validated = 0;
  options.metrics = {{.name = "rows",
                      .measure =
                          [&](const Tensor& outputs, const Tensor&) {
                            validated += outputs.size(0);
                            return EvaluationMetric::Statistics{0};
                          },
                      .value = [](const EvaluationMetric::Statistics&) { return 0.0; }}};
  const TrainingResult result = digits.fit(options);
  EXPECT_EQ(result.history.epochs.at(0).sample_count, 60);
  EXPECT_EQ(validated, 20 + 30) << "a batch is tried first";
}

TEST(Trainer, FollowsAFunctionOfTheProgramsOwn) {
  Digits digits;
  TrainerOptions options = digits.options;
  options.epochs = 1;
  options.optimizer = Sgd::Config{.learning_rate = 0.25};
  options.schedule = FunctionRate{.factor = [](std::int64_t step) { return step < 3 ? 1.0 : 0.5; }};
  EXPECT_THAT(digits.fit(options).history.rates.points(),
              ElementsAre(0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125));
  options.schedule = FunctionRate{};
  EXPECT_THROW(static_cast<void>(digits.fit(options)), ArgumentError);
}

// With rate 0 no epoch improves on the first.
TEST(Trainer, EndsEarlyWithoutProgress) {
  Digits digits;
  TrainerOptions options = digits.options;
  options.optimizer = Sgd::Config{.learning_rate = 0};
  options.epochs = 50;
  options.early_stopping = EarlyStopping{.patience = 3};
  const TrainingResult result = digits.fit(options);
  EXPECT_EQ(result.reason, EndReason::no_progress);
  EXPECT_EQ(result.history.epochs.size(), 4U);
  EXPECT_EQ(result.best_epoch, 1);
}

TEST(Trainer, TheRateFallsOnAPlateau) {
  Digits digits;
  TrainerOptions options = digits.options;
  options.optimizer = Sgd::Config{.learning_rate = 1e-12};
  options.epochs = 5;
  options.schedule = PlateauRate{.factor = 0.5, .patience = 2};
  std::vector<double> rates;
  for (const EpochRecord& epoch : digits.fit(options).history.epochs) {
    rates.push_back(epoch.last_learning_rate);
    EXPECT_EQ(epoch.first_learning_rate, epoch.last_learning_rate);
  }
  EXPECT_THAT(rates, ElementsAre(1e-12, 1e-12, 1e-12, 5e-13, 5e-13));
}

TEST(Trainer, KeepsTheWeightsOfTheBestEpoch) {
  const TemporaryFolder folder;
  Digits digits;
  TrainerOptions options = digits.options;
  options.folder = folder.path();
  options.epochs = 6;
  options.watch = "target";
  // Best in epoch 4, whatever the model computes.
  std::int64_t epoch = 0;
  options.metrics = {
      {.name = "target",
       .measure = [](const Tensor&, const Tensor&) { return std::vector<double>{1}; },
       .value =
           [&epoch](const std::vector<double>&) {
             ++epoch;
             return epoch == 4 ? 10.0 : -static_cast<double>(epoch);
           }}};
  Trainer<DigitNet>* running = nullptr;
  std::vector<std::vector<double>> weights;
  options.callbacks = {{.on_epoch = [&](const EpochRecord&, RunControl&) {
    weights.push_back(weights_of(running->model()));
  }}};
  Trainer<DigitNet> trainer = digits.trainer(options);
  running = &trainer;
  const TrainingResult result = trainer.fit(digits.train, digits.test);
  EXPECT_EQ(result.best_epoch, 4);
  EXPECT_EQ(result.best_value, 10);
  DigitNet best(options.devices.front());
  const Metadata metadata = load_weights(best, options.folder / "best.safetensors");
  EXPECT_EQ(weights_of(best), weights.at(3));
  EXPECT_EQ(metadata.at("epoch"), "4");
}

TEST(Trainer, KeepsTheStateOfTheLastEpochs) {
  const TemporaryFolder folder;
  Digits digits;
  TrainerOptions options = digits.options;
  options.folder = folder.path();
  options.epochs = 5;
  options.keep_epochs = 2;
  static_cast<void>(digits.fit(options));
  for (int epoch = 1; epoch <= 5; ++epoch) {
    EXPECT_EQ(std::filesystem::exists(folder.path() /
                                      ("epoch-" + std::to_string(epoch) + ".safetensors")),
              epoch > 3)
        << epoch;
  }
}

TEST(Trainer, WithAnAverageItIsWhatIsJudgedAndSaved) {
  const TemporaryFolder folder;
  Digits digits(2);
  TrainerOptions options = digits.options;
  options.folder = folder.path();
  options.average_decay = 0.9;
  Trainer<DigitNet> trainer = digits.trainer(options);
  const TrainingResult result = trainer.fit(digits.train, digits.test);
  DigitNet saved(options.devices.front());
  load_weights(saved, folder.path());
  EXPECT_EQ(weights_of(saved), weights_of(trainer.parallel().averaged()));
  EXPECT_NE(weights_of(saved), weights_of(trainer.parallel().snapshot()));
  EXPECT_EQ(result.history.epochs.back().validation_loss, trainer.evaluate(digits.test).loss);
}

/// A run with all state that a file must keep, including running statistics, saved every few steps.
struct RandomRun {
  explicit RandomRun(const std::filesystem::path& folder) : digits(2) {
    options = digits.options;
    options.folder = folder;
    options.epochs = 4;
    options.accumulate = 2;
    options.average_decay = 0.8;
    options.metrics = {accuracy_metric()};
    options.schedule = PlateauRate{.factor = 0.5, .patience = 1, .min_change = 0.3};
    options.early_stopping = EarlyStopping{.patience = 3, .min_change = 0.2};
    options.clip = {.max_norm = 1};
  }
  Digits digits;
  TrainerOptions options;
};

std::string weights_file_of(const std::filesystem::path& folder) {
  return text_of(folder / "model.safetensors") + text_of(folder / "best.safetensors");
}

struct Killed {};

// TRAINER_KILLS sets the number. TrainingState's tests cover kills inside a save.
TEST(Trainer, KilledAnywhereARunGoesOnToTheSameBits) {
  const char* const count = std::getenv("TRAINER_KILLS");
  const int kills = count != nullptr ? std::atoi(count) : kSanitizerTakesAddresses ? 4 : 50;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const TemporaryFolder folder;
  RandomRun whole(folder.path() / "whole");
  const TrainingResult wanted = whole.digits.fit<NormNet>(whole.options);
  for (int killed = 0; killed < kills;) {
    const auto place = folder.path() / ("run" + std::to_string(killed));
    std::filesystem::remove_all(place);
    for (bool is_over = false; !is_over;) {
      RandomRun run(place);
      run.options.save_every = 1 + static_cast<std::int64_t>(random() % 3);
      run.options.resume = true;
      auto moments = 1 + random() % 12;
      const auto kill = [&] {
        if (--moments == 0) {
          throw Killed();
        }
      };
      run.options.callbacks = {{.on_step = [&](const TrainingStep&, RunControl&) { kill(); },
                                .on_epoch = [&](const EpochRecord&, RunControl&) { kill(); }}};
      try {
        const TrainingResult result = run.digits.fit<NormNet>(run.options);
        is_over = true;
        EXPECT_EQ(result.reason, wanted.reason);
        EXPECT_EQ(figures_of(result), figures_of(wanted));
        EXPECT_EQ(result.best_epoch, wanted.best_epoch);
      } catch (const Killed&) {
        ++killed;
      }
    }
    ASSERT_EQ(weights_file_of(place), weights_file_of(folder.path() / "whole")) << killed;
  }
}

TEST(Trainer, CtrlCSavesAndARunThatIsResumedEndsWithTheSameBits) {
  const TemporaryFolder folder;
  RandomRun whole(folder.path() / "whole");
  static_cast<void>(whole.digits.fit<NormNet>(whole.options));
  RandomRun stopped(folder.path() / "stopped");
  stopped.options.callbacks = {{.on_step = [](const TrainingStep& step, RunControl&) {
    if (step.step == 6) {
      std::raise(SIGINT);
    }
  }}};
  const TrainingResult result = stopped.digits.fit<NormNet>(stopped.options);
  EXPECT_EQ(result.reason, EndReason::interrupted);
  ASSERT_TRUE(result.ended_at);
  EXPECT_EQ(result.ended_at->epoch, 2);
  EXPECT_EQ(result.ended_at->batch, 4);
  EXPECT_EQ(result.ended_at->batch_count, 7);
  ASSERT_TRUE(result.partial);
  EXPECT_EQ(result.partial->sample_count, 40);
  RandomRun resumed(folder.path() / "stopped");
  resumed.options.resume = true;
  const TrainingResult rest = resumed.digits.fit<NormNet>(resumed.options);
  ASSERT_TRUE(rest.resumed_at);
  EXPECT_EQ(rest.resumed_at->epoch, 2);
  EXPECT_EQ(rest.resumed_at->batch, 4);
  EXPECT_EQ(weights_file_of(folder.path() / "stopped"), weights_file_of(folder.path() / "whole"));
}

// One signal of the terminal, and one of a parent process that forwards it.
TEST(Trainer, TwoSignalsAtOnceAreOneWish) {
  const TemporaryFolder folder;
  RandomRun run(folder.path());
  run.options.callbacks = {{.on_step = [](const TrainingStep& step, RunControl&) {
    if (step.step == 3) {
      std::raise(SIGINT);
      std::raise(SIGINT);
      std::raise(SIGTERM);
    }
  }}};
  EXPECT_EQ(run.digits.fit<NormNet>(run.options).reason, EndReason::interrupted);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "training.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "model.safetensors"));
}

// Like `trainer | head`.
TEST(Trainer, AClosedPipeDoesNotEndARun) {
  const TemporaryFolder folder;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  std::FILE* const out = ::fdopen(ends[1], "w");
  ASSERT_NE(out, nullptr);
  RandomRun run(folder.path());
  run.options.early_stopping = std::nullopt;
  run.options.console = {.style = ConsoleStyle::plain, .out = out};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run.digits.fit<NormNet>(run.options).reason, EndReason::finished);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the lines of a training cannot be written: Broken pipe"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "model.safetensors"));
  std::signal(SIGPIPE, SIG_IGN);  // the file still has bytes to write
  std::fclose(out);
  std::signal(SIGPIPE, SIG_DFL);
}

// The disk has no room for the figures; the state was saved before.
TEST(Trainer, AFullDiskEndsARunThatGoesOnLater) {
  const TemporaryFolder folder;
  RandomRun whole(folder.path() / "whole");
  static_cast<void>(whole.digits.fit<NormNet>(whole.options));
  const std::filesystem::path place = folder.path() / "full";
  std::filesystem::create_directory(place);
  std::filesystem::create_symlink("/dev/full", place / "metrics.csv");
  RandomRun stopped(place);
  try {
    static_cast<void>(stopped.digits.fit<NormNet>(stopped.options));
    ADD_FAILURE() << "all was written";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("metrics.csv"));
    EXPECT_THAT(error.what(), HasSubstr("No space left on device"));
  }
  std::filesystem::remove(place / "metrics.csv");
  RandomRun resumed(place);
  resumed.options.resume = true;
  EXPECT_TRUE(resumed.digits.fit<NormNet>(resumed.options).resumed_at);
  EXPECT_EQ(weights_file_of(place), weights_file_of(folder.path() / "whole"));
}

TEST(Trainer, AFolderIsOfOneRunAtATime) {
  const TemporaryFolder folder;
  RandomRun first(folder.path() / "one");
  first.options.early_stopping = std::nullopt;
  std::string refused;
  bool has_other_ended = false;
  first.options.callbacks = {{.on_step = [&](const TrainingStep& step, RunControl&) {
    if (step.step != 2) {
      return;
    }
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "one/training.lock"));
    RandomRun second(folder.path() / "one/../one");
    for (const bool resumes : {false, true}) {
      second.options.resume = resumes;
      try {
        static_cast<void>(second.digits.fit<NormNet>(second.options));
      } catch (const FileError& error) {
        refused = error.what();
      }
      EXPECT_THAT(refused, HasSubstr("held by process " + std::to_string(::getpid())));
    }
    RandomRun other(folder.path() / "other");
    static_cast<void>(other.digits.fit<NormNet>(other.options));
    has_other_ended = true;
  }}};
  EXPECT_EQ(first.digits.fit<NormNet>(first.options).reason, EndReason::finished);
  EXPECT_TRUE(has_other_ended);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "one/training.lock"));
  RandomRun next(folder.path() / "one");
  next.options.resume = true;
  static_cast<void>(next.digits.fit<NormNet>(next.options));
}

TEST(Trainer, ACallbackCanEndARun) {
  Digits digits;
  TrainerOptions options = digits.options;
  options.callbacks = {{.on_epoch = [](const EpochRecord& epoch, RunControl& control) {
    control.stop = epoch.epoch == 2;
  }}};
  const TrainingResult result = digits.fit(options);
  EXPECT_EQ(result.reason, EndReason::stopped);
  EXPECT_EQ(result.history.epochs.size(), 2U);
}

TEST(Trainer, ARunOfOtherSettingsIsNotResumed) {
  const TemporaryFolder folder;
  Digits digits;
  TrainerOptions options = digits.options;
  options.folder = folder.path();
  options.epochs = 1;
  options.notes = {{"data", "digits"}};
  const auto expect_refused = [&](const TrainerOptions& other, const char* text) {
    try {
      static_cast<void>(digits.fit(other));
      ADD_FAILURE() << text;
    } catch (const Exception& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  static_cast<void>(digits.fit(options));
  options.resume = true;
  TrainerOptions other = options;
  other.batch_size = 20;
  expect_refused(other, "had batch_size 10, this one has 20");
  other = options;
  other.notes = {{"data", "letters"}};
  expect_refused(other, "had data digits, this one has letters");
  const TrainingResult over = digits.fit(options);  // no epoch is left to train
  EXPECT_EQ(over.reason, EndReason::finished);
  EXPECT_EQ(over.history.epochs.size(), 1U);
}

TEST(Trainer, OptionsThatMakeNoSenseAreRefused) {
  const TemporaryFolder folder;
  const Digits digits;
  const auto expect_refused = [&](const char* text, auto change) {
    TrainerOptions options = digits.options;
    change(options);
    try {
      static_cast<void>(digits.fit(options));
      ADD_FAILURE() << text;
    } catch (const Exception& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  expect_refused("epochs is 0", [](TrainerOptions& o) { o.epochs = 0; });
  expect_refused("accumulate is 0", [](TrainerOptions& o) { o.accumulate = 0; });
  expect_refused("Trainer: batch_size is 0, but must be 1 or more",
                 [](TrainerOptions& o) { o.batch_size = 0; });
  expect_refused("Trainer: loader_worker_count is -1, but must be 0 or more",
                 [](TrainerOptions& o) { o.loader_worker_count = -1; });
  expect_refused("Trainer: loader_deadline must be above 0",
                 [](TrainerOptions& o) { o.loader_deadline = {}; });
  expect_refused("there is no metric 'F1' to watch; there are: accuracy", [](TrainerOptions& o) {
    o.metrics = {accuracy_metric()};
    o.watch = "F1";
  });
  expect_refused("there is no metric 'acuracy' to watch; TrainerOptions::metrics is empty",
                 [](TrainerOptions& o) { o.watch = "acuracy"; });
  expect_refused("patience is 0",
                 [](TrainerOptions& o) { o.early_stopping = EarlyStopping{.patience = 0}; });
  expect_refused("resume and save_every need a folder", [](TrainerOptions& o) { o.resume = true; });
  expect_refused("the note 'hearth.x' begins", [](TrainerOptions& o) {
    o.notes = {{"hearth.x", ""}};
  });
  expect_refused("the note 'seed' is one that the Trainer writes itself", [](TrainerOptions& o) {
    o.notes = {{"seed", "mine"}};
  });
  expect_refused("the note 'batch_size' is one that the Trainer writes itself",
                 [](TrainerOptions& o) {
                   o.notes = {{"batch_size", "9"}};
                 });
  expect_refused("end of the schedule is 2",
                 [](TrainerOptions& o) { o.schedule = CosineRate{.end = 2}; });
  std::ofstream(folder.path() / "file") << "x";
  expect_refused("file/below",
                 [&](TrainerOptions& o) { o.folder = folder.path() / "file" / "below"; });
}

/// The program's own batches: shards are Samples.
class OwnBatches {
 public:
  [[nodiscard]] std::vector<Samples> next() {
    if (cursor_.batch == batch_count()) {
      cursor_ = {.epoch = cursor_.epoch + 1, .batch = 0};
      return {};
    }
    const auto number = static_cast<std::uint64_t>(cursor_.batch++);
    return divide(random_samples(6, TinyNet::kSide, number), world_);
  }
  [[nodiscard]] LoaderCursor cursor() const { return cursor_; }
  [[nodiscard]] std::int64_t batch_count() const { return 4; }
  void seek(LoaderCursor cursor) { cursor_ = cursor; }
  void set_world(int world) { world_ = world; }

 private:
  LoaderCursor cursor_;
  int world_ = 1;
};

TEST(Trainer, TakesBatchesAndALossOfTheProgramsOwn) {
  Digits digits(2);
  TrainerOptions options = digits.options;
  options.metrics = {accuracy_metric()};
  Generator generator(1);
  const auto loss = [](const TinyNet& model, Samples& samples, const LossContext& context) {
    const Tensor pixels =
        Tensor::from(context.device, samples.pixels, {samples.size, 1, samples.side, samples.side})
            .to(DType::f32);
    const Tensor outputs = model.forward(pixels);
    const Tensor classes = Tensor::from(context.device, samples.classes, {samples.size});
    return LossOutputs{
        .loss = cross_entropy(outputs, classes), .outputs = outputs, .targets = classes};
  };
  Trainer<TinyNet, Samples> trainer(
      digits.runtime, TinyNet(options.devices.front(), generator, DType::f32), loss, options);
  OwnBatches train;
  OwnBatches judged;
  const TrainingResult result = trainer.fit(train, judged);
  ASSERT_EQ(result.history.epochs.size(), 3U);
  EXPECT_EQ(result.history.epochs[0].sample_count, 24);
  EXPECT_LT(result.history.epochs[2].train_loss, result.history.epochs[0].train_loss);
  EXPECT_EQ(trainer.evaluate(judged).sample_count, 24);
}

TEST(Trainer, ALossSeesEveryArrayOfItsBatch) {
  Digits digits(2);
  TrainerOptions options = digits.options;
  options.epochs = 1;
  // Only named arrays: inputs and targets are left out.
  std::vector<float> values(160);
  std::vector<float> weights(40, 0.5F);
  const ArrayDataset data(Examples{
      .inputs = {},
      .targets = {},
      .more = {{"value", HostArray::from(values, {40, 4})}, {"weight", HostArray::from(weights)}}});
  Generator generator(1);
  const auto loss = [](const Linear& model, const Batch& batch, const LossContext&) {
    EXPECT_FALSE(batch.inputs.is_valid());
    return mean(model.forward(batch.at("value")) * unsqueeze(batch.at("weight"), 1)) + 1;
  };
  Trainer trainer(digits.runtime,
                  Linear({.in = 4, .out = 1, .bias = false}, options.devices.front(), generator),
                  loss,
                  options);
  EXPECT_FLOAT_EQ(static_cast<float>(trainer.fit(data).history.epochs[0].train_loss), 1);
}

// The device is lost in the second epoch, in a step or in a validation, depending on the submit's
// number.
TEST(Trainer, AfterTheLossOfADeviceTheOthersGoOn) {
  for (const std::uint64_t submit : {300U, 330U, 345U, 360U, 375U, 390U, 420U}) {
    Digits digits;
    const Runtime runtime(
        {.devices = {{.name = "sim:0"},
                     {.name = "sim:1", .faults = FaultPlan{.lost_at_submit = submit}}}});
    TrainerOptions options = digits.options;
    options.devices = {runtime.device("sim:0"), runtime.device("sim:1")};
    options.average_decay = 0.5;
    options.metrics = {accuracy_metric()};
    options.parallel.on_loss = DeviceLossPolicy::shrink;
    Trainer<DigitNet> trainer(
        runtime, DigitNet(options.devices.front()), CrossEntropyLoss(), options);
    const TrainingResult result = trainer.fit(digits.train, digits.test);
    EXPECT_EQ(result.reason, EndReason::finished);
    EXPECT_EQ(trainer.parallel().world(), 1) << "the device was not lost: submit " << submit;
    for (const EpochRecord& epoch : result.history.epochs) {
      EXPECT_EQ(epoch.sample_count, 64) << "each batch is trained once";
      EXPECT_TRUE(std::isfinite(*epoch.validation_loss));
    }
    EXPECT_EQ(trainer.evaluate(digits.test).sample_count, 30);
  }
}

// cross_entropy has overloads: a template cannot deduce a type from its name.
TEST(Trainer, TakesALossFunctionThatHasOverloads) {
  const auto loss_with = [](auto loss) {
    Digits digits;
    Trainer trainer(digits.runtime, DigitNet(digits.options.devices.front()), loss, digits.options);
    return trainer.fit(digits.train).history.epochs.back().train_loss;
  };
  Digits digits;
  Trainer trainer(
      digits.runtime, DigitNet(digits.options.devices.front()), cross_entropy, digits.options);
  const double loss = trainer.fit(digits.train).history.epochs.back().train_loss;
  EXPECT_GT(loss, 0);
  EXPECT_EQ(loss, loss_with([](const Tensor& outputs, const Tensor& targets) {
              return cross_entropy(outputs, targets);
            }));
}

// In training, before it, and in evaluate(): the error must not name item(), which the program did
// not call.
TEST(Trainer, ALossThatIsNoNumberIsRefusedAsOne) {
  const Digits digits;
  const auto rows = [](const Tensor& outputs, const Tensor& targets) {
    return cross_entropy_per_row(outputs, targets);
  };
  Trainer<DigitNet> trainer(
      digits.runtime, DigitNet(digits.options.devices.front()), rows, digits.options);
  const auto expect_refused = [](const auto& fn) {
    try {
      fn();
      ADD_FAILURE() << "losses of rows";
    } catch (const Exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("Trainer: the loss must be one number, not f"));
      EXPECT_THAT(error.what(), HasSubstr("return its mean() or sum()"));
      EXPECT_THAT(error.what(), Not(HasSubstr("item")));
    }
  };
  expect_refused([&] { trainer.fit(digits.train); });
  expect_refused([&] { trainer.fit(digits.train, digits.test); });
  expect_refused([&] { static_cast<void>(trainer.evaluate(digits.test)); });
}

TEST(Trainer, MetricsNeedTheOutputsOfALoss) {
  Digits digits;
  digits.options.metrics = {accuracy_metric()};
  const auto loss = [](const DigitNet& model, Batch& batch, const LossContext& context) {
    return cross_entropy(model.forward(batch.inputs, context.mode), batch.targets);
  };
  Trainer<DigitNet> trainer(
      digits.runtime, DigitNet(digits.options.devices.front()), loss, digits.options);
  try {
    static_cast<void>(trainer.fit(digits.train, digits.test));
    FAIL() << "metrics without outputs";
  } catch (const Exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("return a LossOutputs"));
  }
  EXPECT_EQ(trainer.parallel().statistics().steps, 0U) << "it is found out before the first step";
}

TEST(Trainer, WhatItSaysIsALineAnEpochAndOneAtTheEnd) {
  Digits digits;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  digits.options.console = {.style = ConsoleStyle::plain, .out = file.get()};
  digits.options.metrics = {accuracy_metric()};
  static_cast<void>(digits.fit(digits.options));
  std::rewind(file.get());
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  EXPECT_THAT(text, ::testing::ContainsRegex("^epoch 1/3  loss [0-9.]+  validation loss "));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

}  // namespace
}  // namespace hearth
