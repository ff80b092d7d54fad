#include "op_case.hpp"

#include "prepared_call.hpp"

#include <gtest/gtest.h>

#include <hearth/backends/reference/reference.hpp>

#include <algorithm>
#include <set>

namespace hearth::conformance {
namespace {

bool is_kernel(const OpInfo& info) {
  return info.op_class != OpClass::view && info.op_class != OpClass::lifetime &&
         info.op_class != OpClass::expression &&
         info.op_class != OpClass::custom;  // defined by the program, so without a case
}

TEST(OpCases, EveryKernelKindHasExactlyOneCase) {
  std::multiset<OpKind> kinds;
  for (const OpCase& each : op_cases()) {
    kinds.insert(each.kind);
  }
  for (const OpInfo& info : op_table()) {
    EXPECT_EQ(kinds.count(info.kind), is_kernel(info) ? 1U : 0U) << info.name;
  }
}

TEST(OpCases, EveryCaseHasAnEmptyCallAndAnOddOne) {
  for (const OpCase& each : op_cases()) {
    bool has_empty = false;
    bool has_odd = false;
    for (const CallSpec& call : each.calls) {
      for (const OutputSpec& output : call.outputs) {
        has_empty |= output.shape.element_count() == 0;
        has_odd |= output.shape.element_count() % 2 == 1;
      }
      for (const InputSpec& input : call.inputs) {
        has_empty |= input.shape.element_count() == 0;
      }
    }
    EXPECT_TRUE(has_empty) << name(each.kind);
    EXPECT_TRUE(has_odd) << name(each.kind);
  }
}

TEST(OpCases, EveryCallHasAttributesOfItsKind) {
  for (const OpCase& each : op_cases()) {
    const OpInfo& info = op_info(each.kind);
    for (const CallSpec& call : each.calls) {
      const bool is_scalar_only =
          info.op_class == OpClass::binary;  // without a scalar it needs none
      if (!is_scalar_only || call.flags != 0) {
        EXPECT_EQ(call.attributes.size(), info.attribute_size_bytes) << info.name;
      }
      EXPECT_LE(call.outputs.size(), info.outputs) << info.name;
    }
  }
}

TEST(OpCases, TheOracleTakesEveryCallInEveryType) {
  for (const OpCase& each : op_cases()) {
    EXPECT_FALSE(each.dtypes().empty()) << name(each.kind);
    for (const DType dtype : each.dtypes()) {
      for (const CallSpec& call : each.calls) {
        if ((call.dtypes & dtype_bit(dtype)) != 0) {
          const PreparedCall prepared(each.kind, call, dtype);
          EXPECT_TRUE(reference::supports(prepared.call()).yes) << prepared.to_string();
          EXPECT_GE(prepared.cost().bytes, 0) << prepared.to_string();
        }
      }
    }
  }
}

TEST(CaseTensor, EveryLayoutShowsTheSameValues) {
  const Shape shape{3, 4, 5};
  const std::vector<Number> values =
      case_values({.shape = shape, .values = Values::apart}, DType::f32, 1);
  for (const LayoutKind kind : kLayoutKinds) {
    const CaseTensor tensor(DType::f64, shape, kind, values);
    const std::vector<Number> seen = tensor.values();
    EXPECT_TRUE(tensor.margins_are_whole()) << name(kind);
    EXPECT_EQ(tensor.view().layout->contiguous, kind == LayoutKind::dense) << name(kind);
    if (kind != LayoutKind::repeated) {
      EXPECT_TRUE(std::ranges::equal(seen, values, {}, &Number::real, &Number::real)) << name(kind);
    } else {
      EXPECT_EQ(seen.front().real, seen[20].real);
    }
  }
}

TEST(CaseValues, DistinctValuesAreDistinctInTheNarrowestTypes) {
  for (const DType dtype : {DType::bf16, DType::u8}) {
    const InputSpec input{.shape = {255}, .values = Values::distinct};
    const CaseTensor tensor(dtype, input.shape, LayoutKind::dense, case_values(input, dtype, 3));
    std::set<double> seen;
    for (const Number& number : tensor.values()) {
      seen.insert(number.real + static_cast<double>(number.integer));
    }
    EXPECT_EQ(seen.size(), 255U) << name(dtype);
  }
}

}  // namespace
}  // namespace hearth::conformance
