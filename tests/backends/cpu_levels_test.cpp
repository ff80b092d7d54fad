#include "tests/backends/cpu_levels.hpp"
#include "tests/conformance/op_case.hpp"
#include "tests/conformance/runner.hpp"

#include <hearth/backends/cpu/cpu_backend.hpp>

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace hearth::cpu {
namespace {

// Covers the levels below the machine's best, which the conformance suite runs: kinds whose loops
// differ by level.
std::vector<IsaLevel> lower_levels() {
  std::vector<IsaLevel> levels = levels_here();
  levels.pop_back();
  return levels;
}

std::vector<OpKind> kinds_with_loops() {
  std::vector<OpKind> kinds;
  for (const OpInfo& info : op_table()) {
    switch (info.op_class) {
      case OpClass::view:
      case OpClass::lifetime:
      case OpClass::expression:  // has no case: the program defines it
      case OpClass::custom:
        break;
      default:
        kinds.push_back(info.kind);
    }
  }
  return kinds;
}

class CpuLevels : public ::testing::TestWithParam<std::tuple<IsaLevel, OpKind>> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CpuLevels);

TEST_P(CpuLevels, AgreeWithTheOracle) {
  CpuBackend backend({.max_isa = std::get<0>(GetParam())});
  const auto report = conformance::run_case(conformance::target_of(backend),
                                            conformance::op_case(std::get<1>(GetParam())));
  EXPECT_EQ(report.failed, 0) << report.to_string();
  EXPECT_GT(report.calls, 0);
}

INSTANTIATE_TEST_SUITE_P(Level,
                         CpuLevels,
                         ::testing::Combine(::testing::ValuesIn(lower_levels()),
                                            ::testing::ValuesIn(kinds_with_loops())),
                         [](const auto& tested) {
                           return std::string(name(std::get<0>(tested.param))) + "_" +
                                  std::string(op_info(std::get<1>(tested.param)).name);
                         });

}  // namespace
}  // namespace hearth::cpu
