// The tile program of each op's expression against the op's own kernel, to the bit: every call of
// the conformance cases, every element type, layout and instruction set.
#include "tests/backends/cpu_levels.hpp"
#include "tests/backends/expression_runner.hpp"
#include "tests/conformance/prepared_call.hpp"
#include "tests/support/run_call.hpp"

#include <hearth/backends/cpu/cpu_backend.hpp>
#include <hearth/streams/op_table.hpp>

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace hearth::cpu {
namespace {

using conformance::LayoutKind;
using conformance::Number;
using conformance::OpCase;
using conformance::PreparedCall;

std::vector<OpKind> kinds_with_expressions() {
  std::vector<OpKind> kinds;
  for (const OpInfo& info : op_table()) {
    if (has_expression(info.kind)) {
      kinds.push_back(info.kind);
    }
  }
  return kinds;
}

class TileProgramOfOp : public ::testing::TestWithParam<std::tuple<IsaLevel, OpKind>> {
 protected:
  void compare(const PreparedCall& mine, const PreparedCall& theirs) {
    const Status got = runner_.run_op(mine.call());
    const Status want = testing::run_call(backend_, theirs.call());
    ++calls_;
    ASSERT_EQ(got.has_value(), want.has_value())
        << mine.to_string() << ": " << (got.has_value() ? want : got).error().text;
    for (std::size_t output = 0; output < mine.outputs().size(); ++output) {
      EXPECT_TRUE(mine.outputs()[output].margins_are_whole()) << mine.to_string();
      if (!got.has_value()) {
        continue;
      }
      const std::vector<Number> a = mine.output_values(static_cast<int>(output));
      const std::vector<Number> b = theirs.output_values(static_cast<int>(output));
      for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_TRUE(is_same(a[i], b[i]))
            << mine.to_string() << " output " << output << " element " << i << ": " << a[i].real
            << " " << a[i].integer << ", the kernel has " << b[i].real << " " << b[i].integer;
      }
    }
  }

  void compare_layouts(const OpCase& op_case, const conformance::CallSpec& spec, DType dtype) {
    for (const LayoutKind layout : conformance::kLayoutKinds) {
      if (layout == LayoutKind::dense || !spec.inputs.empty()) {
        const std::vector<LayoutKind> layouts(spec.inputs.size(), layout);
        compare(PreparedCall(op_case.kind, spec, dtype, layouts),
                PreparedCall(op_case.kind, spec, dtype, layouts));
      }
    }
    // In place over each input in turn.
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
      PreparedCall mine(op_case.kind, spec, dtype);
      PreparedCall theirs(op_case.kind, spec, dtype);
      const TensorView input = mine.call().inputs[i];
      const TensorView output = mine.call().outputs[0];
      if (input.dtype == output.dtype && input.shape() == output.shape()) {
        mine.alias(0, static_cast<int>(i));
        compare(mine, theirs);
      }
    }
  }

  int calls_ = 0;
  ExpressionRunner runner_{std::get<0>(GetParam())};
  CpuBackend backend_{{.cores = {0}, .max_isa = std::get<0>(GetParam())}};
};

// Large calls, which test how kernels split work, run only at the machine's own level.
bool is_due(const conformance::CallSpec& spec, DType dtype, IsaLevel level) {
  constexpr std::int64_t kMostElements = 4096;
  return (spec.dtypes & dtype_bit(dtype)) != 0 &&
         (level == machine_isa() || spec.outputs[0].shape.element_count() <= kMostElements);
}

TEST_P(TileProgramOfOp, HasTheBitsOfTheKernel) {
  const OpCase op_case = conformance::op_case(std::get<1>(GetParam()));
  for (const conformance::CallSpec& spec : op_case.calls) {
    for (const DType dtype : op_case.dtypes()) {
      if (is_due(spec, dtype, std::get<0>(GetParam()))) {
        compare_layouts(op_case, spec, dtype);
        ASSERT_FALSE(HasFatalFailure());
      }
    }
  }
  EXPECT_GT(calls_, 10);
}

INSTANTIATE_TEST_SUITE_P(Level,
                         TileProgramOfOp,
                         ::testing::Combine(::testing::ValuesIn(levels_here()),
                                            ::testing::ValuesIn(kinds_with_expressions())),
                         [](const auto& tested) {
                           return std::string(name(std::get<0>(tested.param))) + "_" +
                                  std::string(op_info(std::get<1>(tested.param)).name);
                         });

}  // namespace
}  // namespace hearth::cpu
