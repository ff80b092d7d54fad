#include "conformance_suite.hpp"

#include "empty_calls.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
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

// The cases of a kind, in the types that HEARTH_CONFORMANCE_DTYPES lists with commas between them,
// or in all. Several processes can so share a kind whose kernels take minutes to compile.
OpCase chosen(OpCase all) {
  const char* const list = std::getenv("HEARTH_CONFORMANCE_DTYPES");
  if (list == nullptr) {
    return all;
  }
  DtypeMask mask = 0;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool is_listed =
        ("," + std::string(list) + ",").find("," + std::string(name(dtype)) + ",") !=
        std::string::npos;
    mask = static_cast<DtypeMask>(mask | (is_listed ? dtype_bit(dtype) : 0U));
  }
  for (CallSpec& call : all.calls) {
    call.dtypes = static_cast<DtypeMask>(call.dtypes & mask);
  }
  return all;
}

class Conformance : public ::testing::TestWithParam<OpKind> {};

TEST_P(Conformance, AgreesWithTheOracle) {
  const auto backend = make_backend();
  const Target target = make_target(*backend);
  const Report report = run_case(target, chosen(op_case(GetParam())));
  EXPECT_EQ(report.failed, 0) << report.to_string();
  EXPECT_GT(report.calls, 0) << report.to_string();
  RecordProperty("calls", report.calls);
  RecordProperty("in_place", report.aliased);
  RecordProperty("unsupported", report.unsupported);
}

TEST_P(Conformance, TakesOperandsWithoutElements) {
  const auto backend = make_backend();
  const Target target = make_target(*backend);
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
