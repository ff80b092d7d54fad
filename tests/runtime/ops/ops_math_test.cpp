// Functions of numbers against the C library, in all float types; logaddexp, lerp, and what tests
// for or replaces NaN and infinity.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"
#include "tests/support/tolerance.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::thrown_text;
using MathTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct MathFunction {
  const char* name;
  Tensor (*op)(Arg);
  double (*exact)(double);
  std::vector<double> points;
  double low;  // where the gradients are checked
  double high;
};

const std::vector<MathFunction>& math_functions() {
  static const std::vector<MathFunction> kAll{
      {"log2", log2, [](double x) { return std::log2(x); }, {0.1, 1, 2, 3, 1000}, 0.2, 3},
      {"log10", log10, [](double x) { return std::log10(x); }, {0.1, 1, 2, 10, 1000}, 0.2, 3},
      {"tan", tan, [](double x) { return std::tan(x); }, {-4, -1, 0, 1e-3, 1.25, 10}, -1.2, 1.2},
      {"sinh", sinh, [](double x) { return std::sinh(x); }, {-9, -1, -1e-4, 0, 1e-4, 2, 11}, -2, 2},
      {"cosh", cosh, [](double x) { return std::cosh(x); }, {-9, -1, -1e-4, 0, 1e-4, 2, 11}, -2, 2},
      {"asinh",
       asinh,
       [](double x) { return std::asinh(x); },
       {-3e4, -1, -1e-4, 0, 1e-4, 2, 6e4},
       -2,
       2},
      {"acosh", acosh, [](double x) { return std::acosh(x); }, {1, 1.001, 1.5, 9, 6e4}, 1.2, 3},
      {"atanh",
       atanh,
       [](double x) { return std::atanh(x); },
       {-0.99, -0.5, -1e-4, 0, 1e-4, 0.25, 0.99},
       -0.9,
       0.9},
  };
  return kAll;
}

TEST_F(MathTest, GivesTheValuesOfTheCLibraryInEveryFloatType) {
  for (const MathFunction& function : math_functions()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const auto count = static_cast<std::int64_t>(function.points.size());
      const Tensor x = cast(f64(function.points, {count}), dtype);
      const Tensor y = function.op(x);
      EXPECT_EQ(y.dtype(), dtype);
      const std::vector<double> rounded = reals(x);
      const std::vector<double> got = reals(y);
      const auto limit = testing::tolerance(testing::Precision::function, dtype);
      for (std::size_t i = 0; i < rounded.size(); ++i) {
        EXPECT_TRUE(limit.accepts(got[i], function.exact(rounded[i])))
            << function.name << " in " << name(dtype) << " of " << rounded[i] << ": " << got[i]
            << " instead of " << function.exact(rounded[i]);
      }
    }
  }
}

TEST_F(MathTest, GradientsMatchDifferences) {
  HostRandom random(41);
  for (const MathFunction& function : math_functions()) {
    SCOPED_TRACE(function.name);
    check_gradients(device(),
                    [&](const Tensors& in) { return function.op(in[0]); },
                    {random.uniform({2, 5}, function.low, function.high)});
  }
}

TEST_F(MathTest, OverflowsOnlyWithTheResult) {
  const auto limit = testing::tolerance(testing::Precision::function, DType::f32);
  const std::vector<double> s = reals(sinh(f32({89, -89, 95, -INFINITY}, {4})));
  EXPECT_NEAR(s[0] / std::sinh(89.0), 1, 1e-5);
  EXPECT_NEAR(s[1] / std::sinh(-89.0), 1, 1e-5);
  EXPECT_EQ(s[2], kInf);
  EXPECT_EQ(s[3], -kInf);
  const std::vector<double> c = reals(cosh(f32({89, -89, 95, -INFINITY}, {4})));
  EXPECT_NEAR(c[0] / std::cosh(89.0), 1, 1e-5);
  EXPECT_NEAR(c[1] / std::cosh(-89.0), 1, 1e-5);
  EXPECT_EQ(c[2], kInf);
  EXPECT_EQ(c[3], kInf);
  const std::vector<double> a = reals(asinh(f32({1e30F, -1e30F, INFINITY, -INFINITY}, {4})));
  EXPECT_TRUE(limit.accepts(a[0], std::asinh(1e30)));
  EXPECT_TRUE(limit.accepts(a[1], std::asinh(-1e30)));
  EXPECT_EQ(a[2], kInf);
  EXPECT_EQ(a[3], -kInf);
  const std::vector<double> b = reals(acosh(f32({1e30F, INFINITY, 0.5F, -1e10F}, {4})));
  EXPECT_TRUE(limit.accepts(b[0], std::acosh(1e30)));
  EXPECT_EQ(b[1], kInf);
  EXPECT_TRUE(std::isnan(b[2]));
  EXPECT_TRUE(std::isnan(b[3])) << "below 1";
  EXPECT_THAT(reals(atanh(f32({1, -1}, {2}))), ElementsAre(INFINITY, -INFINITY));
  EXPECT_TRUE(std::isnan(reals(atanh(f32({1.5F}, {1})))[0]));
}

