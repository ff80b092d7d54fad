// A training run stopped at any place, or killed in the middle of a save, resumes to equal bits.
#include <hearth/modules/training_state.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/modules/activations.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/digits.hpp>
#include <hearth/modules/dropout.hpp>
#include <hearth/modules/flatten.hpp>
#include <hearth/modules/generator_scope.hpp>
#include <hearth/modules/image_dataset.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/ops.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;

struct Network {
  Linear inner, outer;
  Dropout dropout;
  [[nodiscard]] Tensor forward(const Tensor& x, Generator& generator) const {
    const Tensor hidden = relu(inner.forward(flatten(x, 1)));
    return outer.forward(dropout.forward(hidden, Mode::train, generator));
  }
  HEARTH_MODULE(Network, inner, outer, dropout)
};

Network make_network(const Device& device, std::int64_t width = 16) {
  Generator generator(1);
  return {.inner = {{.in = 784, .out = width}, device, generator},
          .outer = {{.in = width, .out = 10}, device, generator},
          .dropout = Dropout({.p = 0.3})};
}

/// A run of two epochs of five batches, with all state that a checkpoint must keep.
class Training {
 public:
  static constexpr std::int64_t kSteps = 10;

  explicit Training(const Device& device, const Runtime& runtime)
      : device_(device),
        digits_(make_digits({.count = 50})),
        loader_(digits_, runtime.executor(), {.batch_size = 10, .seed = 4, .worker_count = 0}),
        model_(make_network(device)),
        optimizer_(Adam({.learning_rate = 1e-2})) {}

  [[nodiscard]] std::int64_t step_count() { return optimizer_.step_count(); }
  void step() {
    std::optional<Batch> batch = loader_.next(device_);
    if (!batch) {
      optimizer_.set_learning_rate(optimizer_.learning_rate() / 3);  // the schedule
      batch = loader_.next(device_);
    }
    auto [loss, gradients] = value_and_grad(model_, [&](const Network& network) {
      return cross_entropy(network.forward(batch->inputs, generator_), batch->targets);
    });
    optimizer_.step(model_, std::move(gradients)).get();
  }
  void save(const std::filesystem::path& file) {
    const TrainingProgress progress{
        .cursor = loader_.cursor(), .generators = {generator_}, .notes = {{"who", "the test"}}};
    save_training(model_, optimizer_, progress, file);
  }
  TrainingProgress load(const std::filesystem::path& file) {
    TrainingProgress progress = load_training(model_, optimizer_, file);
    loader_.seek(progress.cursor);
    generator_ = progress.generators.at(0);
    return progress;
  }
  void finish(const std::filesystem::path& weights) {
    while (step_count() < kSteps) {
      step();
    }
    save_weights(model_, weights);
  }
  [[nodiscard]] const Network& model() const { return model_; }
  [[nodiscard]] double learning_rate() const { return optimizer_.learning_rate(); }

 private:
  Device device_;
  ImageDataset digits_;
  DataLoader loader_;
  Network model_;
  Optimizer optimizer_;
  Generator generator_{11};
};

std::vector<std::byte> bytes_of(const std::filesystem::path& file) {
  return read_file(file).value();
}
void write(const std::filesystem::path& file, const std::vector<std::byte>& bytes) {
  std::filesystem::remove(file);  // otherwise the file system waits for its disk
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

class TrainingState : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path file(const char* name) const { return folder.path() / name; }

  TemporaryFolder folder;
};

TEST_F(TrainingState, EachGeneratorComesBackAtItsPlace) {
  const TestRuntime test;
  Network network = make_network(test.cpu);
  Optimizer optimizer = Sgd({.learning_rate = 0.1});
  std::vector<Generator> generators{Generator(3), Generator(3), Generator(4)};
  for (std::size_t i = 0; i < generators.size(); ++i) {
    for (std::size_t draw = 0; draw < i; ++draw) {
      static_cast<void>(random_normal(test.cpu, {5}, generators[i]));
    }
  }
  save_training(network,
                optimizer,
                {.cursor = {}, .generators = generators, .notes = {}},
                file("state.safetensors"));
  const TrainingProgress loaded = load_training(network, optimizer, file("state.safetensors"));
  ASSERT_EQ(loaded.generators.size(), 3U);
  for (std::size_t i = 0; i < generators.size(); ++i) {
    EXPECT_EQ(loaded.generators[i].seed(), generators[i].seed()) << i;
    EXPECT_EQ(loaded.generators[i].counter(), generators[i].counter()) << i;
  }
}

