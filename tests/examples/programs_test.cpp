// The small examples end by themselves and print what their comments state.
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <hearth/runtime/base/cores.hpp>

#include "program.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"
#include "tests/support/sanitizers.hpp"

namespace hearth::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ExampleTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ExampleTest, EndsWellAndPrintsItsResult) {
  const auto [name, text] = GetParam();
  const Outcome outcome = run(name);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr(text));
}

INSTANTIATE_TEST_SUITE_P(
    Programs,
    ExampleTest,
    ::testing::Values(
        std::pair("first_program", "epoch 5: loss of the last batch 0."),
        std::pair("tensors",
                  "a * 2 + row =\n[[12., 24., 36.],\n [18., 30., 42.]]\nshape [2, 3], f32"),
        std::pair("tensors", "sums of rows =\n[72., 90.]\nshape [2], f32"),
        std::pair("tensors", "above 25 =\n[[false, false,  true],\n [false,  true,  true]]"),
        std::pair("tensors", "softmax over all, sum 1\n"),
        std::pair("tensors", "as expected: matmul: inner dimensions differ"),
        std::pair("autodiff", "gradient of y =\n[["),
        std::pair("heat_equation", "largest error at t = 0.2: 0.0"),
        std::pair("custom_module", "2128 parameters:\n  inner.weight f32[64, 16]\n"),
        std::pair("custom_optimizer", "step 600: loss 0.0"),
        std::pair("custom_kernel", "cpu:0: as its reference; "),
        std::pair("streams", "sum of squares 3.32833e+08, mean of roots 21.0658"),
        std::pair("streams", "largest: 999.000000\n"),
        std::pair("streams", "the device works on: 499500\n"),
        std::pair("move_module", "gradient of weight:\n[["),
        std::pair("memory_strategy", "SizeCache        loss 0."),
        std::pair("generate_text", "it writes: twenty, twenty one, twenty"),
        std::pair("data_parallel", "epoch 5, step 100: loss 0.")),
    [](const auto& param) {
      return std::string(param.param.first) + "_" + std::to_string(param.index);
    });

class ExampleHelp : public ::testing::TestWithParam<const char*> {};

/// The options of a help text, each in one line.
std::vector<std::string> options_of(const std::string& help) {
  std::vector<std::string> options;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  -")) {
      options.push_back(line);
    } else if (line.starts_with("   ") && !options.empty()) {
      options.back() += line;
    }
  }
  return options;
}

// Each option has a sentence that names its default.
TEST_P(ExampleHelp, SaysWhatItDoesAndWhatCanBeSaid) {
  const Outcome outcome = run(GetParam(), {"--help"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, ContainsRegex("^[^\n]{30,}\n"));
  EXPECT_THAT(outcome.out, ContainsRegex(std::string("Usage: [^ \n]*") + GetParam()));
  const std::vector<std::string> options = options_of(outcome.out);
  EXPECT_THAT(outcome.out, ContainsRegex(options.empty() ? "no options|without it" : "Options:"));
  for (const std::string& option : options) {
    if (option.find("--help") == std::string::npos) {
      EXPECT_THAT(option, ContainsRegex("--[a-z-]+ .* [a-z]+ [a-z]+")) << "no sentence";
      EXPECT_THAT(option, ContainsRegex("=[^ ]|without|go on")) << "no default";
    }
  }
}

TEST_P(ExampleHelp, WhatItDoesNotKnowIsRefused) {
  const Outcome outcome = run(GetParam(), {"--no-such-option"});
  EXPECT_GT(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("--no-such-option"));
}

INSTANTIATE_TEST_SUITE_P(Programs,
                         ExampleHelp,
                         ::testing::Values("first_program",
                                           "trainer",
                                           "tensors",
                                           "streams",
                                           "autodiff",
                                           "heat_equation",
                                           "custom_module",
                                           "custom_optimizer",
                                           "custom_kernel",
                                           "custom_training_loop",
                                           "move_module",
                                           "data_parallel",
                                           "generate_text",
                                           "custom_dataset",
                                           "housing",
                                           "text_classification",
                                           "char_gpt",
                                           "train_gpt",
                                           "memory_strategy",
                                           "import_weights",
                                           "onnx_inference",
                                           "train_mnist",
                                           "concurrent_inference"),
                         [](const auto& param) { return std::string(param.param); });

// A checkpoint of an earlier run may lie in the working folder.
TEST(Examples, ATrainerLeavesItsFilesAndSaysHowItGoes) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const Outcome outcome = run("trainer");
  std::filesystem::current_path(before);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out,
              ContainsRegex("epoch 5/5  loss 0.[0-9]+  validation loss 0.[0-9]+  "
                            "accuracy [89][0-9.]+ %"));
  for (const char* name : {"model.safetensors",
                           "best.safetensors",
                           "training.safetensors",
                           "metrics.csv",
                           "report.html"}) {
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "checkpoints/trainer" / name)) << name;
  }
}

