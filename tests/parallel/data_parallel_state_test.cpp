// State of a data-parallel training beside its weights: on disk, averaged weights, bounds.
#include <hearth/parallel/data_parallel.hpp>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/sanitizers.hpp"
#include "training_support.hpp"

#include <hearth/modules/gradient_clip.hpp>
#include <hearth/modules/weight_average.hpp>
#include <hearth/runtime/base/failure_book.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;

using Trained = DataParallel<TinyNet, Samples>;

/// A training of a network that draws random numbers.
struct StateRun {
  explicit StateRun(int world, DataParallelOptions options = {.optimizer = Adam::Config{}})
      : runtime(cpu_devices(world)), trainer(runtime, model(), loss_in<TinyNet>(DType::f32), [&] {
          options.devices = runtime.devices("cpu");
          options.devices.resize(static_cast<std::size_t>(world));
          options.seed = 7;
          return options;
        }()) {}

  [[nodiscard]] TinyNet model() const {
    Generator generator(3);
    return TinyNet(runtime.device("cpu:0"), generator, DType::f32, 0.3);
  }
  void step(std::uint64_t number) {
    trainer.step(divide(random_samples(11, TinyNet::kSide, number), trainer.world()));
  }

  Runtime runtime;
  Trained trainer;
};

TEST(DataParallelState, ARunThatIsLoadedGoesOnToTheSameBits) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "deep" / "state.safetensors";
  for (const double decay : {0.0, 0.9}) {
    StateRun whole(2, {.optimizer = Adam::Config{}, .average_decay = decay});
    for (std::uint64_t i = 0; i < 3; ++i) {
      whole.step(i);
    }
    whole.trainer.set_learning_rate(2e-3);
    whole.trainer.save(file, {.cursor = {.epoch = 4, .batch = 2}, .notes = {{"who", "a test"}}});
    StateRun second(2, {.optimizer = Adam::Config{}, .average_decay = decay});
    second.step(99);
    const TrainingProgress progress = second.trainer.load(file);
    EXPECT_EQ(progress.cursor, (LoaderCursor{.epoch = 4, .batch = 2}));
    EXPECT_EQ(progress.notes.at("who"), "a test");
    EXPECT_EQ(progress.generators.size(), 2U);
    for (std::uint64_t i = 3; i < 6; ++i) {
      whole.step(i);
      second.step(i);
    }
    EXPECT_TRUE(has_equal_replicas(second.trainer));
    EXPECT_EQ(weights_of(second.trainer.snapshot()), weights_of(whole.trainer.snapshot()));
    if (decay > 0) {
      EXPECT_EQ(weights_of(second.trainer.averaged()), weights_of(whole.trainer.averaged()));
    }
  }
}

// A run that saves every few steps stops at some step, and another continues from its last file.
TEST(DataParallelState, GoesOnFromFiftyPointsToTheSameBits) {
  constexpr std::uint64_t kSteps = 12;
  const int points = kSanitizerTakesAddresses ? 6 : 50;
  const TemporaryFolder folder;
  const auto options = [] { return DataParallelOptions{.optimizer = Adam::Config{}}; };
  std::vector<std::vector<double>> whole;
  for (int world = 1; world <= 3; ++world) {
    StateRun run(world, options());
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      run.step(i);
    }
    whole.push_back(weights_of(run.trainer.snapshot()));
  }
  for (int point = 0; point < points; ++point) {
    const auto drawn = philox::block(11, static_cast<std::uint64_t>(point));
    const int world = 1 + static_cast<int>(drawn[0] % 3);
    const std::uint64_t every = 1 + drawn[1] % 4;
    const std::uint64_t end = every + drawn[2] % (kSteps - every);
    const auto file = folder.path() / (std::to_string(point) + ".safetensors");
    {
      StateRun killed(world, options());
      for (std::uint64_t i = 0; i < end; ++i) {
        killed.step(i);
        if ((i + 1) % every == 0) {
          killed.trainer.save(file, {.cursor = {.batch = static_cast<std::int64_t>(i + 1)}});
        }
      }
    }
    StateRun next(world, options());
    const TrainingProgress progress = next.trainer.load(file);
    EXPECT_EQ(progress.cursor.batch, static_cast<std::int64_t>(end / every * every));
    for (auto i = static_cast<std::uint64_t>(progress.cursor.batch); i < kSteps; ++i) {
      next.step(i);
    }
    EXPECT_EQ(weights_of(next.trainer.snapshot()), whole[static_cast<std::size_t>(world - 1)])
        << "point " << point << ": " << world << " devices, saved every " << every
        << " steps, killed behind " << end;
  }
}

