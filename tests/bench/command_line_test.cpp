// Command lines: what is refused, and with which sentence.
#include "bench/kernels/command_line.hpp"

#include "bench/kernels/nearest_name.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

CommandLine line() {
  return CommandLine("op KIND [options]",
                     "Times one op.",
                     {{"--cores", "N", "1", "Cores"},
                      {"--input", "X", "", "An input"},
                      {"--list", "", "", "List"}});
}

TEST(CommandLine, ReadsWordsValuesAndFlags) {
  CommandLine read = line();
  EXPECT_FALSE(read.read({"matmul", "--cores", "2", "--list", "--input=a", "--input", "b"}));
  EXPECT_THAT(read.names(), ElementsAre("matmul"));
  EXPECT_EQ(read.number("--cores").value(), 2);
  EXPECT_TRUE(read.has("--list"));
  EXPECT_THAT(read.texts("--input"), ElementsAre("a", "b"));
  CommandLine empty = line();
  EXPECT_FALSE(empty.read({}));
  EXPECT_EQ(empty.text("--cores"), "1");
}

TEST(CommandLine, AMistakeIsAUsageError) {
  const auto mistake = [](const std::vector<std::string>& words) {
    CommandLine read = line();
    CaptureStderr();
    EXPECT_EQ(read.read(words), static_cast<int>(Exit::usage));
    return GetCapturedStderr();
  };
  EXPECT_THAT(mistake({"--core", "2"}), HasSubstr("no option '--core'; did you mean '--cores'?"));
  EXPECT_THAT(mistake({"--cores"}), HasSubstr("--cores needs a value"));
  EXPECT_THAT(mistake({"--list=1"}), HasSubstr("--list takes no value"));
}

TEST(CommandLine, HelpExplainsTheExitStatuses) {
  CommandLine read = line();
  CaptureStdout();
  EXPECT_EQ(read.read({"--help"}), 0);
  const std::string help = GetCapturedStdout();
  EXPECT_THAT(help, HasSubstr("--cores N"));
  EXPECT_THAT(help, HasSubstr("0 equal or faster"));
  EXPECT_THAT(help, HasSubstr("3 slower"));
  EXPECT_THAT(help, HasSubstr("4 unclear"));
}

TEST(NearestName, IsTheOneWithTheFewestChanges) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(did_you_mean("softmx", {"softmax", "log_softmax"}), "; did you mean 'softmax'?");
  EXPECT_THAT(did_you_mean("zzzzzz", {"softmax", "relu"}), IsEmpty());
}

}  // namespace
}  // namespace hearth::bench
