// cumprod, cummax and cummin: values beside plain loops, types, ties, NaN, zeros and gradients.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using testing::HostRandom;
using testing::thrown_text;
using Tensors = std::vector<Tensor>;

class ScanTest : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }
  [[nodiscard]] Tensor f64(const std::vector<double>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  [[nodiscard]] static std::vector<double> reals(const Tensor& tensor) {
    return cast(tensor, DType::f64).to_vector<double>();
  }

 private:
  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}}};
};

TEST_P(ScanTest, GoAlongAnAxis) {
  const Tensor x = f64({3, 1, 2, -1, 5, 4}, {2, 3});
  EXPECT_THAT(reals(cumprod(x, 1)), ElementsAre(3, 3, 6, -1, -5, -20));
  EXPECT_THAT(reals(cumprod(x, -2)), ElementsAre(3, 1, 2, -3, 5, 8));
  EXPECT_THAT(reals(cummax(x, 1)), ElementsAre(3, 3, 3, -1, 5, 5));
  EXPECT_THAT(reals(cummin(x, 1)), ElementsAre(3, 1, 1, -1, -1, -1));
  EXPECT_THAT(reals(cummax(transpose(x), 0)), ElementsAre(3, -1, 3, 5, 3, 5));
  EXPECT_EQ(cummax(zeros(device(), {0, 2}), 0).shape(), (Shape{0, 2}));
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)cumprod(x, 2); }),
            "cumprod: axis 2 is outside a tensor of rank 2, whose axes are -2 to 1");
}

TEST_P(ScanTest, OfIntegersAndBoolsKeepOrWidenTheirTypes) {
  const Tensor bytes = cast(f64({200, 100, 3}, {3}), DType::u8);
  EXPECT_EQ(cumprod(bytes, 0).dtype(), DType::i64);
  EXPECT_THAT(reals(cumprod(bytes, 0)), ElementsAre(200, 20000, 60000));
  EXPECT_EQ(cummin(bytes, 0).dtype(), DType::u8);
  EXPECT_THAT(reals(cummin(bytes, 0)), ElementsAre(200, 100, 3));
  const Tensor bools = cast(f64({0, 1, 0}, {3}), DType::boolean);
  EXPECT_EQ(cummax(bools, 0).dtype(), DType::boolean);
  EXPECT_THAT(reals(cummax(bools, 0)), ElementsAre(0, 1, 1));
  EXPECT_THAT(reals(cumprod(bools, 0)), ElementsAre(0, 0, 0));
}

TEST_P(ScanTest, NanStays) {
  const Tensor x = f64({1, NAN, 3}, {3});
  for (const Tensor& y : {cummax(x, 0), cummin(x, 0), cumprod(x, 0)}) {
    const std::vector<double> got = reals(y);
    EXPECT_EQ(got[0], 1);
    EXPECT_TRUE(std::isnan(got[1]) && std::isnan(got[2]));
  }
}

// Lines that are cut into parts, in both layouts.
TEST_P(ScanTest, OfLongLinesEqualPlainLoops) {
  for (const int axis : {0, 1}) {
    const Shape shape = axis == 0 ? Shape{300'001, 2} : Shape{2, 300'001};
    std::vector<double> values(600'002);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(i * 7919 % 600'011) - 300'000;
    }
    const std::vector<double> got = reals(cummax(f64(values, shape), axis));
    const std::size_t step = axis == 0 ? 2 : 1;
    const std::size_t line = axis == 0 ? 1 : 300'001;
    for (const std::size_t first : {std::size_t{0}, line}) {
      double top = values[first];
      for (std::size_t i = 0; i < 300'001; ++i) {
        top = std::max(top, values[first + i * step]);
        ASSERT_EQ(got[first + i * step], top);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         ScanTest,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0", "sim:0"),
                         [](const auto& param) {
                           const std::string name = param.param;
                           return name.substr(0, name.find(':'));
                         });

using ScanGradientTest = testing::ReferenceTest;

TEST_F(ScanGradientTest, MatchesDifferences) {
  HostRandom random(23);
  for (const int axis : {0, 1, 2}) {
    check_gradients(device(),
                    [&](const Tensors& in) { return square(cumprod(in[0], axis)); },
                    {random.signed_values({2, 3, 4})});
    check_gradients(device(),
                    [&](const Tensors& in) { return square(cummax(in[0], axis)); },
                    {random.distinct({2, 3, 4})});
    check_gradients(device(),
                    [&](const Tensors& in) { return square(cummin(in[0], axis)); },
                    {random.distinct({2, 3, 4})});
  }
}

// A quotient of the result by the element would be 0/0.
TEST_F(ScanGradientTest, OfProductsIsRightWithZeros) {
  for (const std::vector<double>& values : {std::vector<double>{2, 0, 3, 4},
                                            std::vector<double>{0, 2, 3, 4},
                                            std::vector<double>{2, 0, 3, 0},
                                            std::vector<double>{2, 3, 4, 0}}) {
    check_gradients(
        device(), [](const Tensors& in) { return cumprod(in[0], 0); }, {{Shape{4}, values}});
  }
}

TEST_F(ScanGradientTest, OfExtremesGoesToTheLastOfEqualValues) {
  const auto loss = [](const Tensors& in) {
    return sum(cummax(in[0], 0) * arange(in[0].device(), 1, 5, 1, DType::f64));
  };
  EXPECT_THAT(reals(grad(loss, {f64({2, 2, 1, 3}, {4})})[0]), ElementsAre(1, 5, 0, 4));
  EXPECT_THAT(reals(grad(loss, {f64({2, NAN, 1, NAN}, {4})})[0]), ElementsAre(1, 5, 0, 4));
}

}  // namespace
}  // namespace hearth
