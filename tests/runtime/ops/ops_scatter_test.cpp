// scatter: values of each mode, order and ties, refused mistakes, failures that depend on the data,
// and gradients against differences and by hand.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <vector>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::thrown_text;
using Tensors = std::vector<Tensor>;

constexpr ScatterMode kModes[] = {
    ScatterMode::set, ScatterMode::add, ScatterMode::mul, ScatterMode::min, ScatterMode::max};

class ScatterTest : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }
  [[nodiscard]] Tensor f64(const std::vector<double>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  [[nodiscard]] Tensor i64(const std::vector<std::int64_t>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  [[nodiscard]] static std::vector<double> reals(const Tensor& tensor) {
    return cast(tensor, DType::f64).to_vector<double>();
  }

 private:
  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}}};
};

double joined(ScatterMode mode, double value, double update) {
  switch (mode) {
    case ScatterMode::add:
      return value + update;
    case ScatterMode::mul:
      return value * update;
    case ScatterMode::min:
      return std::min(value, update);
    case ScatterMode::max:
      return std::max(value, update);
    default:
      return update;
  }
}

TEST_P(ScatterTest, WritesUpdatesAtTheirIndexAlongTheAxis) {
  const Tensor x = f64({0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor index = i64({2, 0, 1, 1}, {2, 2});
  const Tensor updates = f64({10, 20, 30, 40}, {2, 2});
  EXPECT_THAT(reals(scatter(x, 1, index, updates)), ElementsAre(20, 1, 10, 3, 40, 5));
  EXPECT_THAT(reals(scatter(x, -1, index, updates, {.mode = ScatterMode::add})),
              ElementsAre(20, 1, 12, 3, 74, 5));
  EXPECT_THAT(reals(scatter(x, 1, index, updates, {.mode = ScatterMode::mul})),
              ElementsAre(0, 1, 20, 3, 4800, 5));
  EXPECT_THAT(reals(scatter(x, 1, index, updates, {.mode = ScatterMode::max})),
              ElementsAre(20, 1, 10, 3, 40, 5));
  EXPECT_THAT(reals(scatter(x, 1, index, 2, {.mode = ScatterMode::min})),
              ElementsAre(0, 1, 2, 3, 2, 5));
  EXPECT_THAT(reals(scatter(x, 0, i64({1}, {1, 1}), 7.5)), ElementsAre(0, 1, 2, 7.5, 4, 5));
  EXPECT_THAT(reals(x), ElementsAre(0, 1, 2, 3, 4, 5)) << "x is as it was";
  EXPECT_THAT(reals(scatter(x, 1, i64({}, {0, 2}), f64({}, {0, 2}))),
              ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_P(ScatterTest, TakesViewsAndAnOperandThatIsMovedIn) {
  const Tensor x = transpose(f64({0, 1, 2, 3, 4, 5}, {2, 3}));            // [3, 2]
  const Tensor updates = slice(f64({1, 2, 3, 4}, {4}), 0, {.step = -2});  // 4, 2
  const Tensor row = expand(reshape(updates, {2, 1}), {2, 2});
  const Tensor index = expand(i64({2, 0}, {2, 1}), {2, 2});
  EXPECT_THAT(reals(scatter(x, 0, index, row)), ElementsAre(2, 2, 1, 4, 4, 4));
  Tensor moved = contiguous(x) * 1;
  moved = scatter(std::move(moved), 0, index, row, {.mode = ScatterMode::add});
  EXPECT_THAT(reals(moved), ElementsAre(2, 5, 1, 4, 6, 9));
  Tensor own = f64({1, 2, 3}, {3});
  own = scatter(own, 0, i64({0, 1}, {2}), slice(own, 0, {.start = 1}));
  EXPECT_THAT(reals(own), ElementsAre(2, 3, 3));
}

// Many updates for each element, in all types; the plain loop joins them in the order of the index.
TEST_P(ScatterTest, JoinsManyUpdatesInTheOrderOfTheIndex) {
  std::mt19937 random(7);  // the seed
  const Shape shape{5, 3};
  const Shape places{40, 3};
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i8}) {
    for (const ScatterMode mode : kModes) {
      std::vector<double> want(15);
      std::vector<double> updates(120);
      std::vector<std::int64_t> index(120);
      const bool is_product = mode == ScatterMode::mul;
      for (double& value : want) {
        value = is_product ? 1.0 : static_cast<double>(random() % 9) - 4;
      }
      for (std::size_t i = 0; i < updates.size(); ++i) {
        updates[i] =
            is_product ? (random() % 2 == 0 ? 1.0 : -1.0) : static_cast<double>(random() % 9) - 4;
        index[i] = static_cast<std::int64_t>(random() % 5);
      }
      const Tensor x = cast(f64(want, shape), dtype);
      const Tensor result =
          scatter(x, 0, i64(index, places), cast(f64(updates, places), dtype), {.mode = mode});
      EXPECT_EQ(result.dtype(), dtype);
      for (std::size_t i = 0; i < updates.size(); ++i) {
        double& value = want[static_cast<std::size_t>(index[i]) * 3 + i % 3];
        value = joined(mode, value, updates[i]);
      }
      EXPECT_EQ(reals(result), want) << name(dtype) << ", mode " << static_cast<int>(mode);
    }
  }
}

TEST_P(ScatterTest, OfBoolsIsTheirOrAndTheirAnd) {
  const Tensor x = cast(f64({0, 1, 0}, {3}), DType::boolean);
  const Tensor updates = cast(f64({1, 0, 0}, {3}), DType::boolean);
  const Tensor index = i64({0, 1, 2}, {3});
  EXPECT_THAT(reals(scatter(x, 0, index, updates, {.mode = ScatterMode::max})),
              ElementsAre(1, 1, 0));
  EXPECT_THAT(reals(scatter(x, 0, index, updates, {.mode = ScatterMode::min})),
              ElementsAre(0, 0, 0));
  EXPECT_THAT(reals(scatter(x, 0, index, updates)), ElementsAre(1, 0, 0));
}

TEST_P(ScatterTest, NanWinsInExtremes) {
  const Tensor x = f64({NAN, 1, 2}, {3});
  const Tensor updates = f64({0, NAN, 5}, {3});
  for (const ScatterMode mode : {ScatterMode::min, ScatterMode::max}) {
    const std::vector<double> got =
        reals(scatter(x, 0, i64({0, 1, 2}, {3}), updates, {.mode = mode}));
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[1]));
    EXPECT_EQ(got[2], mode == ScatterMode::min ? 2 : 5);
  }
}