TEST_F(TrainingState, ARunThatStoppedAnywhereEndsWithTheBitsOfOneThatDidNot) {
  const TestRuntime test;
  Training whole(test.cpu, test.runtime);
  whole.finish(file("whole.safetensors"));
  for (std::int64_t stop = 0; stop <= Training::kSteps; ++stop) {
    {
      Training first(test.cpu, test.runtime);
      while (first.step_count() < stop) {
        first.step();
      }
      first.save(file("state.safetensors"));
    }
    Training second(test.cpu, test.runtime);
    EXPECT_EQ(second.load(file("state.safetensors")).notes, (Metadata{{"who", "the test"}}));
    EXPECT_EQ(second.step_count(), stop);
    second.finish(file("resumed.safetensors"));
    EXPECT_EQ(second.learning_rate(), whole.learning_rate());
    EXPECT_EQ(bytes_of(file("resumed.safetensors")), bytes_of(file("whole.safetensors")))
        << "stopped after step " << stop;
  }
}

TEST_F(TrainingState, AStateOfAnotherModelOrOptimizerIsRefusedAndChangesNothing) {
  const TestRuntime test;
  Training(test.cpu, test.runtime).save(file("state.safetensors"));
  const auto refusal = [&](Network& model, Optimizer& optimizer) {
    const std::vector<float> before = model.inner.weight.to_vector<float>();
    std::string text = "loaded";
    try {
      static_cast<void>(load_training(model, optimizer, file("state.safetensors")));
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_format);
      text = error.what();
    }
    EXPECT_EQ(model.inner.weight.to_vector<float>(), before);
    return text;
  };
  Optimizer adam = Adam({});
  Network wider = make_network(test.cpu, 17);
  EXPECT_THAT(refusal(wider, adam), HasSubstr("'model.inner.weight' is f32[16, 784]"));
  Optimizer sgd = Sgd({.momentum = 0.9});
  Network same = make_network(test.cpu);
  EXPECT_THAT(refusal(same, sgd),
              HasSubstr("the state of a training by Adam, this one is by Sgd with momentum"));
  save_weights(same, file("weights.safetensors"));
}

TEST_F(TrainingState, WeightsAloneAreNoTrainingState) {
  const TestRuntime test;
  Network model = make_network(test.cpu);
  Optimizer sgd = Sgd({});
  std::vector<NamedTensor> tensors = detail::training_tensors(model, sgd);
  write_safetensors(file("state.safetensors"), tensors, {{"hearth.step_count", "minus one"}});
  try {
    static_cast<void>(load_training(model, sgd, file("state.safetensors")));
    FAIL() << "loaded";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'hearth.step_count' is 'minus one': expected a number"));
  }
  write_safetensors(file("state.safetensors"), tensors);
  EXPECT_THROW(static_cast<void>(load_training(model, sgd, file("state.safetensors"))), FileError);
}

struct Scores {
  Tensor p;
  HEARTH_MODULE(Scores, p)
};

/// A step whose gradient is poisoned if `label` is not one of the two classes.
Pending<StepReport> step_towards(std::int64_t label, Scores& scores, Optimizer& optimizer) {
  const Device device = scores.p.device();
  return optimizer.step(scores, value_and_grad(scores, [&](const Scores& tracked) {
                                  return cross_entropy(tracked.p,
                                                       Tensor::from(device, {label}, {1}));
                                }).gradients);
}

/// Saves `count` steps of Adam.
void save_steps(int count, const Device& device, const std::filesystem::path& file) {
  Scores scores{zeros(device, {1, 2})};
  Optimizer adam = Adam({.learning_rate = 0.5});
  for (int i = 0; i < count; ++i) {
    step_towards(0, scores, adam).get();
  }
  save_training(scores, adam, {.cursor = {}}, file);
}

TEST_F(TrainingState, IsWholeWhenTheFirstStepBeforeTheLoadHasFailed) {
  const TestRuntime test;
  for (const int count : {0, 5}) {
    save_steps(count, test.cpu, file("state.safetensors"));
    Scores scores{zeros(test.cpu, {1, 2})};
    Optimizer adam = Adam({});
    ASSERT_FALSE(step_towards(9, scores, adam).wait().has_value());
    static_cast<void>(load_training(scores, adam, file("state.safetensors")));
    save_training(scores, adam, {.cursor = {}}, file("again.safetensors"));
    EXPECT_TRUE(bytes_of(file("again.safetensors")) == bytes_of(file("state.safetensors")))
        << "loaded " << count << " steps";
  }
}