TEST(Examples, MistakesNameTheLineOfTheProgram) {
  EXPECT_THAT(run("tensors").out, ContainsRegex("called at [^ ]*tensors.cpp:[0-9]+"));
  EXPECT_THAT(run("streams").out,
              AllOf(HasSubstr("as expected: cross_entropy"), ContainsRegex("streams.cpp:[0-9]+")));
}

/// Whether a program reached its own constructors, by the loader's log in `folder`.
bool has_begun(const std::filesystem::path& folder) {
  for (const auto& each : std::filesystem::directory_iterator(folder)) {
    std::stringstream text;
    text << std::ifstream(each.path()).rdbuf();
    if (text.str().find("initialize program") != std::string::npos) {
      return true;
    }
  }
  return false;
}

// From hardly any room for the program's code to hardly any for its threads. A sentence from
// OpenBLAS or the loader counts too. Signal 11 does not, except from libgfortran, which OpenBLAS
// loads: its own constructor fails where some kilobytes are missing.
TEST(Examples, AProgramWithoutRoomEndsWithASentence) {
  if (kSanitizerTakesAddresses) {
    GTEST_SKIP() << "a sanitizer needs the address space";
  }
  int begun = 0;
  for (std::int64_t kibibytes = 40'000; kibibytes <= 76'000; kibibytes += 2'000) {
    const TemporaryFolder folder;
    const EnvironmentVariable loader("LD_DEBUG", "libs");
    const EnvironmentVariable file("LD_DEBUG_OUTPUT", (folder.path() / "loader").string());
    const Outcome outcome = run("first_program", {}, kibibytes * 1024);
    const bool has_begun_itself = has_begun(folder.path());
    begun += has_begun_itself ? 1 : 0;
    if (outcome.signal == SIGSEGV) {
      EXPECT_FALSE(has_begun_itself) << kibibytes << " kB: " << outcome.out;
      continue;
    }
    EXPECT_THAT(outcome.out, ContainsRegex("memory|cannot|OpenBLAS|failed to map"))
        << kibibytes << " kB";
  }
  EXPECT_GT(begun, 0);
}

// With more room the program would train but never end: OpenBLAS's own thread retries its
// allocation without end, and the end of the program waits for it.
TEST(Examples, AProgramThatWouldNeverEndDoesNotBegin) {
  if (kSanitizerTakesAddresses) {
    GTEST_SKIP() << "a sanitizer needs the address space";
  }
  if (available_cores().size() < 2) {
    GTEST_SKIP() << "OpenBLAS starts no thread on one core";
  }
  for (const std::int64_t kibibytes : {100'000, 120'000, 150'000}) {
    const Outcome outcome = run("first_program", {}, kibibytes * 1024);
    EXPECT_THAT(outcome.out, HasSubstr("set OPENBLAS_NUM_THREADS=1, or raise the limit"))
        << kibibytes << " kB";
  }
}

}  // namespace
}  // namespace hearth::testing