TEST_P(ScatterTest, RefusesWhatDoesNotFit) {
  const Tensor x = f64({0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor index = i64({0, 1}, {1, 2});
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)scatter(x, 0, index, x); }),
            "scatter: the updates must be [1, 2]: x f64[2, 3], index i64[1, 2], updates f64[2, 3]");
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)scatter(x, 1, i64({0}, {1}), x); }),
              HasSubstr("scatter: the index must have rank 2"));
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)scatter(x, 0, index, cast(index, DType::f32)); }),
            "scatter: element types differ: f64[2, 3], i64[1, 2], f32[1, 2]");
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)scatter(x, 0, x, x); }),
              HasSubstr("scatter: the index must be i32 or i64"));
  const Tensor bools = equal(x, x);
  EXPECT_THAT(thrown_text<DtypeError>(
                  [&] { (void)scatter(bools, 0, index, 1, {.mode = ScatterMode::add}); }),
              HasSubstr("scatter: bools are neither added nor multiplied"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)scatter(x, 2, index, 1); }),
              HasSubstr("scatter: axis 2 is outside"));
}

TEST_P(ScatterTest, AnIndexOutsideTheAxisPoisonsTheResult) {
  const Tensor x = f64({0, 1, 2, 3, 4, 5}, {2, 3});
  for (const ScatterMode mode : kModes) {
    const Tensor bad = scatter(x, 1, i64({0, 3}, {1, 2}), 1, {.mode = mode});
    try {
      static_cast<void>(reals(bad + 1));
      ADD_FAILURE() << "an index outside was taken";
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_range);
      EXPECT_THAT(error.error().text, HasSubstr("scatter: index"));
    }
  }
  EXPECT_THAT(reals(x), ElementsAre(0, 1, 2, 3, 4, 5)) << "others are as they were";
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         ScatterTest,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0", "sim:0"),
                         [](const auto& param) {
                           const std::string name = param.param;
                           return name.substr(0, name.find(':'));
                         });

