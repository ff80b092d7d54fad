#include "tests/backends/small_call.hpp"

#include <hearth/backends/cpu/cpu_backend.hpp>
#include <hearth/backends/reference/reference.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hearth::cpu {
namespace {

using testing::SmallCall;
using testing::SmallTensor;

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

struct Range {
  double low;
  double high;
};

void expect_inside(const SmallTensor& drawn, const Range& range, const std::string& who) {
  for (const double value : drawn.values()) {
    ASSERT_GE(value, range.low) << who;
    ASSERT_LT(value, range.high) << who;
  }
}

// Rounding to the element type reaches `high` in a quarter of the values of the narrow ranges.
TEST(RandomUniform, NeverGivesItsUpperEndNorLessThanItsLower) {
  const std::vector<Range> ranges{
      {1, 2}, {1, 1 + 0x1p-6}, {-0.3, 0.1}, {0, 0.7}, {100, 101.3}, {-1, 0}, {-65504, 65504}};
  const Shape shape{20'011};
  for (const DType dtype : kFloats) {
    for (const Range& range : ranges) {
      const RandomAttributes attributes{.seed = 5, .counter = 9, .a = range.low, .b = range.high};
      SmallTensor got(dtype, shape);
      SmallTensor want(dtype, shape);
      CpuBackend backend;
      const std::string who = std::string(name(dtype)) + " below " + std::to_string(range.high);
      ASSERT_TRUE(
          backend
              .submit(SmallCall(OpKind::random_uniform, {}, {got.view()}).with(attributes).call())
              .has_value());
      ASSERT_TRUE(reference::evaluate(
                      SmallCall(OpKind::random_uniform, {}, {want.view()}).with(attributes).call())
                      .has_value());
      expect_inside(got, range, who);
      EXPECT_EQ(got.values(), want.values()) << who;
    }
  }
}

}  // namespace
}  // namespace hearth::cpu
