// The interpreter on each op's expression against the reference, on every call of the conformance
// cases: all element types, strided and repeated operands, broadcasting, no elements, special
// values.
#include <hearth/streams/kernel/op_expression.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/backends/reference/reference.hpp>
#include <hearth/streams/kernel/kernel_interpreter.hpp>
#include <hearth/streams/kernel/kernel_verifier.hpp>
#include <hearth/streams/op_facts.hpp>

#include "tests/conformance/prepared_call.hpp"
#include "tests/streams/kernel/golden.hpp"
#include "tests/support/tolerance.hpp"

namespace hearth {
namespace {

using conformance::LayoutKind;
using conformance::Number;
using conformance::OpCase;
using conformance::PreparedCall;
using testing::Precision;

bool is_due(OpKind kind) {
  const FusionClass fusion = op_facts(kind).fusion;
  const bool brings_its_own = op_info(kind).op_class == OpClass::expression;
  return !brings_its_own && (fusion == FusionClass::elementwise || fusion == FusionClass::fill);
}

TEST(OpExpression, StandsForEveryElementwiseKindAndEveryFill) {
  for (const OpInfo& info : op_table()) {
    EXPECT_EQ(has_expression(info.kind), is_due(info.kind)) << info.name;
  }
}

std::vector<TensorSpec> specs_of(std::span<const TensorView> views) {
  std::vector<TensorSpec> specs;
  for (const TensorView& view : views) {
    specs.push_back({view.dtype, view.shape()});
  }
  return specs;
}

std::vector<KernelTensor> tensors_of(std::span<const TensorView> views) {
  std::vector<KernelTensor> tensors;
  for (const TensorView& view : views) {
    tensors.push_back({view.data, *view.layout});
  }
  return tensors;
}

Status interpret_call(const KernelCall& call) {
  const std::vector<TensorSpec> inputs = specs_of(call.inputs);
  const std::vector<TensorSpec> outputs = specs_of(call.outputs);
  HEARTH_TRY(const KernelIR kernel, op_kernel(call.op, inputs, outputs));
  HEARTH_TRY_STATUS(verify(kernel));
  std::vector<ScalarAttributes> parameters;
  for (const KernelParameter& each :
       op_parameters(call.op, inputs.empty() ? outputs[0].dtype : inputs[0].dtype)) {
    parameters.push_back(each.value);
  }
  return interpret(
      kernel,
      {outputs[0].shape.dims(), tensors_of(call.inputs), tensors_of(call.outputs), parameters});
}

// Kinds of one primitive and one rounding: the interpreter gives the reference's bits in f32 and
// f64. Other kinds round in between, or once more at the end than the reference.
bool is_exact(OpKind kind, DType dtype) {
  switch (kind) {
    case OpKind::rsqrt:
    case OpKind::sigmoid:
    case OpKind::log1p:
    case OpKind::expm1:
    case OpKind::atan2:
    case OpKind::dropout:
    case OpKind::random_normal:
    case OpKind::sgd_step:
    case OpKind::adam_step:
      return !is_float(dtype);
    case OpKind::random_uniform:  // in f64 throughout
      return true;
    default:
      return dtype != DType::f16 && dtype != DType::bf16;
  }
}

struct Tally {
  int calls = 0;
  int failures = 0;
};

void compare(const OpCase& op_case,
             const conformance::CallSpec& spec,
             DType dtype,
             const std::vector<LayoutKind>& layouts,
             Tally& tally) {
  const PreparedCall mine(op_case.kind, spec, dtype, layouts);
  const PreparedCall theirs(op_case.kind, spec, dtype, layouts);
  const Status got = interpret_call(mine.call());
  const Status want = reference::evaluate(theirs.call());
  ++tally.calls;
  if (!got.has_value() || !want.has_value()) {
    EXPECT_EQ(got.has_value(), want.has_value())
        << mine.to_string() << ": " << (got.has_value() ? want : got).error().text;
    return;
  }
  for (std::size_t output = 0; output < mine.outputs().size(); ++output) {
    const std::vector<Number> got_values = mine.output_values(static_cast<int>(output));
    const std::vector<Number> want_values = theirs.output_values(static_cast<int>(output));
    const DType type = mine.call().outputs[output].dtype;
    const Precision precision = is_exact(op_case.kind, dtype)
                                    ? Precision::exact
                                    : spec.outputs[output].precision.value_or(op_case.precision);
    const testing::Tolerance tolerance =
        testing::tolerance(precision, type, spec.length, spec.term);
    for (std::size_t i = 0; i < got_values.size(); ++i) {
      const Number a = got_values[i];
      const Number b = want_values[i];
      const bool is_same =
          is_float(type) ? tolerance.accepts(a.real, b.real) : a.integer == b.integer;
      if (!is_same && ++tally.failures < 5) {
        ADD_FAILURE() << mine.to_string() << " element " << i << ": " << a.real << " " << a.integer
                      << ", the reference has " << b.real << " " << b.integer;
      }
    }
    EXPECT_TRUE(mine.outputs()[output].margins_are_whole()) << mine.to_string();
  }
}

TEST(OpExpression, GivesWhatTheReferenceGives) {
  constexpr std::int64_t kMostElements = 4096;  // larger calls test how kernels split work
  Tally tally;
  std::map<OpKind, int> calls;
  for (const OpCase& op_case : conformance::op_cases()) {
    if (!is_due(op_case.kind)) {
      continue;
    }
    for (const conformance::CallSpec& spec : op_case.calls) {
      if (spec.outputs[0].shape.element_count() > kMostElements) {
        continue;
      }
      for (const DType dtype : op_case.dtypes()) {
        if ((spec.dtypes & dtype_bit(dtype)) == 0) {
          continue;
        }
        for (const LayoutKind layout : conformance::kLayoutKinds) {
          const std::vector<LayoutKind> layouts(spec.inputs.size(), layout);
          if (layout == LayoutKind::dense || !spec.inputs.empty()) {
            compare(op_case, spec, dtype, layouts, tally);
            ++calls[op_case.kind];
          }
        }
      }
    }
  }
  EXPECT_EQ(tally.failures, 0);
  for (const OpInfo& info : op_table()) {
    EXPECT_EQ(calls[info.kind] > 0, is_due(info.kind)) << info.name;
  }
  RecordProperty("calls", tally.calls);
  EXPECT_GT(tally.calls, 5000);
}

// ---- reviewed by eye: one dump for each kind ----

TEST(OpExpression, HasADumpForEachKind) {
  std::string text;
  for (const OpCase& op_case : conformance::op_cases()) {
    if (!is_due(op_case.kind)) {
      continue;
    }
    const DType dtype = op_case.dtypes()[0];
    for (const conformance::CallSpec& spec : op_case.calls) {
      if ((spec.dtypes & dtype_bit(dtype)) != 0 && spec.outputs[0].shape.rank() == 1) {
        const PreparedCall prepared(op_case.kind, spec, dtype);
        const KernelCall call = prepared.call();
        const std::vector<TensorSpec> outputs = specs_of(call.outputs);
        text += "# " + std::string(name(op_case.kind)) + "\n" +
                to_string(op_kernel(call.op, specs_of(call.inputs), outputs).value());
        break;
      }
    }
  }
  testing::expect_golden("op_expressions.kernel", text);
}

// A naive log(1 + x) or exp(x) - 1 would lose all digits here.
TEST(OpExpression, OfLog1pAndExpm1IsExactNearZero) {
  const conformance::CallSpec spec{.inputs = {{.shape = {1}}}, .outputs = {{.shape = {1}}}};
  for (const OpKind kind : {OpKind::log1p, OpKind::expm1}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const double relative = testing::tolerance(Precision::function, dtype).relative;
      for (const double size : {0.3, 1e-2, 1e-5, 1e-9, 1e-20, 1e-37}) {
        for (const double wanted : {size, -size}) {
          const PreparedCall call(kind, spec, dtype);
          const KernelCall made = call.call();
          const double x = dtype == DType::f64 ? wanted : static_cast<float>(wanted);
          const auto narrow = static_cast<float>(x);
          std::memcpy(made.inputs[0].data,
                      dtype == DType::f64 ? static_cast<const void*>(&x) : &narrow,
                      static_cast<std::size_t>(size_bytes(dtype)));
          interpret_call(made).value();
          const double exact = kind == OpKind::log1p ? std::log1p(x) : std::expm1(x);
          EXPECT_NEAR(call.output_values(0)[0].real, exact, relative * std::fabs(exact))
              << name(kind) << " of " << x << " in " << name(dtype);
        }
      }
    }
  }
}

// Just above a tie of f16; rounding to f32 first gives the tie.
TEST(OpExpression, FillsWithAValueThatIsRoundedOnce) {
  const conformance::CallSpec spec{
      .inputs = {},
      .outputs = {{.shape = {1}}},
      .attributes = conformance::bytes_of(ScalarAttributes{.real = 1 + 0x1p-11 + 0x1p-30})};
  const PreparedCall call(OpKind::fill, spec, DType::f16);
  ASSERT_TRUE(interpret_call(call.call()).has_value());
  EXPECT_EQ(call.output_values(0)[0].real, 1 + 0x1p-10);
}

TEST(OpExpression, RefusesAKindWithoutOne) {
  OpRecord record;
  record.kind = OpKind::matmul;
  const Result<KernelIR> kernel = op_kernel({record, nullptr}, {}, {});
  ASSERT_FALSE(kernel.has_value());
  EXPECT_EQ(kernel.error().code, ErrorCode::unsupported);
  EXPECT_EQ(kernel.error().text, "matmul: it has no expression");
}

}  // namespace
}  // namespace hearth
