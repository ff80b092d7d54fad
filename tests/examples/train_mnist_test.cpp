// train_mnist as a user runs it: output, Ctrl-C, resuming, and every kind of bad input.
#include <gmock/gmock.h>

#include <hearth/runtime/base/pending.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "program.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/idx_bytes.hpp"

namespace hearth::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

/// The number of finished epochs that a run of 1,000,000 has reported.
int epochs_told(const std::string& out) {
  int count = 0;
  while (out.find("\nepoch " + std::to_string(count + 1) + "/1000000 ") != std::string::npos) {
    ++count;
  }
  return count;
}

class TrainMnist : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder.path() / name).string();
  }
  void write(const std::string& name, const Bytes& bytes) const {
    std::ofstream stream(folder.path() / name, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
  }
  /// Writes only test files, of `count` pictures of side×side.
  void write_digits(std::uint32_t count, std::uint32_t side) const {
    Bytes pixels;
    Bytes labels;
    for (std::uint32_t i = 0; i < count; ++i) {
      labels.push_back(static_cast<std::uint8_t>(i % 10));
      pixels.insert(pixels.end(), std::size_t{side} * side, static_cast<std::uint8_t>(i % 10 * 25));
    }
    write("t10k-images-idx3-ubyte", idx_bytes({count, side, side}, pixels));
    write("t10k-labels-idx1-ubyte", idx_bytes({count}, labels));
  }
  /// Arguments of a short run on the files in the folder; options in `more` replace them.
  [[nodiscard]] std::vector<std::string> arguments(
      const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = more;
    const auto add = [&](const std::string& option, const std::string& value) {
      if (std::ranges::find(more, option) == more.end()) {
        words.insert(words.end(), {option, value});
      }
    };
    add("--data", folder.path().string());
    add("--model", "mlp");
    add("--batch-size", "10");
    add("--checkpoint", path("checkpoint"));
    return words;
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& text) const {
    const Outcome outcome = run("train_mnist", words);
    EXPECT_NE(outcome.exit_code, 0) << outcome.out;
    EXPECT_NE(outcome.exit_code, -1) << "it crashed: " << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(text));
  }

  TemporaryFolder folder;
};