TEST_F(TrainingState, ALearningRateThatIsNoNumberIsRefusedAndChangesNothing) {
  const TestRuntime test;
  Scores scores{zeros(test.cpu, {1, 2})};
  Optimizer adam = Adam({.learning_rate = 0.25});
  for (const char* rate : {"inf", "nan", "-1"}) {
    const Metadata numbers{{"hearth.step_count", "3"},
                           {"hearth.learning_rate", rate},
                           {"hearth.epoch", "0"},
                           {"hearth.batch", "0"},
                           {"hearth.generators", "0"}};
    Scores others{ones(test.cpu, {1, 2})};
    Optimizer of_others = Adam({});
    write_safetensors(
        file("state.safetensors"), detail::training_tensors(others, of_others), numbers);
    try {
      static_cast<void>(load_training(scores, adam, file("state.safetensors")));
      ADD_FAILURE() << rate << " was loaded";
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_format);
      EXPECT_THAT(error.what(), HasSubstr("'hearth.learning_rate' is "));
    }
    EXPECT_EQ(scores.p.to_vector<float>(), (std::vector<float>{0, 0}));
    EXPECT_EQ(adam.learning_rate(), 0.25);
    EXPECT_EQ(adam.step_count(), 0);
  }
}

struct Shifted {
  Tensor p;
  Buffer mean;
  HEARTH_MODULE(Shifted, p, mean)
};

TEST_F(TrainingState, ABufferThatSkippedStepsIsRefusedAndChangesNothing) {
  const TestRuntime test;
  const Metadata numbers{{"hearth.step_count", "3"},
                         {"hearth.learning_rate", "0.5"},
                         {"hearth.epoch", "0"},
                         {"hearth.batch", "0"},
                         {"hearth.generators", "0"},
                         {"hearth.skipped.mean", "1"}};
  Shifted written{.p = ones(test.cpu, {2}), .mean = ones(test.cpu, {2})};
  Optimizer of_written = Adam({});
  write_safetensors(
      file("state.safetensors"), detail::training_tensors(written, of_written), numbers);
  Shifted model{.p = zeros(test.cpu, {2}), .mean = zeros(test.cpu, {2})};
  Optimizer adam = Adam({.learning_rate = 0.25});
  try {
    static_cast<void>(load_training(model, adam, file("state.safetensors")));
    ADD_FAILURE() << "it was loaded";
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_format);
    EXPECT_THAT(error.what(), HasSubstr("'hearth.skipped.mean' is 1: expected a parameter"));
  }
  EXPECT_EQ(adam.learning_rate(), 0.25);
  EXPECT_EQ(model.p.to_vector<float>(), (std::vector<float>{0, 0}));
}

// On reading, each of these names could pass for one of the library's own.
TEST_F(TrainingState, NotesOfTheLibrarysNamesAreRefusedByEachWriterAndTheOldFileStays) {
  const TestRuntime test;
  Scores scores{ones(test.cpu, {1, 2})};
  Optimizer adam = Adam({});
  const auto state = file("state.safetensors");
  save_training(scores, adam, {.cursor = {}, .notes = {{"who", "the test"}}}, state);
  save_weights(scores, file("weights.safetensors"), {{"who", "the test"}});
  const std::vector<std::byte> old_state = bytes_of(state);
  const std::vector<std::byte> old_weights = bytes_of(file("weights.safetensors"));
  for (const std::string name : {"hearth.",
                                 "hearth.x",
                                 "hearth.skipped.x",
                                 "hearth.skipped.p",
                                 "hearth.step_count",
                                 "hearth.average_updates",
                                 "hearth.xxh3_64"}) {
    const auto expect_refused = [&](const std::string& writer, const auto& write) {
      try {
        write();
        ADD_FAILURE() << writer << " took " << name;
      } catch (const ArgumentError& error) {
        EXPECT_EQ(error.error().text,
                  writer + ": the note '" + name +
                      "' begins with 'hearth.', as names of the library "
                      "do: give it another name");
      }
    };
    expect_refused("save_training", [&] {
      save_training(scores, adam, {.cursor = {}, .notes = {{name, "1"}}}, state);
    });
    expect_refused("save_weights", [&] {
      save_weights(scores, file("weights.safetensors"), {{name, "1"}});
    });
  }
  EXPECT_TRUE(bytes_of(state) == old_state);
  EXPECT_TRUE(bytes_of(file("weights.safetensors")) == old_weights);
}

