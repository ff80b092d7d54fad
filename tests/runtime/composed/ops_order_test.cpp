// searchsorted, bucketize, median, quantile and bincount beside plain loops.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/selection_ops.hpp>

#include "tests/runtime/composed/composed_test.hpp"
#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::HostTensor;
using ::testing::IsEmpty;
using ::testing::Pointwise;
using testing::thrown_text;
using OrderTest = testing::ComposedTest;
using Tensors = std::vector<Tensor>;

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_P(OrderTest, SearchsortedFindsThePlaceInEachRow) {
  std::mt19937 engine(11);
  for (const std::int64_t size : {1, 2, 3, 7, 8, 9, 100}) {
    std::vector<double> row(static_cast<std::size_t>(size));
    std::vector<double> values(23);
    for (std::vector<double>* list : {&row, &values}) {
      std::ranges::generate(*list, [&] { return static_cast<double>(engine() % 12); });
    }
    std::ranges::sort(row);
    for (const bool right : {false, true}) {
      std::vector<std::int64_t> wanted;
      for (const double value : values) {
        const auto place =
            right ? std::ranges::upper_bound(row, value) : std::ranges::lower_bound(row, value);
        wanted.push_back(place - row.begin());
      }
      for (const DType dtype : {DType::f64, DType::f16, DType::i32, DType::u8}) {
        const Tensor got =
            searchsorted(cast(f64(row), dtype), cast(f64(values), dtype), {.right = right});
        EXPECT_EQ(got.dtype(), DType::i64);
        EXPECT_EQ(integers(got), wanted) << size << right << dtype;
      }
      EXPECT_EQ(integers(bucketize(f64(values), f64(row), {.right = right})), wanted);
    }
  }
}

TEST_P(OrderTest, SearchsortedTakesRowsOfRows) {
  const Tensor rows = f64({1, 3, 5, 7, 2, 4, 6, 8}, {2, 4});
  const Tensor values = f64({3, 6, 9, 3, 6, 9}, {2, 3});
  EXPECT_THAT(integers(searchsorted(rows, values)), ElementsAre(1, 3, 4, 1, 2, 4));
  EXPECT_THAT(integers(searchsorted(rows, values, {.right = true})), ElementsAre(2, 3, 4, 1, 3, 4));
  EXPECT_THAT(integers(searchsorted(transpose(f64({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2})), values)),
              ElementsAre(1, 3, 4, 1, 2, 4));
  EXPECT_EQ(searchsorted(f64({1, 2}), values).shape(), (Shape{2, 3}));
  EXPECT_EQ(searchsorted(f64({1, 2}), full(device(), {}, 1.5, DType::f64)).shape(), Shape{});
}

TEST_P(OrderTest, SearchsortedPutsNanLast) {
  const double nan = std::nan("");
  const Tensor row = f64({1, kInf, nan});
  EXPECT_THAT(integers(searchsorted(row, f64({nan, kInf, -kInf, 2}))), ElementsAre(2, 1, 0, 1));
  EXPECT_THAT(integers(searchsorted(row, f64({nan, kInf, -kInf, 2}), {.right = true})),
              ElementsAre(3, 2, 0, 1));
}

TEST_P(OrderTest, SearchsortedTakesEmptyOperandsAndRefusesOthers) {
  EXPECT_THAT(integers(searchsorted(zeros(device(), {0}), ones(device(), {2}))), ElementsAre(0, 0));
  EXPECT_EQ(searchsorted(ones(device(), {2}), zeros(device(), {0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(searchsorted(zeros(device(), {0, 2}), zeros(device(), {0, 3})).shape(), (Shape{0, 3}));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)searchsorted(counting({2, 3}), counting({3, 3}));
              }),
              HasSubstr("searchsorted: needs a sorted row [n], or rows and values with equal "
                        "leading axes: sorted f64[2, 3], values f64[3, 3]"));
  EXPECT_THROW((void)searchsorted(full(device(), {}, 1), counting({2})), ShapeError);
  EXPECT_THROW((void)searchsorted(counting({2}), greater(counting({2}), 0)), DtypeError);
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)bucketize(counting({2}), counting({2, 2}));
              }),
              HasSubstr("bucketize: needs boundaries [n], got f64[2, 2]"));
}

