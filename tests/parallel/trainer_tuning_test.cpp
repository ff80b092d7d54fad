// TrainerOptions::tune_seconds.
#include <hearth/parallel/trainer.hpp>

#include "digits_run.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;
using ::testing::Not;

class TrainerTuning : public ::testing::Test {
 protected:
  /// The output of a run of 12 steps at this level, and its weights.
  std::pair<std::string, std::vector<double>> train(AutotuneLevel level, double tune_seconds) {
    RuntimeOptions opened = cpu_devices(1);
    opened.autotune = level;
    const Runtime runtime(opened);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
    TrainerOptions options;
    options.devices = runtime.devices();
    options.epochs = 2;
    options.batch_size = 24;
    options.tune_seconds = tune_seconds;
    options.console = {.style = ConsoleStyle::plain, .out = file.get()};
    Trainer<DigitNet> trainer(runtime, DigitNet(options.devices.front()), kLoss, options);
    static_cast<void>(trainer.fit(data));
    std::rewind(file.get());
    std::string text(8192, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    return {text, weights_of(trainer.model())};
  }

  const TemporaryFolder folder;
  const testing::EnvironmentVariable cache{"HEARTH_CACHE_DIR", folder.path().string()};
  const ImageDataset data{make_digits({.count = 144})};
};

TEST_F(TrainerTuning, ARunReportsItsTrialsOnceAndKeepsItsBits) {
  const auto [silent, expected] = train(AutotuneLevel::off, 0);
  EXPECT_THAT(silent, Not(HasSubstr("kernels")));
  const auto [text, weights] = train(AutotuneLevel::minimal, 0.5);
  const std::size_t line = text.find("kernels: ");
  ASSERT_NE(line, std::string::npos) << text;
  EXPECT_THAT(text.substr(line), HasSubstr(" calls tuned, "));
  EXPECT_EQ(text.find("kernels: ", line + 1), std::string::npos);
  EXPECT_TRUE(weights == expected);
}

TEST_F(TrainerTuning, TheEnvironmentsLevelIsReported) {
  EXPECT_THAT(train(AutotuneLevel::cached_only, 5).first,
              HasSubstr("kernels are not tuned: autotune is cached_only"));
}

TEST_F(TrainerTuning, ANegativeTimeIsRefused) {
  EXPECT_THROW(static_cast<void>(train(AutotuneLevel::minimal, -1)), ArgumentError);
}

}  // namespace
}  // namespace hearth
