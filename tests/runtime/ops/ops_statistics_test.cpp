// min, prod, var, stddev, logsumexp and cumsum: values, gradients, ties, zeros and empty axes.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"
#include "tests/support/tolerance.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::thrown_text;
using StatisticsTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expect_near(const std::vector<double>& got, const std::vector<double>& want, DType dtype) {
  const auto limit = testing::tolerance(testing::Precision::function, dtype);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(limit.accepts(got[i], want[i])) << i << ": " << got[i] << ", not " << want[i];
  }
}

TEST_F(StatisticsTest, MinimumAndProductTakeAxesOrAll) {
  const Tensor x = f64({3, 1, 2, -4, 5, 6}, {2, 3});
  EXPECT_THAT(reals(min(x)), ElementsAre(-4));
  EXPECT_THAT(reals(min(x, 0)), ElementsAre(-4, 1, 2));
  EXPECT_THAT(reals(prod(x, -1, {.keep_dims = true})), ElementsAre(6, -120));
  EXPECT_EQ(prod(x, -1, {.keep_dims = true}).shape(), (Shape{2, 1}));
  EXPECT_THAT(integers(min(i32({std::numeric_limits<std::int32_t>::min(), 3}, {2}))),
              ElementsAre(std::numeric_limits<std::int32_t>::min()));
  EXPECT_THAT(integers(prod(i32({1 << 20, 1 << 12}, {2}))), ElementsAre(std::int64_t{1} << 32));
  EXPECT_TRUE(std::isnan(reals(min(f64({1, NAN, 0}, {3})))[0]));
  EXPECT_THAT(reals(prod(zeros(device(), {2, 0}), 1)), ElementsAre(1, 1));
  EXPECT_EQ(thrown_text<ArgumentError>([&] {
              (void)min(zeros(device(), {2, 0}), 1);
            }),
            "min: axis 1 of [2, 0] has no elements");
}

TEST_F(StatisticsTest, ArgminGivesTheFirstPosition) {
  const Tensor x = f64({5, 1, 1, 0, 7, 0}, {2, 3});
  EXPECT_THAT(argmin(x, 1).to_vector<std::int64_t>(), ElementsAre(1, 0));
  EXPECT_THAT(argmin(x).to_vector<std::int64_t>(), ElementsAre(3));
  EXPECT_EQ(argmin(x, 1, {.keep_dims = true}).shape(), (Shape{2, 1}));
  EXPECT_THAT(argmin(f64({1, NAN, -5}, {3}), 0).to_vector<std::int64_t>(), ElementsAre(1));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)argmin(zeros(device(), {0})); }),
              HasSubstr("argmin: axis 0 of [0] has no elements"));
}

TEST_F(StatisticsTest, TopkGivesValuesInOrderAndTheirPlaces) {
  const Tensor x = f64({3, 1, 3, NAN, 2, -1, 5, 4}, {2, 4});
  const auto [values, places] = topk(f64({3, 1, 3, 2, -1, 5}, {2, 3}), 2);
  EXPECT_THAT(reals(values), ElementsAre(3, 3, 5, 2));
  EXPECT_THAT(integers(places), ElementsAre(0, 2, 2, 0)) << "the first of equal ones comes first";
  const TopK smallest = topk(x, 3, {.axis = 1, .descending = false});
  EXPECT_THAT(reals(smallest.values), ElementsAre(1, 3, 3, -1, 2, 4));
  EXPECT_THAT(integers(smallest.positions), ElementsAre(1, 0, 2, 1, 0, 3));
  EXPECT_TRUE(std::isnan(reals(topk(x, 1).values)[0])) << "NaN is larger than all";
  EXPECT_THAT(integers(topk(x, 1, {.axis = 0}).positions), ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(topk(x, 0).values.shape(), (Shape{2, 0}));
  EXPECT_EQ(topk(zeros(device(), {0, 3}), 2).positions.shape(), (Shape{0, 2}));
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)topk(x, 5); }),
            "topk: count is 5, but must be in 0 to 4, the size of axis -1 of [2, 4]");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)topk(x, -1, {.axis = 0}); }),
            "topk: count is -1, but must be in 0 to 2, the size of axis 0 of [2, 4]");
}

