// ONNX's own cases, all of them: each passes or is on the list of refused ones, which may only
// shrink. HEARTH_ONNX_CASE=node/test_abs runs one; HEARTH_ONNX_LIST=FILE writes what did not pass.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <string_view>

#include "onnx_cases.hpp"
#include "test_runtime.hpp"

namespace hearth {
namespace {

using testing::OnnxCase;
using testing::OnnxOutcome;
using testing::OnnxVerdict;

// Begins the reason of a case whose stored result contradicts its own file.
constexpr std::string_view kStored = "stored result";

// Name → reason of each refused case.
std::map<std::string, std::string> refused_list() {
  std::map<std::string, std::string> list;
  std::ifstream file(HEARTH_ONNX_REFUSED);
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t tab = line.find('\t');
    if (!line.empty() && line.front() != '#' && tab != std::string::npos) {
      list.emplace(line.substr(0, tab), line.substr(tab + 1));
    }
  }
  return list;
}

struct Count {
  int passed = 0;
  int refused = 0;
  int wrong = 0;
};

void check(const OnnxCase& one,
           const OnnxVerdict& verdict,
           const std::map<std::string, std::string>& list) {
  const bool is_listed = list.contains(one.name);
  switch (verdict.outcome) {
    case OnnxOutcome::passed:
      EXPECT_FALSE(is_listed) << one.name << " passes: take it off the list";
      break;
    case OnnxOutcome::refused:
      EXPECT_TRUE(is_listed) << one.name << " is refused: " << verdict.reason;
      break;
    case OnnxOutcome::wrong:
      EXPECT_TRUE(is_listed && list.at(one.name).starts_with(kStored))
          << one.name << " is wrong: " << verdict.reason;
      break;
  }
}

void run_suite(const std::string& suite, int least) {
  if (testing::onnx_case_folder().empty()) {
    GTEST_SKIP() << "the package libonnx-testdata is not installed";
  }
  const std::map<std::string, std::string> list = refused_list();
  const char* const only = std::getenv("HEARTH_ONNX_CASE");
  const char* const list_file = std::getenv("HEARTH_ONNX_LIST");
  std::ofstream notes;
  if (list_file != nullptr) {
    notes.open(list_file, std::ios::app);
  }
  TestRuntime devices;
  Count count;
  for (const OnnxCase& one : testing::onnx_cases(suite)) {
    if (only != nullptr && one.name != only) {
      continue;
    }
    const OnnxVerdict verdict = testing::judge_case(one, devices.cpu);
    count.passed += verdict.outcome == OnnxOutcome::passed ? 1 : 0;
    count.refused += verdict.outcome == OnnxOutcome::refused ? 1 : 0;
    count.wrong += verdict.outcome == OnnxOutcome::wrong ? 1 : 0;
    if (verdict.outcome != OnnxOutcome::passed) {
      notes << one.name << "\t" << (verdict.outcome == OnnxOutcome::wrong ? "WRONG " : "")
            << verdict.reason << "\n";
    }
    check(one, verdict, list);
  }
  std::cout << fmt::format(
      "{}: {} passed, {} refused, {} wrong\n", suite, count.passed, count.refused, count.wrong);
  if (only == nullptr) {
    EXPECT_GE(count.passed + count.refused + count.wrong, least);
  }
}

TEST(OnnxCases, OfSingleNodesPassOrAreListed) {
  run_suite("node", 932);
}
TEST(OnnxCases, ConvertedFromPyTorchPassOrAreListed) {
  run_suite("pytorch-converted", 82);
}
TEST(OnnxCases, OfPyTorchOperatorsPassOrAreListed) {
  run_suite("pytorch-operator", 35);
}
TEST(OnnxCases, SimplePassOrAreListed) {
  run_suite("simple", 23);
}

}  // namespace
}  // namespace hearth
