#include "conformance_suite.hpp"

#include "empty_calls.hpp"
#include "runner.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace hearth {

// The test framework finds this function by its name.
static void PrintTo(OpKind kind, std::ostream* out) {
  *out << name(kind);
}  // NOLINT(readability-identifier-naming)

namespace conformance {
namespace {

std::vector<OpKind> kernel_kinds() {
  std::vector<OpKind> kinds;
  for (const OpInfo& info : op_table()) {
    if (info.op_class != OpClass::view && info.op_class != OpClass::lifetime &&
        info.op_class != OpClass::expression &&
        info.op_class != OpClass::custom) {  // the program defines them
      kinds.push_back(info.kind);
    }
  }
  return kinds;
}

class Conformance : public ::testing::TestWithParam<OpKind> {};

TEST_P(Conformance, AgreesWithTheOracle) {
  const auto backend = make_backend();
  const Target target = target_of(*backend);
  const Report report = run_case(target, op_case(GetParam()));
  EXPECT_EQ(report.failed, 0) << report.to_string();
  EXPECT_GT(report.calls, 0) << report.to_string();
  RecordProperty("calls", report.calls);
  RecordProperty("in_place", report.aliased);
  RecordProperty("unsupported", report.unsupported);
}

TEST_P(Conformance, TakesOperandsWithoutElements) {
  const auto backend = make_backend();
  const Target target = target_of(*backend);
  const Report report = run_case(target, empty_case(GetParam()));
  EXPECT_EQ(report.failed, 0) << report.to_string();
  EXPECT_GT(report.calls, 0) << report.to_string();
}

INSTANTIATE_TEST_SUITE_P(Op,
                         Conformance,
                         ::testing::ValuesIn(kernel_kinds()),
                         [](const auto& tested) { return std::string(name(tested.param)); });

}  // namespace
}  // namespace conformance
}  // namespace hearth