TEST_F(StatisticsTest, TopkCountsAxesFromBothEndsAndKnowsItsOwn) {
  const Tensor x = f64({3, 1, 0, 2, -1, 5}, {3, 2, 1});
  for (const int axis : {0, 1, 2}) {
    const TopK here = topk(x, 1, {.axis = axis});
    const TopK same = topk(x, 1, {.axis = axis - 3});
    EXPECT_EQ(here.values.shape(), same.values.shape());
    EXPECT_EQ(reals(here.values), reals(same.values)) << axis;
    EXPECT_EQ(integers(here.positions), integers(same.positions)) << axis;
  }
  EXPECT_EQ(topk(x, 0, {.axis = -3}).positions.shape(), (Shape{0, 2, 1}));
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)topk(x, 1, {.axis = 3}); }),
            "topk: axis 3 is outside a tensor of rank 3, whose axes are -3 to 2");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)topk(x, 1, {.axis = -4}); }),
            "topk: axis -4 is outside a tensor of rank 3, whose axes are -3 to 2");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)topk(full(device(), {}, 1), 1); }),
            "topk: axis -1 is outside a tensor of rank 0, which has no axes");
  const Tensor none = grad([](const Tensors& in) { return sum(topk(in[0], 0).values); }, {x})[0];
  EXPECT_THAT(reals(none), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST_F(StatisticsTest, TopkTakesNaNForTheLargestEitherWay) {
  const TopK least = topk(
      f64({NAN, 2, -std::numeric_limits<double>::infinity(), NAN}, {4}), 3, {.descending = false});
  EXPECT_THAT(integers(least.positions), ElementsAre(2, 1, 0));
  EXPECT_THAT(integers(topk(f64({-0.0, 0.0, 0.0}, {3}), 3).positions), ElementsAre(0, 1, 2));
}

TEST_F(StatisticsTest, TopkGivesItsGradientBackToTheChosen) {
  const Tensor x = f64({3, 1, 3, 2, -1, 5}, {2, 3});
  const Tensor weights = f64({10, 20, 30, 40}, {2, 2});
  const Tensor slopes =
      grad([&](const Tensors& in) { return sum(topk(in[0], 2).values * weights); }, {x})[0];
  EXPECT_THAT(reals(slopes), ElementsAre(10, 0, 20, 40, 0, 30));
}

TEST_F(StatisticsTest, TiesOfAMinimumShareEqually) {
  const Tensor x = f64({1, 1, 4, 2, 2, 2}, {2, 3});
  EXPECT_THAT(reals(grad([](const Tensors& in) { return sum(min(in[0], {1}) * 6); }, {x})[0]),
              ElementsAre(3, 3, 0, 2, 2, 2));
}

TEST_F(StatisticsTest, GradientsOfAProductAreExactBesideZeros) {
  const auto slopes = [&](const std::vector<double>& values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return reals(grad([](const Tensors& in) { return prod(in[0]); }, {f64(values, {count})})[0]);
  };
  EXPECT_THAT(slopes({2, 3, 4}), ElementsAre(12, 8, 6));
  EXPECT_THAT(slopes({2, 0, 4}), ElementsAre(0, 8, 0));
  EXPECT_THAT(slopes({0, 3, 0}), ElementsAre(0, 0, 0));
  EXPECT_THAT(slopes({0}), ElementsAre(1));
}

TEST_F(StatisticsTest, ReductionsMatchDifferencesOverAnyAxes) {
  HostRandom random(33);
  Tensor (*const ops[])(Arg, Axes, ReduceOptions) = {
      min,
      prod,
      logsumexp,
      [](Arg x, Axes axes, ReduceOptions options) {
        return var(x, axes, {.keep_dims = options.keep_dims, .correction = 0});
      },
      [](Arg x, Axes axes, ReduceOptions options) {
        return stddev(x, axes, {.keep_dims = options.keep_dims, .correction = 0.5});
      }};
  const std::vector<int> axis_lists[] = {{}, {0}, {-1}, {0, 2}};
  for (const auto op : ops) {
    for (const std::vector<int>& axes : axis_lists) {
      for (const bool keep_dims : {false, true}) {
        SCOPED_TRACE(std::to_string(&op - ops) + ::testing::PrintToString(axes));
        check_gradients(
            device(),
            [&](const Tensors& in) { return square(op(in[0], axes, {.keep_dims = keep_dims})); },
            {random.distinct({2, 3, 2})});
      }
    }
  }
}

TEST_F(StatisticsTest, VarianceDividesByTheCountLessItsCorrection) {
  const Tensor x = f64({1, 2, 3, 4, 10, 10}, {2, 3});
  expect_near(reals(var(x, 1)), {1, 12}, DType::f64);
  expect_near(reals(var(x, 1, {.keep_dims = true, .correction = 0})), {2.0 / 3, 8}, DType::f64);
  EXPECT_EQ(var(x, 1, {.keep_dims = true}).shape(), (Shape{2, 1}));
  expect_near(reals(stddev(x, 1)), {1, std::sqrt(12)}, DType::f64);
  EXPECT_EQ(var(x).shape(), Shape{});
  EXPECT_TRUE(std::isnan(reals(var(f64({1}, {1})))[0])) << "one value says nothing of a spread";
  EXPECT_EQ(reals(var(f64({1}, {1}), {}, {.correction = 0}))[0], 0);
  EXPECT_TRUE(std::isnan(reals(var(zeros(device(), {0})))[0]));
  EXPECT_EQ(thrown_text<DtypeError>([&] {
              (void)var(i32({1, 2}, {2}));
            }),
            "var: does not take i32, only f32, f64, f16, bf16: i32[2]");
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)stddev(x, 2); }), HasSubstr("stddev: axis 2"));
}