TEST_F(MathTest, SlopesAtZeroAndFarAway) {
  const auto slopes = [&](Tensor (*op)(Arg), const std::vector<float>& at) {
    const Tensor x = f32(at, {static_cast<std::int64_t>(at.size())});
    return reals(grad([&](const Tensors& in) { return sum(op(in[0])); }, {x})[0]);
  };
  EXPECT_EQ(slopes(asinh, {0})[0], 1);
  EXPECT_NEAR(slopes(asinh, {-1e20F})[0], 1e-20, 1e-25);
  EXPECT_NEAR(slopes(acosh, {1e20F})[0], 1e-20, 1e-25);
  EXPECT_EQ(slopes(acosh, {1})[0], kInf);
  EXPECT_EQ(slopes(sinh, {0})[0], 1);
  EXPECT_EQ(slopes(cosh, {0})[0], 0);
}

TEST_F(MathTest, LogaddexpNeitherOverflowsNorLosesInfinities) {
  const std::vector<double> a{1000, -1000, 0, kInf, -kInf, kInf, -kInf, 3};
  const std::vector<double> b{1000, 2, 0, kInf, -kInf, -kInf, 5, -kInf};
  const Tensor x = f64(a, {8});
  const Tensor y = f64(b, {8});
  const double two = std::log(2);
  const std::vector<double> sums{1000 + two, 2, two, kInf, -kInf, kInf, 5, 3};
  EXPECT_THAT(reals(logaddexp(x, y)), ::testing::Pointwise(::testing::DoubleEq(), sums));
  const Tensors slopes =
      grad([](const Tensors& in) { return sum(logaddexp(in[0], in[1])); }, {x, y});
  EXPECT_THAT(reals(slopes[0]), ElementsAre(0.5, 0, 0.5, 0.5, 0.5, 1, 0, 1));
  EXPECT_THAT(reals(slopes[1]), ElementsAre(0.5, 1, 0.5, 0.5, 0.5, 0, 1, 0));
  EXPECT_TRUE(std::isnan(reals(logaddexp(f64({kNan}, {1}), 1.0))[0]));
  const Tensor narrow = cast(f64({5}, {1}), DType::f16);
  EXPECT_EQ(logaddexp(narrow, 5).dtype(), DType::f16);
  EXPECT_EQ(logaddexp(narrow, cast(x, DType::f32)).dtype(), DType::f32);
  HostRandom random(42);
  check_gradients(device(),
                  [](const Tensors& in) { return logaddexp(in[0], in[1]); },
                  {random.uniform({2, 1, 3}, -2, 2), random.uniform({4, 1}, -2, 2)});
}

TEST_F(MathTest, LerpIsExactAtBothEnds) {
  const Tensor start = f32({0.1F, -7, 1e8F}, {3});
  const Tensor end = f32({0.7F, 11, 1}, {3});
  EXPECT_EQ(reals(lerp(start, end, 0)), reals(start));
  EXPECT_EQ(reals(lerp(start, end, 1)), reals(end));
  EXPECT_EQ(reals(lerp(start, end, f32({0, 0, 0}, {3}))), reals(start));
  EXPECT_EQ(reals(lerp(start, end, f32({1}, {1}))), reals(end));
  EXPECT_THAT(reals(lerp(f64({2, 4}, {2}), 10, f64({0.25, 1.5}, {2}))), ElementsAre(4, 13));
  HostRandom random(43);
  check_gradients(device(),
                  [](const Tensors& in) { return lerp(in[0], in[1], in[2]); },
                  {random.uniform({2, 3}, -2, 2),
                   random.uniform({3}, -2, 2),
                   random.uniform({2, 1}, -0.9, 1.9)});
  check_gradients(device(),
                  [](const Tensors& in) { return lerp(in[0], in[1], 0.75); },
                  {random.uniform({2, 3}, -2, 2), random.uniform({2, 3}, -2, 2)});
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)lerp(1, 2, start); }),
              HasSubstr("lerp: start and end are numbers: 1 and 2"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)lerp(start, f32({1, 2}, {2}), 0.5);
              }),
              HasSubstr("lerp: shapes do not broadcast: f32[3] and f32[2]"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)lerp(i32({1}, {1}), i32({1}, {1}), 1); }),
              HasSubstr("lerp: takes floats, not i32"));
}

