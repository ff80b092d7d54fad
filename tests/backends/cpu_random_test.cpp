#include "tests/backends/cpu_levels.hpp"
#include "tests/backends/small_call.hpp"
#include "tests/support/run_call.hpp"

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
          testing::run_call(
              backend, SmallCall(OpKind::random_uniform, {}, {got.view()}).with(attributes).call())
              .has_value());
      ASSERT_TRUE(reference::evaluate(
                      SmallCall(OpKind::random_uniform, {}, {want.view()}).with(attributes).call())
                      .has_value());
      expect_inside(got, range, who);
      EXPECT_EQ(got.values(), want.values()) << who;
    }
  }
}

// numerics.md: a product and a sum are two roundings.
TEST(RandomNormal, RoundsProductAndSumOneAfterTheOther) {
  constexpr double kMean = 0.7;
  constexpr double kDeviation = 1.3;
  for (const IsaLevel level : levels_here()) {
    CpuBackend backend({.max_isa = level});
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto draw = [&](double mean, double deviation) {
        const RandomAttributes attributes{.seed = 3, .counter = 1, .a = mean, .b = deviation};
        const SmallTensor drawn(dtype, {5003});
        testing::run_call(
            backend, SmallCall(OpKind::random_normal, {}, {drawn.view()}).with(attributes).call())
            .value();
        return drawn.values();
      };
      const auto rounded = [dtype](double value) {
        return dtype == DType::f64 ? value : static_cast<double>(static_cast<float>(value));
      };
      const std::vector<double> standard = draw(0, 1);
      const std::vector<double> got = draw(kMean, kDeviation);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const volatile double product = rounded(rounded(kDeviation) * standard[i]);
        ASSERT_EQ(got[i], rounded(rounded(kMean) + product)) << name(level) << " element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace hearth::cpu