TEST_F(TrainMnist, WritesItsFiguresAndWeights) {
  write_digits(50, 6);
  const Outcome outcome =
      run("train_mnist", arguments({"--epochs", "2", "--json", path("figures.json")}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("the first 40 of the 50 test images train, the last 10 test"));
  const nlohmann::json figures = nlohmann::json::parse(std::ifstream(path("figures.json")));
  EXPECT_EQ(figures.at("devices"), nlohmann::json({"cpu:0", "cpu:1"}));
  EXPECT_EQ(figures.at("epochs"), 2);
  EXPECT_EQ(figures.at("train_loss").size(), 2U);
  EXPECT_TRUE(figures.at("interrupted").is_null());
  EXPECT_GE(figures.at("test_accuracy").get<double>(), 0);
  EXPECT_LE(figures.at("test_accuracy").get<double>(), 1);
  EXPECT_GT(figures.at("samples_per_s").get<double>(), 0);
  EXPECT_GT(figures.at("step_us").get<double>(), 0);
  EXPECT_EQ(figures.at("peak_bytes").size(), 2U);
  EXPECT_GT(figures.at("peak_bytes").at(1).get<std::int64_t>(), 0);
  EXPECT_TRUE(std::filesystem::exists(path("checkpoint/model.safetensors")));
}

#ifdef HEARTH_TEST_VULKAN
// Bars, one for each digit, under noise that differs from picture to picture.
TEST_F(TrainMnist, ACnnOnVulkanLearnsWhatItLearnsOnTheCpu) {
  constexpr std::uint32_t kCount = 300;
  constexpr std::uint32_t kSide = 10;
  Bytes pixels;
  Bytes labels;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    labels.push_back(static_cast<std::uint8_t>(i % 10));
    for (std::uint32_t at = 0; at < kSide * kSide; ++at) {
      const std::uint32_t noise = (i * 7919 + at * 104729) % 61;
      pixels.push_back(static_cast<std::uint8_t>(noise + (at % kSide == i % 10 ? 90 : 0)));
    }
  }
  write("t10k-images-idx3-ubyte", idx_bytes({kCount, kSide, kSide}, pixels));
  write("t10k-labels-idx1-ubyte", idx_bytes({kCount}, labels));
  std::vector<nlohmann::json> figures;
  for (const std::string device : {"cpu:0", "vulkan:0"}) {
    const Outcome outcome = run("train_mnist",
                                arguments({"--devices",
                                           device,
                                           "--model",
                                           "cnn",
                                           "--epochs",
                                           "3",
                                           "--batch-size",
                                           "20",
                                           "--json",
                                           path(device + ".json")}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out;
    figures.push_back(nlohmann::json::parse(std::ifstream(path(device + ".json"))));
    EXPECT_EQ(figures.back().at("devices"), nlohmann::json({device}));
  }
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_NEAR(figures[1].at("train_loss").at(epoch).get<double>(),
                figures[0].at("train_loss").at(epoch).get<double>(),
                2e-3)
        << "epoch " << epoch;
  }
  EXPECT_GE(figures[0].at("test_accuracy").get<double>(), 0.95);
  EXPECT_NEAR(figures[1].at("test_accuracy").get<double>(),
              figures[0].at("test_accuracy").get<double>(),
              0.02);
}
#endif

TEST_F(TrainMnist, ModelsFitThePicturesTheyAreGiven) {
  write_digits(30, 9);
  const Outcome outcome = run("train_mnist",
                              {"--data",
                               folder.path().string(),
                               "--model",
                               "cnn",
                               "--epochs",
                               "1",
                               "--checkpoint",
                               path("c")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  write_digits(30, 3);
  expect_refused({"--data", folder.path().string(), "--model", "cnn", "--checkpoint", path("c")},
                 "--model cnn needs images of 4x4 pixels or more");
}

TEST_F(TrainMnist, SigtermEndsItLikeCtrlC) {
  write_digits(400, 6);
  Program stopped("train_mnist",
                  arguments({"--epochs", "1000000", "--json", path("figures.json")}));
  ASSERT_TRUE(stopped.wait_for("\nepoch 1/"));
  stopped.send(SIGTERM);
  const Outcome at_stop = stopped.finish();
  EXPECT_EQ(at_stop.exit_code, 0) << at_stop.out;
  EXPECT_THAT(at_stop.out, AllOf(HasSubstr("batches, saved:"), HasSubstr("weights: ")));
  EXPECT_TRUE(std::filesystem::exists(path("checkpoint/training.safetensors")));
  EXPECT_THAT(at_stop.out,
              ContainsRegex("epoch [0-9]+/1000000 interrupted after [0-9]+ of [0-9]+ batches"));
  const nlohmann::json end =
      nlohmann::json::parse(std::ifstream(path("figures.json"))).at("interrupted");
  EXPECT_GE(end.at("epoch"), 1);
  EXPECT_GE(end.at("batches"), 1);
  EXPECT_LE(end.at("batches"), end.at("of"));
}

// The process is stopped longer than each of its deadlines (5 s, and 3 s for a rank's answer); the
// training goes on.
TEST_F(TrainMnist, AProcessThatWasStoppedForLongLosesNoStep) {
  write_digits(400, 6);
  Program stopped("train_mnist", arguments({"--epochs", "1000000"}));
  ASSERT_TRUE(stopped.wait_for("\nepoch 1/"));
  stopped.send(SIGSTOP);
  const Promise<void> nobody;
  EXPECT_FALSE(
      detail::PendingAccess::is_ready_by(nobody.pending(), Deadline::in(std::chrono::seconds(9))));
  stopped.forget_output();
  stopped.send(SIGCONT);
  for (int epoch = 0; epoch < 3; ++epoch) {
    ASSERT_TRUE(stopped.wait_for("\nepoch ")) << "the first may be from before it was stopped";
    stopped.forget_output();
  }
  stopped.send(SIGINT);
  const Outcome at_stop = stopped.finish();
  EXPECT_EQ(at_stop.exit_code, 0) << at_stop.out;
  EXPECT_THAT(at_stop.out, HasSubstr("weights: "));
}

TEST_F(TrainMnist, CtrlCFinishesTheStepAndSaves) {
  write_digits(400, 6);
  Program stopped("train_mnist", arguments({"--epochs", "1000000"}));
  ASSERT_TRUE(stopped.wait_for("\nepoch 1/"));
  stopped.send(SIGINT);
  const Outcome at_stop = stopped.finish();
  EXPECT_EQ(at_stop.exit_code, 0) << at_stop.out;
  EXPECT_THAT(at_stop.out, AllOf(HasSubstr("batches, saved:"), HasSubstr("weights: ")));
}

// The remaining output may end the program by SIGPIPE after all files are written.
TEST_F(TrainMnist, AClosedPipeLosesNoModel) {
  write_digits(400, 6);
  Program piped("train_mnist", arguments({"--epochs", "3", "--json", path("figures.json")}));
  ASSERT_TRUE(piped.wait_for("\nepoch 1/"));
  piped.close_output();
  const Outcome at_end = piped.finish();
  EXPECT_TRUE(at_end.exit_code == 0 || at_end.signal == SIGPIPE) << at_end.exit_code;
  EXPECT_TRUE(std::filesystem::exists(path("checkpoint/model.safetensors")));
  const nlohmann::json end = nlohmann::json::parse(std::ifstream(path("figures.json")));
  EXPECT_EQ(end.at("epochs"), 3);
  EXPECT_TRUE(end.at("interrupted").is_null());
}

TEST_F(TrainMnist, ASecondRunInAFolderIsRefusedUntilTheFirstEnds) {
  write_digits(400, 6);
  Program first("train_mnist", arguments({"--epochs", "1000000"}));
  ASSERT_TRUE(first.wait_for("\nepoch 1/"));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--epochs", "1"}, {"--epochs", "1", "--resume"}}) {
    const Outcome refused = run("train_mnist", arguments(more));
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(
        refused.out,
        ContainsRegex("checkpoint.*held by process [0-9]+ \\(train_mnist\\) on .+ since 2"));
  }
  first.send(SIGKILL);
  static_cast<void>(first.finish());
  EXPECT_TRUE(std::filesystem::exists(path("checkpoint/training.lock")));
  EXPECT_EQ(run("train_mnist", arguments({"--epochs", "1"})).exit_code, 0) << "it takes over";
  EXPECT_FALSE(std::filesystem::exists(path("checkpoint/training.lock")));
}

TEST_F(TrainMnist, AKilledRunThatIsResumedEndsWithTheBitsOfAWholeOne) {
  write_digits(400, 6);
  Program killed("train_mnist", arguments({"--epochs", "1000000", "--save-every", "1"}));
  ASSERT_TRUE(killed.wait_for("\nepoch 1/"));
  killed.send(SIGKILL);
  const Outcome at_kill = killed.finish();
  ASSERT_EQ(at_kill.exit_code, -1) << at_kill.out;
  // However late the signal: the state is at most one epoch ahead of the last report.
  const std::string epochs = std::to_string(epochs_told(at_kill.out) + 3);
  const Outcome resumed =
      run("train_mnist", arguments({"--epochs", epochs, "--resume", "--json", path("on.json")}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, HasSubstr("resumed at epoch "));
  const Bytes weights = bytes_of(path("checkpoint/model.safetensors"));

  std::filesystem::remove_all(path("checkpoint"));
  const Outcome whole =
      run("train_mnist", arguments({"--epochs", epochs, "--json", path("whole.json")}));
  ASSERT_EQ(whole.exit_code, 0) << whole.out;
  EXPECT_EQ(bytes_of(path("checkpoint/model.safetensors")), weights);
  const auto loss = [&](const char* name) {
    return nlohmann::json::parse(std::ifstream(path(name))).at("train_loss");
  };
  EXPECT_EQ(loss("on.json"), loss("whole.json"));
}

TEST_F(TrainMnist, ARunOfOtherSettingsIsNotResumed) {
  write_digits(30, 4);
  const Outcome first = run("train_mnist", arguments({"--resume", "--epochs", "1"}));
  ASSERT_EQ(first.exit_code, 0) << first.out;
  EXPECT_THAT(first.out, HasSubstr("nothing to resume in"));
  expect_refused(arguments({"--resume", "--batch-size", "20"}), "had batch_size 10");
  expect_refused(arguments({"--resume", "--model", "cnn"}), "had model mlp");
  expect_refused(arguments({"--resume", "--devices", "cpu:0"}), "had devices 2, this one has 1");
  const Outcome faster =
      run("train_mnist", arguments({"--resume", "--epochs", "2", "--lr", "0.5"}));
  EXPECT_EQ(faster.exit_code, 0) << faster.out;
  EXPECT_THAT(faster.out,
              HasSubstr("resumed at epoch 2, batch 1; epochs 2 instead of the saved run's 1; "
                        "learning rate 0.5 instead of the saved run's 0.001"));
}

TEST_F(TrainMnist, BadInputIsRefusedWithWhatWasExpected) {
  expect_refused(arguments({"--json", path("none.json")}), "expected t10k-images-idx3-ubyte");
  EXPECT_FALSE(std::filesystem::exists(path("none.json")));
  for (const char* rate : {"nan", "0", "-1"}) {
    const Outcome refused = run("train_mnist", arguments({"--lr", rate}));
    EXPECT_NE(refused.exit_code, 0);
    EXPECT_THAT(refused.out, HasSubstr("is not above 0 and at most 1000"));
  }
  write_digits(0, 4);
  expect_refused(arguments(), "t10k-images-idx3-ubyte: at byte 4: the count is 0, expected images");
  write_digits(30, 4);
  expect_refused(arguments({"--devices", "cpu:0,gpu:0"}), "no device 'gpu:0'");
  expect_refused(arguments({"--devices", "cpu:0,cpu:0"}), "two devices are called 'cpu:0'");
  expect_refused(arguments({"--model", "transformer"}), "--model");
  expect_refused(arguments({"--epochs", "0"}), "--epochs");
  expect_refused({"--data", "mnist", "--data", "there"}, "--data");
  expect_refused({"--data", path("nowhere"), "--checkpoint", path("c")}, "nowhere");
  Bytes images = bytes_of(path("t10k-images-idx3-ubyte"));
  images.pop_back();
  write("t10k-images-idx3-ubyte", images);
  expect_refused(arguments(), "the file ends, expected 480 values");
  images[2] = 13;
  write("t10k-images-idx3-ubyte", images);
  expect_refused(arguments(), "the element type is 13, expected 8");
}

TEST_F(TrainMnist, ALossThatIsNoNumberEndsTheRunWithItsStep) {
  write_digits(40, 6);
  const Outcome outcome =
      run("train_mnist", arguments({"--optimizer", "sgd", "--lr", "1000", "--epochs", "50"}));
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr(": step "), HasSubstr("the loss of rank "), Not(HasSubstr("terminate"))));
}

TEST_F(TrainMnist, AFolderThatCannotBeWrittenIsFoundOutBeforeTheTraining) {
  write_digits(30, 4);
  write("file", {1});
  expect_refused(arguments({"--checkpoint", path("file/below")}), "file/below");
  expect_refused(arguments({"--json", path("missing/figures.json")}), "cannot write");
}

}  // namespace
}  // namespace hearth::testing