// The mean of the squares less the square of the mean would have no digits left.
TEST_F(StatisticsTest, VarianceOfLargeValuesKeepsItsDigits) {
  const Tensor x = f32({30000, 30001, 30002}, {3});
  EXPECT_EQ(reals(var(x))[0], 1);
  const Tensor narrow = cast(f64({2000, 2001, 2002}, {3}), DType::f16);
  EXPECT_EQ(reals(var(narrow))[0], 1);
  EXPECT_EQ(var(narrow).dtype(), DType::f16);
}

TEST_F(StatisticsTest, EqualValuesHaveNoSpreadAndNoSlope) {
  const Tensor x = f64({2, 2, 2}, {3});
  EXPECT_EQ(reals(stddev(x))[0], 0);
  EXPECT_THAT(reals(grad([](const Tensors& in) { return stddev(in[0]); }, {x})[0]),
              ElementsAre(0, 0, 0));
}

TEST_F(StatisticsTest, LogsumexpDoesNotOverflow) {
  expect_near(reals(logsumexp(f64({1000, 1000}, {2}))), {1000 + std::log(2)}, DType::f64);
  expect_near(reals(logsumexp(f32({-1000, -1000, -2000, 5}, {2, 2}), 1)),
              {-1000 + std::log(2), 5},
              DType::f32);
  expect_near(reals(logsumexp(cast(f64({100, 100}, {2}), DType::f16))), {100.6875}, DType::f16);
  EXPECT_EQ(logsumexp(f64({1, 2}, {2}), 0, {.keep_dims = true}).shape(), (Shape{1}));
}

TEST_F(StatisticsTest, LogsumexpOfInfinitiesAndNothing) {
  EXPECT_EQ(reals(logsumexp(f64({-kInfinity, -kInfinity}, {2})))[0], -kInfinity);
  EXPECT_EQ(reals(logsumexp(f64({1, kInfinity}, {2})))[0], kInfinity);
  EXPECT_EQ(reals(logsumexp(f64({1, -kInfinity}, {2})))[0], 1);
  EXPECT_TRUE(std::isnan(reals(logsumexp(f64({1, NAN}, {2})))[0]));
  EXPECT_THAT(reals(logsumexp(zeros(device(), {2, 0}), 1)), ElementsAre(-kInfinity, -kInfinity));
}

TEST_F(StatisticsTest, GradientsOfLogsumexpAreThoseOfSoftmax) {
  const Tensor x = f64({1, 3, 3}, {3});
  const Tensor slopes = grad([](const Tensors& in) { return logsumexp(in[0]); }, {x})[0];
  expect_near(reals(slopes), reals(softmax(x)), DType::f64);
}

TEST_F(StatisticsTest, RunningSumsGoAlongAnAxis) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(reals(cumsum(x, 1)), ElementsAre(0, 1, 3, 3, 7, 12));
  EXPECT_THAT(reals(cumsum(x, -2)), ElementsAre(0, 1, 2, 3, 5, 7));
  EXPECT_THAT(reals(cumsum(transpose(x), 0)), ElementsAre(0, 3, 1, 7, 3, 12));
  EXPECT_THAT(integers(cumsum(cast(f64({200, 100}, {2}), DType::u8), 0)), ElementsAre(200, 300));
  EXPECT_EQ(cumsum(zeros(device(), {0, 2}), 0).shape(), (Shape{0, 2}));
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)cumsum(x, 2); }),
            "cumsum: axis 2 is outside a tensor of rank 2, whose axes are -2 to 1");
  EXPECT_THAT(integers(cumsum(cast(x, DType::boolean), 1)), ElementsAre(0, 1, 2, 1, 2, 3));
}

TEST_F(StatisticsTest, RunningSumsMatchDifferences) {
  HostRandom random(34);
  for (const int axis : {0, 1, 2}) {
    check_gradients(device(),
                    [&](const Tensors& in) { return square(cumsum(in[0], axis)); },
                    {random.signed_values({2, 3, 4})});
  }
}

}  // namespace
}  // namespace hearth
