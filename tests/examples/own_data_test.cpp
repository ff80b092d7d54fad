// The examples that read the user's data: on generated data, and their messages when a file is
// missing.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "program.hpp"
#include "tests/base/temporary_folder.hpp"

namespace hearth::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// The number after `words` in a program's output.
double figure(const std::string& out, const std::string& words) {
  const std::size_t place = out.rfind(words);
  EXPECT_NE(place, std::string::npos) << out;
  return place == std::string::npos ? 0 : std::stod(out.substr(place + words.size()));
}

class OwnData : public ::testing::Test {
 protected:
  OwnData() { ::unsetenv("HEARTH_DATA_DIR"); }  // NOLINT(concurrency-mt-unsafe)
};

TEST_F(OwnData, HousingLearnsPrices) {
  const Outcome outcome = run("housing");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_GT(figure(outcome.out, "held-out rows: R2 "), 0.95);
}

TEST_F(OwnData, TextsAreClassified) {
  const Outcome outcome = run("text_classification");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("1200 texts to train, 300 to test"));
  EXPECT_GT(figure(outcome.out, "the other texts: "), 90) << outcome.out;
}

TEST_F(OwnData, AClassifierOfTextsIsKeptAndBegunWith) {
  const TemporaryFolder folder;
  const std::string kept = folder.path() / "news";
  const Outcome outcome = run("text_classification", {"--folder", kept, "--epochs", "3"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  for (const char* name : {"model.safetensors", "words.txt", "metrics.csv", "report.html"}) {
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "news" / name)) << name;
  }
  const Outcome again = run("text_classification", {"--weights", kept, "--epochs", "1"});
  EXPECT_EQ(again.exit_code, 0) << again.out;
  EXPECT_GT(figure(again.out, "the other texts: "), 95) << again.out;
}

TEST_F(OwnData, TheGptLearnsToCount) {
  const Outcome outcome = run("char_gpt", {"--steps", "40"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_LT(figure(outcome.out, "held-out text: loss "), 2.3) << "of guessing it is 3";
  EXPECT_THAT(outcome.out, HasSubstr("it writes:\nt"));
}

TEST_F(OwnData, TheGptLearnsOnTwoDevicesToo) {
  const Outcome outcome = run("char_gpt", {"--steps", "40", "--devices", "cpu:0,cpu:1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_LT(figure(outcome.out, "held-out text: loss "), 2.3) << "of guessing it is 3";
}

TEST_F(OwnData, AGptOfAnySizeReportsItsRateAndGoesOnWhereItStopped) {
  const TemporaryFolder folder;
  const std::vector<std::string> options = {"--layers=2",
                                            "--width=64",
                                            "--heads=2",
                                            "--context=31",
                                            "--peak-tflops=1",
                                            "--warmup=2",
                                            "--lr=0.003",
                                            "--folder",
                                            (folder.path() / "run").string()};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), options.begin(), options.end());
    return run("train_gpt", more);
  };
  const Outcome outcome = with({"--steps=40"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(
      outcome.out,
      ContainsRegex("step +40  loss [0-9.]+  rate [0-9.e-]+ +[0-9]+ tokens/s  MFU [0-9.]+ %"));
  EXPECT_LT(figure(outcome.out, "held-out text: "), 4.5) << "bits; of guessing it is 8";
  const Outcome again = with({"--steps=60", "--resume"});
  EXPECT_EQ(again.exit_code, 0) << again.out;
  EXPECT_THAT(again.out, ContainsRegex("step +60 "));
  EXPECT_THAT(again.out, Not(ContainsRegex("step +40 ")));
  EXPECT_LT(figure(again.out, "held-out text: "), figure(outcome.out, "held-out text: "));
  const Outcome half = run("train_gpt",
                           {"--layers=2",
                            "--width=64",
                            "--heads=2",
                            "--context=31",
                            "--lr=0.003",
                            "--warmup=2",
                            "--steps=40",
                            "--precision=bf16"});
  EXPECT_EQ(half.exit_code, 0) << half.out;
  EXPECT_NEAR(figure(half.out, "held-out text: "), figure(outcome.out, "held-out text: "), 0.3);
}

TEST_F(OwnData, ADataSetOfOnesOwnIsLearnedAndItsErrorsKeepTheirWords) {
  const Outcome outcome = run("custom_dataset");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_GT(figure(outcome.out, "did not see: "), 90);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("of MappedDataset of Spirals could not be read"),
                    HasSubstr("the spiral is broken")));
}

TEST_F(OwnData, ALoopOfOnesOwnLearnsAndGoesOnWhereItWasSaved) {
  const TemporaryFolder folder;
  const Outcome outcome = run("custom_training_loop", {folder.path().string()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_GT(figure(outcome.out, "epoch 3: "), 80) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("trained; weights and state lie in "));
  const Outcome again = run("custom_training_loop", {folder.path().string()});
  EXPECT_EQ(again.exit_code, 0) << again.out;
  EXPECT_THAT(again.out, HasSubstr("going on at batch "));
  EXPECT_EQ(figure(again.out, "epoch 3: "), figure(outcome.out, "epoch 3: "))
      << outcome.out << again.out;
}

TEST_F(OwnData, WeightsOfAnotherProgramAreLoadedAndListed) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const Outcome outcome = run("import_weights");
  std::filesystem::current_path(before);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("fc2.bias is f64[3]\n"));
  EXPECT_THAT(outcome.out, HasSubstr("loaded; not used: steps\n"));
  const Outcome list = run("import_weights", {(folder.path() / "imported.safetensors").string()});
  EXPECT_EQ(list.exit_code, 0) << list.out;
  EXPECT_THAT(list.out, HasSubstr("fc1.weight is f64[8, 4]\n"));
  const Outcome missing = run("import_weights", {"no-such.pt"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.out, HasSubstr("no-such.pt"));
}

TEST_F(OwnData, AMissingFileIsNamed) {
  const TemporaryFolder folder;
  ::setenv("HEARTH_DATA_DIR", folder.path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  for (const char* name : {"housing", "text_classification", "char_gpt"}) {
    const Outcome outcome = run(name);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
    EXPECT_THAT(outcome.out, ContainsRegex("(housing|test)[.]csv|input[.]txt"));
  }
  ::unsetenv("HEARTH_DATA_DIR");  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace hearth::testing
