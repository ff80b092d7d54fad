// concurrent_inference as a user runs it: on the file of train_mnist, without a file, and on a
// missing file.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "program.hpp"
#include "tests/base/temporary_folder.hpp"

namespace hearth::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(ConcurrentInference, ServesTheModelThatTrainMnistSaved) {
  const TemporaryFolder folder;
  const std::string weights = (folder.path() / "ck").string();
  const Outcome trained =
      run("train_mnist", {"--model", "cnn", "--epochs", "1", "--checkpoint", weights});
  ASSERT_EQ(trained.exit_code, 0) << trained.out;
  const Outcome served =
      run("concurrent_inference", {"--weights", weights, "--clients", "5", "--seconds", "0.3"});
  EXPECT_EQ(served.exit_code, 0) << served.out;
  EXPECT_THAT(served.out,
              AllOf(HasSubstr("cnn from " + weights),
                    HasSubstr("images of 'builtin' for 5 clients"),
                    ContainsRegex("requests/s  p50 +[0-9]+ us  p99 +[0-9]+ us  memory"),
                    ContainsRegex("cpu:1 +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +(9[0-9]|100)\\.[0-9]+ %"),
                    ContainsRegex("all +[0-9]+ .* (9[0-9]|100)\\.[0-9]+ %")));
}

TEST(ConcurrentInference, SaysWhenItDoesNotFindThePicturesOfTheTraining) {
  const TemporaryFolder folder;
  const std::string weights = (folder.path() / "ck").string();
  ASSERT_EQ(
      run("train_mnist", {"--model", "mlp", "--epochs", "1", "--checkpoint", weights}).exit_code,
      0);
  const Outcome elsewhere =
      run("concurrent_inference", {"--weights", weights, "--data", folder.path().string()});
  EXPECT_EQ(elsewhere.exit_code, 1);
  EXPECT_THAT(elsewhere.out, HasSubstr("t10k-images-idx3-ubyte"));
  for (const char* seconds : {"0", "nan"}) {
    const Outcome refused =
        run("concurrent_inference", {"--weights", weights, "--seconds", seconds});
    EXPECT_NE(refused.exit_code, 0);
    EXPECT_THAT(refused.out, HasSubstr("not above 0"));
  }
}

TEST(ConcurrentInference, ShedsWhatItCannotAnswerInTime) {
  const TemporaryFolder folder;
  const std::string weights = (folder.path() / "ck").string();
  ASSERT_EQ(
      run("train_mnist", {"--model", "mlp", "--epochs", "1", "--checkpoint", weights}).exit_code,
      0);
  const std::vector<std::string> asked{"--weights", weights, "--clients", "4", "--seconds", "0.5"};
  const auto run_with = [&asked](std::vector<std::string> more) {
    more.insert(more.end(), asked.begin(), asked.end());
    return run("concurrent_inference", more);
  };
  const Outcome loaded = run_with({"--load", "4", "--limit-ms", "40"});
  EXPECT_EQ(loaded.exit_code, 0) << loaded.out;
  EXPECT_THAT(loaded.out,
              AllOf(HasSubstr("4.0 times that, each request with 40 ms"),
                    ContainsRegex("answered +answers/s .* right +shed +late"),
                    ContainsRegex("all +[0-9]+ .* (9[0-9]|100)\\.[0-9]+ % +[1-9][0-9]* +[0-9]+"),
                    ContainsRegex("capacity [1-9][0-9]* requests/s, offered [1-9][0-9]*, answered "
                                  "in time [1-9][0-9]* \\([0-9.]+ of the capacity\\), shed "
                                  "[1-9][0-9]*, late [0-9]+")));
  // No request is answered within a nanosecond: each one is cancelled, and the program goes on.
  const Outcome hasty = run_with({"--limit-ms", "0.000001"});
  EXPECT_EQ(hasty.exit_code, 0) << hasty.out;
  EXPECT_THAT(hasty.out, ContainsRegex("all +0 +0 +0 +0 +0\\.00 % +0 +[1-9][0-9]*"));
  EXPECT_THAT(run_with({"--limit-ms", "0"}).out, HasSubstr("not above 0"));
  EXPECT_THAT(run_with({"--load", "nan"}).out, HasSubstr("not above 0"));
}

TEST(ConcurrentInference, RefusesWeightsAndDevicesThatAreNotThere) {
  const TemporaryFolder folder;
  const Outcome weights =
      run("concurrent_inference", {"--weights", (folder.path() / "none").string()});
  EXPECT_EQ(weights.exit_code, 1);
  EXPECT_THAT(weights.out, HasSubstr("none/model.safetensors: cannot open"));
  const Outcome device = run("concurrent_inference", {"--devices", "gpu:0"});
  EXPECT_EQ(device.exit_code, 1);
  EXPECT_THAT(device.out, HasSubstr("no device 'gpu:0'"));
}

}  // namespace
}  // namespace hearth::testing
