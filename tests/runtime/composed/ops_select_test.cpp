// nonzero, masked_select and unique beside plain loops.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/selection_ops.hpp>

#include "tests/runtime/composed/composed_test.hpp"
#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using ::testing::IsEmpty;
using testing::thrown_text;
using SelectTest = testing::ComposedTest;
using Tensors = std::vector<Tensor>;

std::vector<double> small_numbers(std::uint32_t seed, std::int64_t count, int highest) {
  std::mt19937 engine(seed);
  std::vector<double> values(static_cast<std::size_t>(count));
  std::ranges::generate(
      values, [&] { return static_cast<double>(engine() % static_cast<unsigned>(highest + 1)); });
  return values;
}

TEST_P(SelectTest, NonzeroGivesThePlacesInRowMajorOrder) {
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{1}, Shape{7, 1, 9}, Shape{4099}}) {
    const std::vector<double> values = small_numbers(1, shape.element_count(), 2);
    std::vector<std::int64_t> wanted;
    const Strides strides = contiguous_strides(shape);
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (int axis = 0; values[i] != 0 && axis < shape.rank(); ++axis) {
        wanted.push_back(static_cast<std::int64_t>(i) / strides[static_cast<std::size_t>(axis)] %
                         shape[axis]);
      }
    }
    for (const DType dtype : testing::kAllTypes) {
      const Tensor places = nonzero(cast(f64(values, shape), dtype));
      EXPECT_EQ(places.dtype(), DType::i64);
      EXPECT_EQ(places.shape(),
                (Shape{static_cast<std::int64_t>(wanted.size()) / shape.rank(), shape.rank()}));
      EXPECT_EQ(integers(places), wanted) << dtype;
    }
  }
}