using ScatterGradientTest = testing::ReferenceTest;

// Elements without an update, with one, and with several.
TEST_F(ScatterGradientTest, MatchesDifferencesInEveryMode) {
  HostRandom random(41);
  for (const ScatterMode mode : kModes) {
    for (const int axis : {0, 1}) {
      const Shape whole{4, 3};
      const Shape places = axis == 0 ? Shape{5, 2} : Shape{3, 4};
      std::vector<std::int64_t> index(static_cast<std::size_t>(places.element_count()));
      for (std::size_t i = 0; i < index.size(); ++i) {
        index[i] = static_cast<std::int64_t>((i * 5 + 1) % 3);
      }
      testing::HostTensor all = random.distinct({static_cast<std::int64_t>(12 + index.size())});
      testing::HostTensor x{whole, {all.values.begin(), all.values.begin() + 12}};
      testing::HostTensor updates{places, {all.values.begin() + 12, all.values.end()}};
      const Tensor at = i64(index, places);
      check_gradients(
          device(),
          [&](const Tensors& in) { return scatter(in[0], axis, at, in[1], {.mode = mode}); },
          {x, updates});
    }
  }
}

TEST_F(ScatterGradientTest, OfSetGoesToTheLastUpdate) {
  const Tensor index = i64({1, 1, 0}, {3});
  const auto loss = [&](const Tensors& in) {
    return sum(scatter(in[0], 0, index, in[1]) * f64({2, 3, 5}, {3}));
  };
  const Tensors slopes = grad(loss, {f64({0, 0, 0}, {3}), f64({1, 2, 3}, {3})});
  EXPECT_THAT(reals(slopes[0]), ElementsAre(0, 0, 5));
  EXPECT_THAT(reals(slopes[1]), ElementsAre(0, 3, 2));
}

TEST_F(ScatterGradientTest, OfProductsIsRightWithZeros) {
  const Tensor index = i64({0, 0, 1, 2, 2}, {5});
  const auto loss = [&](const Tensors& in) {
    return sum(scatter(in[0], 0, index, in[1], {.mode = ScatterMode::mul}));
  };
  const Tensors slopes = grad(loss, {f64({2, 0, 3}, {3}), f64({0, 5, 7, 0, 0}, {5})});
  EXPECT_THAT(reals(slopes[0]), ElementsAre(0, 7, 0));
  EXPECT_THAT(reals(slopes[1]), ElementsAre(10, 0, 0, 0, 0));
}

TEST_F(ScatterGradientTest, OfExtremesIsSharedByTies) {
  const Tensor index = i64({0, 0, 1}, {3});
  const auto loss = [&](const Tensors& in) {
    return sum(scatter(in[0], 0, index, in[1], {.mode = ScatterMode::max}));
  };
  const Tensors slopes = grad(loss, {f64({4, 1}, {2}), f64({4, 4, 0}, {3})});
  EXPECT_THAT(reals(slopes[0]), ElementsAre(1.0 / 3, 1));
  EXPECT_THAT(reals(slopes[1]), ElementsAre(1.0 / 3, 1.0 / 3, 0));
}

}  // namespace
}  // namespace hearth
