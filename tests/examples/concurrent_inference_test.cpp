// concurrent_inference as a user runs it: on what train_mnist saved, on nothing, and on what is not there.
#include <gmock/gmock.h>

#include <string>

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
                    HasSubstr("pictures of 'builtin' by 5 clients"),
                    ContainsRegex("requests/s  p50 +[0-9]+ us  p99 +[0-9]+ us  memory"),
                    ContainsRegex("cpu:1 +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +9[0-9]\\.[0-9]+ %"),
                    ContainsRegex("all +[0-9]+ .* 9[0-9]\\.[0-9]+ %")));
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