TEST_P(SelectTest, NonzeroTakesNanAndEdges) {
  const double nan = std::nan("");
  EXPECT_THAT(integers(nonzero(f64({0, nan, -0.0, -1}))), ElementsAre(1, 3));
  EXPECT_EQ(nonzero(zeros(device(), {2, 3})).shape(), (Shape{0, 2}));
  EXPECT_EQ(nonzero(zeros(device(), {2, 0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(nonzero(full(device(), {}, 3)).shape(), (Shape{1, 0}));
  EXPECT_EQ(nonzero(full(device(), {}, 0)).shape(), (Shape{0, 0}));
  const Tensor x = f64({0, 1, 2, 0, 0, 3}, {2, 3});
  EXPECT_THAT(integers(nonzero(transpose(x))), ElementsAre(1, 0, 2, 0, 2, 1));
  EXPECT_THAT(integers(nonzero(slice(x, 1, {.start = 2, .stop = 0, .step = -1}))),
              ElementsAre(0, 0, 0, 1, 1, 0));
}

TEST_P(SelectTest, WaitsUnderTheGivenOptions) {
  const Tensor x = f64({0, 1});
  EXPECT_THAT(integers(nonzero(x, WaitOptions{.deadline = Deadline::in(std::chrono::minutes(1))})),
              ElementsAre(1));
}

TEST_P(SelectTest, AFailedOperandFailsTheWait) {
  const Tensor broken = index_select(f64({1, 2}), 0, i64({0, 7}));
  EXPECT_THROW((void)nonzero(broken), DeviceError);
  EXPECT_THROW((void)unique(broken), DeviceError);
}

TEST_P(SelectTest, MaskedSelectTakesElementsInOrder) {
  const Tensor x = f64({0, 1, 2, 3, 4, 5}, {2, 3});
  EXPECT_THAT(reals(masked_select(x, greater(x, 1.5))), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(reals(masked_select(transpose(x), greater(transpose(x), 1.5))),
              ElementsAre(3, 4, 2, 5));
  const Tensor row = greater(f64({0, 1, 0}), 0);
  EXPECT_THAT(reals(masked_select(x, row)), ElementsAre(1, 4));
  EXPECT_THAT(reals(masked_select(f64({7}), greater(x, 3))), ElementsAre(7, 7));
  EXPECT_EQ(masked_select(x, less(x, 0)).shape(), Shape{0});
  EXPECT_EQ(masked_select(zeros(device(), {0, 3}), row).shape(), Shape{0});
  for (const DType dtype : testing::kAllTypes) {
    const Tensor typed = masked_select(cast(x, dtype), row);
    EXPECT_EQ(typed.dtype(), dtype);
    EXPECT_EQ(reals(typed), (std::vector<double>{1, dtype == DType::boolean ? 1.0 : 4.0}));
  }
}

TEST_P(SelectTest, MaskedSelectHasAGradient) {
  const Tensor mask = greater(counting({2, 3}), 1.5);
  check_gradients(device(),
                  [&](const Tensors& in) { return square(masked_select(in[0], mask)); },
                  {HostRandom(3).uniform({2, 3}, -1, 1)});
  check_gradients(device(),
                  [&](const Tensors& in) { return square(masked_select(in[0], mask)); },
                  {HostRandom(4).uniform({1, 3}, -1, 1)});
}

TEST_P(SelectTest, MaskedSelectRefusesWhatDoesNotFit) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)masked_select(x, x); }),
              HasSubstr("masked_select: the mask is not bool: x f64[2, 3], mask f64[2, 3]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)masked_select(x, greater(counting({2}), 0)); }),
              HasSubstr("masked_select: shapes do not broadcast: x f64[2, 3], mask bool[2]"));
}

// The distinct values in sorted order, with the places of each.
using Groups = std::map<std::vector<double>, std::vector<std::int64_t>>;

void expect_groups(const UniqueValues& got, const Groups& wanted, std::size_t width) {
  std::vector<double> values;
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> counts;
  std::map<std::int64_t, std::int64_t> inverse;
  for (const auto& [value, places] : wanted) {
    values.insert(values.end(), value.begin(), value.end());
    for (const std::int64_t place : places) {
      inverse[place] = static_cast<std::int64_t>(first.size());
    }
    first.push_back(places.front());
    counts.push_back(static_cast<std::int64_t>(places.size()));
  }
  EXPECT_EQ(got.values.element_count(), static_cast<std::int64_t>(first.size() * width));
  EXPECT_EQ(cast(got.values, DType::f64).to_vector<double>(), values);
  EXPECT_EQ(got.first.to_vector<std::int64_t>(), first);
  EXPECT_EQ(got.counts.to_vector<std::int64_t>(), counts);
  const std::vector<std::int64_t> numbers = got.inverse.to_vector<std::int64_t>();
  ASSERT_EQ(numbers.size(), inverse.size());
  for (const auto& [place, number] : inverse) {
    EXPECT_EQ(numbers[static_cast<std::size_t>(place)], number) << place;
  }
}

constexpr UniqueOptions kAllParts{.with_first = true, .with_inverse = true, .with_counts = true};

TEST_P(SelectTest, UniqueSortsTheDistinctElements) {
  const Shape shape{5, 7};
  const std::vector<double> values = small_numbers(5, shape.element_count(), 9);
  for (const DType dtype : testing::kAllTypes) {
    Groups groups;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = dtype == DType::boolean ? (values[i] != 0 ? 1 : 0) : values[i];
      groups[{value}].push_back(static_cast<std::int64_t>(i));
    }
    const UniqueValues got = unique(cast(f64(values, shape), dtype), kAllParts);
    EXPECT_EQ(got.values.dtype(), dtype);
    EXPECT_EQ(got.inverse.shape(), shape);
    expect_groups(got, groups, 1);
  }
}