// Any other note is restored unchanged, or refused before the file is touched.
TEST_F(TrainingState, NotesOfOddNamesComeBackOrAreRefused) {
  const TestRuntime test;
  Scores scores{ones(test.cpu, {1, 2})};
  Optimizer adam = Adam({});
  const Metadata odd{{"", "without a name"},
                     {std::string("nul\0here", 8), std::string("a\0b", 3)},
                     {std::string(100'000, 'n'), std::string(1'000'000, 't')},
                     {"hearth", "no dot"},
                     {"Hearth.x", "another word"},
                     {"\"quoted\"\\\n\t", "\xc3\xa9"},
                     {"__metadata__", "as the format's own"},
                     {"model.p", "as a tensor's"}};
  save_training(scores, adam, {.cursor = {}, .notes = odd}, file("state.safetensors"));
  EXPECT_TRUE(load_training(scores, adam, file("state.safetensors")).notes == odd);
  const std::vector<std::byte> old = bytes_of(file("state.safetensors"));
  for (const Metadata& wrong :
       {Metadata{{"\xff", ""}}, Metadata{{"a", "\xc3"}}, Metadata{{"\xed\xa0\x80", ""}}}) {
    EXPECT_THROW(
        save_training(scores, adam, {.cursor = {}, .notes = wrong}, file("state.safetensors")),
        ArgumentError);
    EXPECT_TRUE(bytes_of(file("state.safetensors")) == old);
  }
}

TEST_F(TrainingState, AFlippedBitAnywhereInTheFileIsRefused) {
  const TestRuntime test;
  save_steps(3, test.cpu, file("state.safetensors"));
  const std::vector<std::byte> good = bytes_of(file("state.safetensors"));
  Scores scores{zeros(test.cpu, {1, 2})};
  Optimizer adam = Adam({});
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::vector<std::byte> bad = good;
    bad[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    write(file("state.safetensors"), bad);
    EXPECT_THROW(static_cast<void>(load_training(scores, adam, file("state.safetensors"))),
                 FileError)
        << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

TEST_F(TrainingState, AStateThatAnotherProgramWroteIsRefused) {
  const TestRuntime test;
  Scores scores{zeros(test.cpu, {1, 2})};
  Optimizer sgd = Sgd({});
  const std::string header =
      R"({"__metadata__":{"hearth.batch":"0","hearth.epoch":"0","hearth.generators":"0",)"
      R"("hearth.learning_rate":"0.5","hearth.step_count":"3","hearth.xxh3_64":"0123456789abcdef"},)"
      R"("model.p":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  const std::uint64_t length = header.size();
  std::vector<std::byte> bytes;
  for (const auto part : {std::as_bytes(std::span(&length, 1)), std::as_bytes(std::span(header))}) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  bytes.resize(bytes.size() + 8);
  write(file("state.safetensors"), bytes);
  try {
    static_cast<void>(load_training(scores, sgd, file("state.safetensors")));
    ADD_FAILURE() << "loaded";
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_format);
    EXPECT_THAT(error.what(), HasSubstr("state.safetensors: "));
    EXPECT_THAT(error.what(), HasSubstr("not as save_training() writes it"));
  }
  EXPECT_EQ(sgd.step_count(), 0);
}

TEST_F(TrainingState, ALoadThatMeetsAStepWithoutEndChangesNothing) {
  ManualExecutor executor;
  executor.run([&] {
    const Runtime runtime({.devices = {{.name = "cpu:0"}}, .executor = &executor});
    const Device device = runtime.device("cpu:0");
    save_steps(3, device, file("state.safetensors"));
    Scores scores{zeros(device, {1, 2})};
    Optimizer adam = Adam({.learning_rate = 0.25});
    const auto decision = std::make_shared<UpdateDecision>();
    PreparedUpdate held;  // stays undecided
    const Pending<StepReport> step = adam.step(
        scores,
        Gradients({"p"}, {ones(device, {1, 2})}),
        {.decision = decision,
         .prepared = [&](Result<PreparedUpdate> update) { held = std::move(update).value(); }});
    EXPECT_THROW(static_cast<void>(load_training(scores, adam, file("state.safetensors"))),
                 DeadlineExceeded);
    ASSERT_TRUE(held.is_valid());
    held = {};
    EXPECT_FALSE(step.wait().has_value());
    EXPECT_EQ(scores.p.to_vector<float>(), (std::vector<float>{0, 0}));
    EXPECT_EQ(adam.learning_rate(), 0.25);
    EXPECT_EQ(adam.step_count(), 0);
  });
}

// The step is decided when the wait for it ends. In either order, a returned count includes the
// step.
TEST_F(TrainingState, AStepThatEndsAsItsWaitDoesIsCountedOrTheWaitIsLate) {
  int late = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    ManualExecutor executor(seed);
    executor.run([&] {
      constexpr std::chrono::seconds kLimit{2};
      // The report of waiting threads takes time, in which the step may end.
      const Runtime runtime({.devices = {{.name = "cpu:0"}},
                             .wait_limit = kLimit,
                             .eager_reports = true,
                             .executor = &executor});
      const Device device = runtime.device("cpu:0");
      Scores scores{zeros(device, {1, 2})};
      Optimizer adam = Adam({.learning_rate = 0.25});
      const auto decision = std::make_shared<UpdateDecision>();
      PreparedUpdate held;
      const Pending<StepReport> step = adam.step(
          scores,
          Gradients({"p"}, {ones(device, {1, 2})}),
          {.decision = decision,
           .prepared = [&](Result<PreparedUpdate> update) { held = std::move(update).value(); }});
      detail::current_context().parker().park(Deadline::in(std::chrono::milliseconds(1)));
      ASSERT_TRUE(held.is_valid());
      const auto decider = executor.spawn({.name = "decider"}, [&] {
        detail::current_context().parker().park(Deadline::in(kLimit));
        EXPECT_TRUE(decision->commit());
        held.settle();
      });
      try {
        EXPECT_EQ(adam.step_count(), 1) << "seed " << seed;
      } catch (const DeadlineExceeded&) {
        ++late;
      }
      decider->join();
      EXPECT_EQ(adam.step_count(), 1);
    });
  }
  EXPECT_LT(late, 40);
}

// ---- kill -9 ----

/// The body of the killed program: resumes from the state, if there is one, and saves after each
/// step. Each byte in the pipe marks a completed step whose save begins.
[[noreturn]] void run_child(const std::filesystem::path& state,
                            const std::filesystem::path& weights,
                            int pipe_end) {
  {
    const Runtime runtime({.devices = {{.name = "cpu:0"}}});
    Training run(runtime.device("cpu:0"), runtime);
    if (std::filesystem::exists(state)) {
      run.load(state);
    }
    while (run.step_count() < Training::kSteps) {
      run.step();
      if (::write(pipe_end, "s", 1) != 1) {
        std::_Exit(2);
      }
      run.save(state);
    }
    run.finish(weights);
  }
  std::_Exit(0);
}

/// Starts the program and kills it at a random time after a save has begun; returns whether it was
/// killed before its end.
bool run_and_kill(const std::filesystem::path& state,
                  const std::filesystem::path& weights,
                  std::mt19937& random) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    run_child(state, weights, ends[1]);
  }
  ::close(ends[1]);
  char byte = 0;
  const auto saves = 1 + random() % 3;
  bool goes_on = true;
  for (auto i = saves; i > 0 && goes_on; --i) {
    goes_on = ::read(ends[0], &byte, 1) == 1;
  }
  // A save takes some hundred microseconds: some kills precede it, most hit it, some follow it.
  std::atomic<int> spins{static_cast<int>(random() % 200'000)};
  while (spins.fetch_sub(1, std::memory_order_acq_rel) > 0) {
  }
  ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  ::close(ends[0]);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "the program failed by itself";
  return WIFSIGNALED(status);
}

// RESUME_KILLS=200 runs the full number.
TEST_F(TrainingState, KilledAtAnyPointOfASaveARunGoesOnToTheSameBits) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer lets no forked process start threads";
#endif
  const char* const count = std::getenv("RESUME_KILLS");
  const int kills = count != nullptr ? std::atoi(count) : 12;
  std::random_device device;
  const auto seed = device();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto whole = file("whole.safetensors");
  {
    const TestRuntime test;
    Training run(test.cpu, test.runtime);
    run.finish(whole);
  }
  int killed = 0;
  for (int round = 0; killed < kills; ++round) {
    ASSERT_LT(round, 2 * kills + 10) << "the program ends before it is killed";
    const auto state = file(("state" + std::to_string(round) + ".safetensors").c_str());
    const auto weights = file(("weights" + std::to_string(round) + ".safetensors").c_str());
    while (run_and_kill(state, weights, random)) {
      ++killed;
    }
    ASSERT_EQ(bytes_of(weights), bytes_of(whole)) << "after " << killed << " kills";
  }
}

}  // namespace
}  // namespace hearth