TEST_P(OrderTest, MedianIsTheLowerMiddle) {
  const Tensor x = f64({5, 1, 4, 2, 9, 7, 8, 6}, {2, 4});
  EXPECT_EQ(median(x).item(), 5);
  EXPECT_EQ(median(x).shape(), Shape{});
  const TopK rows = median(x, 1);
  EXPECT_THAT(reals(rows.values), ElementsAre(2, 7));
  EXPECT_THAT(integers(rows.positions), ElementsAre(3, 1));
  const TopK columns = median(x, 0, {.keep_dims = true});
  EXPECT_EQ(columns.values.shape(), (Shape{1, 4}));
  EXPECT_THAT(reals(columns.values), ElementsAre(5, 1, 4, 2));
  EXPECT_THAT(reals(median(transpose(x), -2).values), ElementsAre(2, 7));
  for (const DType dtype :
       {DType::f32, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    EXPECT_EQ(median(cast(x, dtype)).dtype(), dtype);
    EXPECT_EQ(median(cast(x, dtype)).item(), 5);
    EXPECT_THAT(integers(median(cast(x, dtype), 1).positions), ElementsAre(3, 1));
  }
}

TEST_P(OrderTest, MedianOfNanIsNan) {
  const double nan = std::nan("");
  const TopK rows = median(f64({1, nan, 3, nan, 1, 2, 3, 4}, {2, 4}), 1);
  const std::vector<double> values = reals(rows.values);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], 2);
  EXPECT_THAT(integers(rows.positions), ElementsAre(1, 1)) << "the first NaN";
  EXPECT_TRUE(std::isnan(median(f64({nan})).item()));
}

TEST_P(OrderTest, MedianHasAGradientAndRefusesEmptyRows) {
  check_gradients(device(),
                  [](const Tensors& in) { return square(median(in[0], 1).values); },
                  {HostRandom(12).distinct({3, 4})});
  check_gradients(device(),
                  [](const Tensors& in) { return square(median(in[0])); },
                  {HostRandom(13).distinct({5})});
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)median(zeros(device(), {2, 0}));
              }),
              HasSubstr("median: there are no elements to order: f32[2, 0]"));
  EXPECT_THROW((void)median(zeros(device(), {2, 0}), 1), ArgumentError);
  EXPECT_EQ(median(zeros(device(), {2, 0}), 0).values.shape(), Shape{0});
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)median(counting({2}), 1); }),
              HasSubstr("median: "));
}

double plain_quantile(std::vector<double> values, double q, QuantileMode mode) {
  std::ranges::sort(values);
  const double place = q * static_cast<double>(values.size() - 1);
  const auto at = [&](double number) { return values[static_cast<std::size_t>(number)]; };
  const double low = at(std::floor(place));
  const double high = at(std::ceil(place));
  switch (mode) {
    case QuantileMode::linear:
      return low + (place - std::floor(place)) * (high - low);
    case QuantileMode::lower:
      return low;
    case QuantileMode::higher:
      return high;
    case QuantileMode::nearest:
      return at(std::nearbyint(place));
    case QuantileMode::midpoint:
      return (low + high) / 2;
  }
  return 0;
}

constexpr QuantileMode kModes[] = {QuantileMode::linear,
                                   QuantileMode::lower,
                                   QuantileMode::higher,
                                   QuantileMode::nearest,
                                   QuantileMode::midpoint};

TEST_P(OrderTest, QuantilesMatchPlainLoops) {
  const HostTensor x = HostRandom(14).uniform({3, 4, 5}, -1, 1);
  const std::vector<double> parts{0, 0.1, 0.25, 0.5, 0.875, 1};
  for (const QuantileMode mode : kModes) {
    for (const int axis : {0, 1, 2, -1}) {
      const int own = axis < 0 ? axis + 3 : axis;
      const Tensor got = quantile(x.on(device()), parts, {.axis = axis, .mode = mode});
      Shape left;
      for (int i = 0; i < 3; ++i) {
        if (i != own) {
          left.push_back(x.shape[i]);
        }
      }
      EXPECT_EQ(got.shape(), (Shape{6, left[0], left[1]}));
      std::int64_t inner = 1;
      for (int i = own + 1; i < 3; ++i) {
        inner *= x.shape[i];
      }
      std::vector<double> wanted;
      for (const double part : parts) {
        for (std::int64_t i = 0; i < left.element_count(); ++i) {
          std::vector<double> row;
          for (std::int64_t k = 0; k < x.shape[own]; ++k) {
            const std::int64_t place = (i / inner * x.shape[own] + k) * inner + i % inner;
            row.push_back(x.values[static_cast<std::size_t>(place)]);
          }
          wanted.push_back(plain_quantile(row, part, mode));
        }
      }
      EXPECT_THAT(reals(got), Pointwise(DoubleNear(1e-12), wanted)) << axis;
    }
    EXPECT_NEAR(quantile(x.on(device()), 0.3, {.mode = mode}).item(),
                plain_quantile(x.values, 0.3, mode),
                1e-12);
  }
}