TEST_P(SelectTest, UniqueGivesOnlyThePartsAskedFor) {
  const Tensor x = f64({3, 1, 3});
  const UniqueValues plain = unique(x);
  EXPECT_THAT(reals(plain.values), ElementsAre(1, 3));
  EXPECT_FALSE(plain.first.is_valid());
  EXPECT_FALSE(plain.inverse.is_valid());
  EXPECT_FALSE(plain.counts.is_valid());
  EXPECT_TRUE(unique(x, {.with_counts = true}).counts.is_valid());
}

TEST_P(SelectTest, UniqueKeepsTheOrderOfFirstPlaces) {
  const Tensor x = f64({2, 1, 1, 3, 4, 3, 2});
  const UniqueValues got =
      unique(x, {.sorted = false, .with_first = true, .with_inverse = true, .with_counts = true});
  EXPECT_THAT(reals(got.values), ElementsAre(2, 1, 3, 4));
  EXPECT_THAT(integers(got.first), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(integers(got.counts), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(integers(got.inverse), ElementsAre(0, 1, 1, 2, 3, 2, 0));
}

TEST_P(SelectTest, UniqueComparesSlicesAlongAnAxis) {
  const Shape shape{6, 2, 3};
  const std::vector<double> values = small_numbers(6, shape.element_count(), 1);
  for (const int axis : {0, 1, -1}) {
    const int own = axis < 0 ? axis + shape.rank() : axis;
    std::vector<int> order{own};
    for (int i = 0; i < shape.rank(); ++i) {
      if (i != own) {
        order.push_back(i);
      }
    }
    const Tensor x = f64(values, shape);
    const std::vector<double> rows = reals(contiguous(permute(x, order)));
    const auto width = static_cast<std::size_t>(shape.element_count() / shape[own]);
    Groups groups;
    for (std::int64_t i = 0; i < shape[own]; ++i) {
      const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(width) * i;
      groups[std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(width))].push_back(i);
    }
    UniqueOptions options = kAllParts;
    options.axis = axis;
    UniqueValues got = unique(x, options);
    Shape wanted = shape;
    wanted.set(own, static_cast<std::int64_t>(groups.size()));
    EXPECT_EQ(got.values.shape(), wanted);
    got.values = contiguous(permute(got.values, order));
    expect_groups(got, groups, width);
  }
}

TEST_P(SelectTest, UniqueTakesNanZerosAndEmptyOperands) {
  const double nan = std::nan("");
  const UniqueValues got = unique(f64({nan, 1, nan, 1, -0.0, 0.0}), kAllParts);
  EXPECT_EQ(got.values.element_count(), 4) << "each NaN is distinct";
  EXPECT_THAT(integers(got.counts), ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(integers(got.first), ElementsAre(4, 1, 0, 2));
  const UniqueValues none = unique(zeros(device(), {0, 3}), kAllParts);
  EXPECT_EQ(none.values.shape(), Shape{0});
  EXPECT_EQ(none.inverse.shape(), (Shape{0, 3}));
  EXPECT_EQ(none.counts.shape(), Shape{0});
  EXPECT_EQ(unique(zeros(device(), {0, 3}), {.axis = 0}).values.shape(), (Shape{0, 3}));
  EXPECT_EQ(unique(zeros(device(), {2, 0}), {.axis = 0}).values.shape(), (Shape{1, 0}));
  EXPECT_THAT(reals(unique(full(device(), {}, 5)).values), ElementsAre(5));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)unique(f64({1}), {.axis = 1}); }),
              HasSubstr("unique: "));
}

TEST_P(SelectTest, UniqueOfViewsReadsTheView) {
  const Tensor x = f64({3, 1, 2, 1, 3, 2}, {2, 3});
  EXPECT_THAT(integers(unique(transpose(x), kAllParts).inverse), ElementsAre(2, 0, 0, 2, 1, 1));
  EXPECT_THAT(reals(unique(expand(f64({4}, {1, 1}), {2, 2})).values), ElementsAre(4));
}

HEARTH_ON_COMPOSED_DEVICES(SelectTest);

}  // namespace
}  // namespace hearth