TEST(DataParallelState, AFileThatDoesNotFitChangesNothing) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "state.safetensors";
  StateRun two(2);
  two.step(0);
  two.trainer.save(file);
  StateRun one(1);
  one.step(1);
  const std::vector<double> before = weights_of(one.trainer.snapshot());
  const auto expect_refused = [&](const std::filesystem::path& from, const char* text) {
    try {
      one.trainer.load(from);
      ADD_FAILURE() << text;
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
    EXPECT_EQ(weights_of(one.trainer.snapshot()), before);
  };
  expect_refused(file, "the state of a training on 2 devices, this one has 1");
  expect_refused(folder.path() / "missing.safetensors", "missing.safetensors");
  StateRun averaged(1, {.optimizer = Adam::Config{}, .average_decay = 0.5});
  averaged.trainer.save(file);
  expect_refused(file, "average.");
  one.step(2);  // and the training goes on
}

TEST(DataParallelState, ASaveThatFailsLeavesTheTrainingAsItWas) {
  const TemporaryFolder folder;
  StateRun run(2);
  run.step(0);
  const std::vector<double> before = weights_of(run.trainer.snapshot());
  EXPECT_THROW(run.trainer.save(folder.path()), FileError);  // a folder is no file
  EXPECT_EQ(weights_of(run.trainer.snapshot()), before);
  run.step(1);
  EXPECT_TRUE(has_equal_replicas(run.trainer));
}

// A rank is in its loss function when the file is to be written.
TEST(DataParallelState, ASaveDoesNotWaitForARankThatHangs) {
  const TemporaryFolder folder;
  Promise<void> release;
  const auto released = std::make_shared<Pending<void>>(release.pending());
  const Runtime runtime(cpu_devices(1));
  const Device device = runtime.device("cpu:0");
  Generator generator(3);
  Trained trainer(runtime,
                  TinyNet(device, generator, DType::f32),
                  [released](const TinyNet& model, Samples& samples, WorkerContext& context) {
                    static_cast<void>(released->wait({.deadline = Deadline::never()}));
                    return mean_loss(model, samples, context.device, DType::f32);
                  },
                  {.devices = {device},
                   .deadline = std::chrono::milliseconds(500),
                   .step_limit = std::chrono::seconds(1)});
  const Pending<DataParallelReport> step =
      trainer.step_later({random_samples(4, TinyNet::kSide, 1)});
  try {
    trainer.save_weights(folder.path() / "weights.safetensors");
    ADD_FAILURE() << "it was written";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::deadline_exceeded);
    EXPECT_THAT(error.what(), HasSubstr("rank 0 on cpu:0 did not begin to write within 2000ms"));
    EXPECT_THAT(error.error().location.file, ::testing::EndsWith("data_parallel_state_test.cpp"));
  }
  release.set_value();
  static_cast<void>(step.wait());
}

TEST(DataParallelState, ANameThatIsNoneForWeightsIsRefusedAtTheCall) {
  const TemporaryFolder folder;
  StateRun run(2, {.optimizer = Adam::Config{}});
  try {
    run.trainer.save_weights(folder.path() / "w.pt");
    ADD_FAILURE() << "it was written";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("w.safetensors'"));
    EXPECT_THAT(error.error().location.file, ::testing::EndsWith("data_parallel_state_test.cpp"));
  }
  run.step(1);  // the training goes on
}

TEST(DataParallelState, NotesOfTheLibrarysNamesAreRefusedAtTheCall) {
  const TemporaryFolder folder;
  StateRun run(2);
  const auto expect_refused = [](const auto& call, std::string_view writer) {
    try {
      call();
      ADD_FAILURE() << "it was taken";
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr(std::string(writer) + ": the note 'hearth.skipped.x' begins with"));
    }
  };
  const Metadata notes{{"hearth.skipped.x", "1"}};
  expect_refused(
      [&] { run.trainer.save(folder.path() / "a.safetensors", {.cursor = {}, .notes = notes}); },
      "DataParallel::save");
  expect_refused([&] { run.trainer.save_weights(folder.path() / "b.safetensors", notes); },
                 "DataParallel::save_weights");
  EXPECT_EQ(folder.file_count(), 0U);
}