TEST_P(OrderTest, QuantileKeepsShapesTypesAndNan) {
  const Tensor x = f64({1, std::nan(""), 3, 4, kInf, -kInf}, {3, 2});
  const std::vector<double> rows = reals(quantile(x, 0.5, {.axis = 1}));
  EXPECT_TRUE(std::isnan(rows[0]));
  EXPECT_EQ(rows[1], 3.5);
  EXPECT_EQ(quantile(x, 0.5, {.axis = 1, .keep_dims = true}).shape(), (Shape{3, 1}));
  EXPECT_EQ(quantile(x, 0.5, {.keep_dims = true}).shape(), (Shape{1, 1}));
  EXPECT_EQ(quantile(x, {0.5, 1}, {.axis = 0, .keep_dims = true}).shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(quantile(x, std::vector<double>{}).shape(), Shape{0});
  EXPECT_EQ(quantile(f64({kInf, kInf}), 0.3).item(), kInf);
  EXPECT_EQ(quantile(f64({1, kInf, kInf}), 0.5).item(), kInf);
  EXPECT_EQ(quantile(cast(f64({1, 2}), DType::f16), 0.5).dtype(), DType::f16);
  EXPECT_EQ(quantile(cast(f64({1, 2}), DType::bf16), 0.5).item(), 1.5);
}

TEST_P(OrderTest, QuantileHasAGradientAndRefusesOthers) {
  for (const QuantileMode mode : kModes) {
    check_gradients(device(),
                    [&](const Tensors& in) {
                      return square(quantile(in[0], {0.2, 0.7}, {.axis = 0, .mode = mode}));
                    },
                    {HostRandom(15).distinct({4, 3})});
  }
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)quantile(counting({3}), 1.5); }),
              HasSubstr("quantile: q 1.5 is not in 0 to 1"));
  EXPECT_THROW((void)quantile(counting({3}), std::nan("")), ArgumentError);
  EXPECT_THROW((void)quantile(counting({3}), 0.5, {.axis = 1}), ArgumentError);
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)quantile(zeros(device(), {0}), 0.5); }),
              HasSubstr("quantile: there are no elements to order"));
  EXPECT_THROW((void)quantile(i64({1, 2}), 0.5), DtypeError);
}

TEST_P(OrderTest, BincountCountsAndAddsWeights) {
  const Tensor x = i64({3, 0, 3, 5, 0, 3});
  EXPECT_THAT(integers(bincount(x)), ElementsAre(2, 0, 0, 3, 0, 1));
  EXPECT_THAT(integers(bincount(x, {.min_length = 8})), ElementsAre(2, 0, 0, 3, 0, 1, 0, 0));
  for (const DType dtype : {DType::i32, DType::u8, DType::i8}) {
    EXPECT_THAT(integers(bincount(cast(x, dtype))), ElementsAre(2, 0, 0, 3, 0, 1));
  }
  const Tensor weights = f64({1, 2, 3, 4, 5, 6});
  const Tensor sums = bincount(x, {.weights = weights});
  EXPECT_EQ(sums.dtype(), DType::f64);
  EXPECT_THAT(reals(sums), ElementsAre(7, 0, 0, 10, 0, 4));
  EXPECT_EQ(bincount(x, {.weights = cast(weights, DType::i32)}).dtype(), DType::i32);
  EXPECT_EQ(bincount(i64({})).shape(), Shape{0});
  EXPECT_THAT(integers(bincount(i64({}), {.min_length = 2})), ElementsAre(0, 0));
  check_gradients(device(),
                  [&](const Tensors& in) { return square(bincount(x, {.weights = in[0]})); },
                  {HostRandom(16).uniform({6}, -1, 1)});
}

TEST_P(OrderTest, BincountRefusesWhatItCannotCount) {
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)bincount(i64({1, -3}));
              }),
              HasSubstr("bincount: the number -3 is below 0: x i64[2]"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)bincount(f64({1})); }),
              HasSubstr("bincount: counts integers: x f64[1]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)bincount(i64({1, 2}, {1, 2}));
              }),
              HasSubstr("bincount: needs a row [n]: x i64[1, 2]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)bincount(i64({1}), {.weights = f64({1, 2})});
              }),
              HasSubstr("bincount: weights f64[2] differ in shape: x i64[1]"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)bincount(i64({1}), {.min_length = -1}); }),
              HasSubstr("bincount: min_length -1 is below 0"));
}

HEARTH_ON_COMPOSED_DEVICES(OrderTest);

}  // namespace
}  // namespace hearth
