// The runner must detect wrong kernels: each test gives it one.
#include "runner.hpp"

#include <gtest/gtest.h>

#include <hearth/backends/reference/reference.hpp>

namespace hearth::conformance {
namespace {

Target oracle() {
  return {.supports = [](const KernelCall&) { return Support{}; },
          .submit = [](const KernelCall& call) { return reference::evaluate(call); },
          .may_alias = [](OpKind, int) { return true; }};
}

TEST(Runner, PassesTheOracleAndCountsItsCalls) {
  const Report report = run_case(oracle(), op_case(OpKind::add));
  EXPECT_EQ(report.failed, 0) << report.to_string();
  EXPECT_EQ(report.unsupported, 0);
  EXPECT_GT(report.calls, 1000);
  EXPECT_GT(report.aliased, 100);
}

TEST(Runner, SeesAnErrorOfAFewUnitsInTheLastPlace) {
  Target target = oracle();
  target.submit = [](const KernelCall& call) {
    const Status status = reference::evaluate(call);
    const TensorView& out = call.outputs[0];
    if (out.dtype == DType::f32 && out.element_count() > 0) {
      out.as<float>()[out.element_count() - 1] *= 1.0F + 0x1p-20F;
    }
    return status;
  };
  EXPECT_GT(run_case(target, op_case(OpKind::mul)).failed, 0);
}

TEST(Runner, SeesAKernelThatIgnoresStrides) {
  Target target = oracle();
  target.submit = [](const KernelCall& call) {
    const detail::Layout dense(call.inputs[0].shape());
    const TensorView input{call.inputs[0].data, &dense, call.inputs[0].dtype};
    return reference::evaluate({call.op, {&input, 1}, call.outputs});
  };
  target.supports = [](const KernelCall& call) {
    return Support{.yes = call.inputs[0].layout->strides[0] >= 0,
                   .reason = "stays inside the bytes"};
  };
  EXPECT_GT(run_case(target, op_case(OpKind::neg)).failed, 0);
}

TEST(Runner, SeesWritesIntoInputsAndBehindOutputs) {
  Target into_input = oracle();
  into_input.submit = [](const KernelCall& call) {
    const Status status = reference::evaluate(call);
    if (call.inputs[0].element_count() > 0) {
      *call.inputs[0].data ^= std::byte{1};
    }
    return status;
  };
  EXPECT_GT(run_case(into_input, op_case(OpKind::relu)).failed, 0);
  Target behind_output = oracle();
  behind_output.submit = [](const KernelCall& call) {
    const Status status = reference::evaluate(call);
    call.outputs[0].data[call.outputs[0].element_count() * size_bytes(call.outputs[0].dtype)] =
        std::byte{0};
    return status;
  };
  EXPECT_GT(run_case(behind_output, op_case(OpKind::relu)).failed, 0);
}

TEST(Runner, SeesAKernelThatIsWrongInPlaceOnly) {
  Target target = oracle();
  target.submit = [](const KernelCall& call) {
    // Behaves as if the right operand were overwritten before it is read.
    if (call.inputs.size() > 1 && call.outputs[0].data == call.inputs[1].data &&
        call.outputs[0].element_count() > 0) {
      *call.inputs[1].data ^= std::byte{0x40};
    }
    return reference::evaluate(call);
  };
  const Report report = run_case(target, op_case(OpKind::sub));
  EXPECT_GT(report.failed, 0);
  target.may_alias = [](OpKind, int input) { return input == 0; };
  EXPECT_EQ(run_case(target, op_case(OpKind::sub)).failed, 0);
}

TEST(Runner, CountsRefusalsAndFailsThoseWithoutAReason) {
  Target target = oracle();
  target.supports = [](const KernelCall&) { return Support{.yes = false, .reason = "not today"}; };
  Report report = run_case(target, op_case(OpKind::exp));
  EXPECT_EQ(report.calls, 0);
  EXPECT_EQ(report.failed, 0);
  EXPECT_GT(report.unsupported, 0);
  target.supports = [](const KernelCall&) { return Support{.yes = false}; };
  report = run_case(target, op_case(OpKind::exp));
  EXPECT_EQ(report.failed, report.unsupported);
}

}  // namespace
}  // namespace hearth::conformance