TEST(DataParallelState, WritingHasALimit) {
  const TemporaryFolder folder;
  StateRun run(1, {.optimizer = Adam::Config{}, .save_limit = std::chrono::nanoseconds(1)});
  // A caller that was not scheduled meanwhile finds the file written.
  const Deadline late = Deadline::in(std::chrono::seconds(20));
  bool was_in_time = true;
  while (was_in_time && !late.has_passed()) {
    try {
      run.trainer.save_weights(folder.path() / "weights.safetensors");
    } catch (const Exception& error) {
      was_in_time = false;
      EXPECT_EQ(error.code(), ErrorCode::deadline_exceeded);
      EXPECT_THAT(error.what(), HasSubstr("did not end writing"));
    }
  }
  EXPECT_FALSE(was_in_time) << "it was written in no time";
  run.step(1);  // the training goes on
  EXPECT_THROW(StateRun(1, {.save_limit = std::chrono::nanoseconds(0)}), ArgumentError);
}

// The first error is thrown; the others are equal.
TEST(DataParallelState, AnEvaluationThatFailsOnAllRanksIsRead) {
  StateRun run(2);
  EXPECT_THROW(run.trainer.evaluate([](const TinyNet& model, WorkerContext& context) {
    const Tensor classes = Tensor::from<std::int64_t>(context.device, {99}, {1});
    return cross_entropy(model.forward(ones(context.device, {1, 1, 4, 4})), classes).item();
  }),
               Exception);
  EXPECT_EQ(run.runtime.device("cpu:0").failures().unread_count(), 0U);
}

TEST(DataParallelState, TheAverageIsThatOfTheWeightsAfterEachStep) {
  StateRun run(2, {.optimizer = Sgd::Config{.learning_rate = 0.1}, .average_decay = 0.75});
  WeightAverage wanted(0.75);
  for (std::uint64_t i = 0; i < 4; ++i) {
    run.step(i);
    TinyNet model = run.trainer.snapshot();
    wanted.update(model);
  }
  const std::vector<double> averaged = weights_of(run.trainer.averaged());
  EXPECT_EQ(averaged, weights_of(wanted.applied_to(run.trainer.snapshot())));
  EXPECT_NE(averaged, weights_of(run.trainer.snapshot()));
  const auto on_ranks = run.trainer.evaluate_averaged(
      [](const TinyNet& model, WorkerContext&) { return weights_of(model); });
  EXPECT_EQ(on_ranks, (std::vector<std::vector<double>>{averaged, averaged}));
}

TEST(DataParallelState, WithoutAnAverageThereIsNone) {
  StateRun run(1);
  EXPECT_THROW(static_cast<void>(run.trainer.averaged()), ArgumentError);
  EXPECT_THROW(static_cast<void>(
                   run.trainer.evaluate_averaged([](const TinyNet&, WorkerContext&) { return 0; })),
               ArgumentError);
  EXPECT_THROW(StateRun(1, {.average_decay = 1}), ArgumentError);
  EXPECT_THROW(StateRun(1, {.clip = {.max_norm = 0}}), ArgumentError);
}

// Plain descent with rate 1: the change of the weights is the gradient.
TEST(DataParallelState, GradientsOfTheWholeBatchAreBounded) {
  const auto move_by = [](const GradientClip& clip) {
    StateRun run(2, {.optimizer = Sgd::Config{.learning_rate = 1}, .clip = clip});
    const std::vector<double> before = weights_of(run.trainer.snapshot());
    run.step(0);
    EXPECT_TRUE(has_equal_replicas(run.trainer));
    std::vector<double> moved = weights_of(run.trainer.snapshot());
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] = before[i] - moved[i];
    }
    return moved;
  };
  const std::vector<double> plain = move_by({});
  double squares = 0;
  double largest = 0;
  for (const double each : plain) {
    squares += each * each;
    largest = std::max(largest, std::fabs(each));
  }
  const std::vector<double> by_norm = move_by({.max_norm = std::sqrt(squares) / 4});
  const std::vector<double> by_value = move_by({.max_value = largest / 2});
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(by_norm[i], plain[i] / 4, 1e-6);
    EXPECT_NEAR(by_value[i], std::clamp(plain[i], -largest / 2, largest / 2), 1e-6);
  }
}

}  // namespace
}  // namespace hearth