TEST_F(MathTest, TestsForNanAndInfinity) {
  const Tensor x = f32({1, kNan, INFINITY, -INFINITY, 3e38F}, {5});
  EXPECT_THAT(integers(isnan(x)), ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(integers(isinf(x)), ElementsAre(0, 0, 1, 1, 0));
  EXPECT_THAT(integers(isfinite(x)), ElementsAre(1, 0, 0, 0, 1));
  const Tensor narrow = cast(x, DType::f16);  // 3e38 becomes infinite
  EXPECT_THAT(integers(isnan(narrow)), ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(integers(isinf(narrow)), ElementsAre(0, 0, 1, 1, 1));
  EXPECT_EQ(isnan(x).dtype(), DType::boolean);
  EXPECT_EQ(isinf(f32({}, {0, 2})).shape(), (Shape{0, 2}));
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)isnan(i32({1}, {1})); }),
            "isnan: takes floats, not i32[1]");
}

TEST_F(MathTest, NanToNumReplacesWhatIsNotFinite) {
  const Tensor x = f64({1, kNan, kInf, -kInf}, {4});
  constexpr double kMost = std::numeric_limits<double>::max();
  EXPECT_THAT(reals(nan_to_num(x)), ElementsAre(1, 0, kMost, -kMost));
  EXPECT_THAT(reals(nan_to_num(x, {.nan = 2, .posinf = 3, .neginf = -4})),
              ElementsAre(1, 2, 3, -4));
  EXPECT_THAT(reals(nan_to_num(cast(x, DType::f16))), ElementsAre(1, 0, 65504, -65504));
  const Tensor bf = nan_to_num(cast(x, DType::bf16));
  EXPECT_EQ(reals(bf)[2], largest_value(DType::bf16));
  const Tensor slope = grad([](const Tensors& in) { return sum(nan_to_num(in[0]) * 3); }, {x})[0];
  EXPECT_THAT(reals(slope), ElementsAre(3, 0, 0, 0));
  EXPECT_THROW((void)nan_to_num(i32({1}, {1})), DtypeError);
}

TEST_F(MathTest, AllcloseComparesWithinTolerances) {
  const Tensor a = f64({1, 100}, {2});
  EXPECT_TRUE(allclose(a, a));
  EXPECT_TRUE(allclose(a, f64({1 + 1e-6, 100 + 1e-4}, {2})));
  EXPECT_FALSE(allclose(a, f64({1 + 1e-4, 100}, {2})));
  EXPECT_TRUE(allclose(a, f64({1.5, 100.5}, {2}), {.rtol = 0, .atol = 0.5}));
  EXPECT_FALSE(allclose(a, f64({1.5, 100.6}, {2}), {.rtol = 0, .atol = 0.5}));
  EXPECT_TRUE(allclose(f64({90}, {1}), 100.0, {.rtol = 0.1}));
  EXPECT_FALSE(allclose(100.0, f64({90}, {1}), {.rtol = 0.1})) << "a part of |b|";
  EXPECT_TRUE(allclose(f64({kInf, -kInf}, {2}), f64({kInf, -kInf}, {2})));
  EXPECT_FALSE(allclose(f64({kInf}, {1}), f64({-kInf}, {1})));
  EXPECT_FALSE(allclose(f64({kInf}, {1}), f64({1}, {1})));
  EXPECT_FALSE(allclose(f64({1}, {1}), f64({kInf}, {1})));
  const Tensor nan = f64({kNan}, {1});
  EXPECT_FALSE(allclose(nan, nan));
  EXPECT_TRUE(allclose(nan, nan, {.equal_nan = true}));
  EXPECT_FALSE(allclose(nan, f64({1}, {1}), {.equal_nan = true}));
  EXPECT_TRUE(allclose(f64({}, {0}), f64({}, {0})));
  EXPECT_TRUE(allclose(f64({1, 1}, {2, 1}), cast(f64({1, 1}, {2}), DType::f32)));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)allclose(a, a, {.rtol = -1}); }),
              HasSubstr("allclose: a tolerance is 0 or more: rtol -1"));
  EXPECT_THROW((void)allclose(i32({1}, {1}), i32({1}, {1})), DtypeError);
  EXPECT_THROW((void)allclose(a, f64({1, 2, 3}, {3})), ShapeError);
}

}  // namespace
}  // namespace hearth
