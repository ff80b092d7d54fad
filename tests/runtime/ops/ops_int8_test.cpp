// Tensors of i8 and their products, on each backend of this machine: exact sums in i32, accepted
// calls, and error texts.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown_text;

class Int8Test : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }

  /// All values of the type, in no simple order.
  [[nodiscard]] Tensor bytes(const Shape& shape, std::int64_t step = 101) const {
    std::vector<std::int8_t> values(static_cast<std::size_t>(shape.element_count()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::int8_t>((static_cast<std::int64_t>(i) * step) % 256 - 128);
    }
    return Tensor::from(device(), values, shape);
  }

  /// The product of two matrices by three loops.
  [[nodiscard]] static std::vector<std::int32_t> product(const Tensor& a, const Tensor& b) {
    const auto x = a.to_vector<std::int8_t>();
    const auto y = b.to_vector<std::int8_t>();
    const auto rows = static_cast<std::size_t>(a.size(0));
    const auto depth = static_cast<std::size_t>(a.size(1));
    const auto columns = static_cast<std::size_t>(b.size(1));
    std::vector<std::int32_t> sums(rows * columns, 0);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t k = 0; k < depth; ++k) {
        for (std::size_t j = 0; j < columns; ++j) {
          sums[i * columns + j] += int{x[i * depth + k]} * int{y[k * columns + j]};
        }
      }
    }
    return sums;
  }

 private:
  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}, .blocking_compiles = true}};
};

TEST_P(Int8Test, KeepsItsValuesOnTheWayInAndOut) {
  const std::vector<std::int8_t> values{-128, -1, 0, 127};
  const Tensor x = Tensor::from(device(), values, {2, 2});
  EXPECT_EQ(x.dtype(), DType::i8);
  EXPECT_EQ(x.to_vector<std::int8_t>(), values);
  EXPECT_EQ(x[0][1].item<int>(), -1);
  std::ostringstream text;
  text << x;
  EXPECT_THAT(text.str(), HasSubstr("-128"));
  EXPECT_EQ(describe(x.dtype(), x.shape()), "i8[2, 2]");
}

TEST_P(Int8Test, ComputesAndWrapsAsABytesNumber) {
  const Tensor x = Tensor::from(device(), std::vector<std::int8_t>{-128, -7, 5, 127}, {4});
  EXPECT_THAT((x + 1).to_vector<std::int8_t>(), ElementsAre(-127, -6, 6, -128));
  EXPECT_THAT((x * x).to_vector<std::int8_t>(), ElementsAre(0, 49, 25, 1));
  EXPECT_THAT(abs(x).to_vector<std::int8_t>(), ElementsAre(-128, 7, 5, 127));
  EXPECT_THAT((-x).to_vector<std::int8_t>(), ElementsAre(-128, 7, -5, -127));
  EXPECT_THAT((x / 2).to_vector<std::int8_t>(), ElementsAre(-64, -3, 2, 63));
  EXPECT_THAT(floor_divide(x, 2).to_vector<std::int8_t>(), ElementsAre(-64, -4, 2, 63));
  EXPECT_THAT(sign(x).to_vector<std::int8_t>(), ElementsAre(-1, -1, 1, 1));
  EXPECT_THAT(maximum(x, 0).to_vector<std::int8_t>(), ElementsAre(0, 0, 5, 127));
  EXPECT_EQ(max(x).item<int>(), 127);
  EXPECT_EQ(min(x).item<int>(), -128);
  EXPECT_EQ(argmin(x).item<int>(), 0);
  EXPECT_EQ(sum(x).item<int>(), -3);
  EXPECT_THAT(cumsum(x, 0).to_vector<std::int64_t>(), ElementsAre(-128, -135, -130, -3));
}

TEST_P(Int8Test, IsCastWithItsSign) {
  const Tensor x = Tensor::from(device(), std::vector<std::int8_t>{-128, -1, 127}, {3});
  EXPECT_THAT(x.to(DType::f32).to_vector<float>(), ElementsAre(-128, -1, 127));
  EXPECT_THAT(x.to(DType::i64).to_vector<std::int64_t>(), ElementsAre(-128, -1, 127));
  EXPECT_THAT(x.to(DType::u8).to_vector<std::uint8_t>(), ElementsAre(128, 255, 127));
  EXPECT_THAT(x.to(DType::f16).to(DType::i8).to_vector<std::int8_t>(), ElementsAre(-128, -1, 127));
  const Tensor reals = Tensor::from(device(), std::vector<float>{-300, -1.9F, 126.9F, 400}, {4});
  EXPECT_THAT(reals.to(DType::i8).to_vector<std::int8_t>(), ElementsAre(-128, -1, 126, 127));
  const Tensor wide = Tensor::from(device(), std::vector<std::int32_t>{200, -129, 256}, {3});
  EXPECT_THAT(wide.to(DType::i8).to_vector<std::int8_t>(), ElementsAre(-56, 127, 0));
}

TEST_P(Int8Test, ProductsAreExactInI32) {
  for (const std::vector<std::int64_t>& size : std::vector<std::vector<std::int64_t>>{
           {1, 1, 1}, {3, 5, 2}, {1, 300, 70}, {70, 300, 1}, {30, 64, 48}, {129, 515, 67}}) {
    const Tensor a = bytes({size[0], size[1]});
    const Tensor b = bytes({size[1], size[2]}, 77);
    const Tensor c = matmul(a, b);
    EXPECT_EQ(c.dtype(), DType::i32);
    EXPECT_EQ(c.to_vector<std::int32_t>(), product(a, b)) << c.shape();
    const Tensor turned = transpose(matmul(transpose(b), transpose(a)));
    EXPECT_EQ(contiguous(turned).to_vector<std::int32_t>(), product(a, b)) << c.shape();
  }
}

TEST_P(Int8Test, TheLongestSumFits) {
  const Tensor low = full(device(), {2, 131071}, -128, DType::i8);
  EXPECT_THAT(matmul(low, transpose(low)).to_vector<std::int32_t>(),
              ::testing::Each(131071 * 16384));
  const Tensor high = full(device(), {131071, 9}, 127, DType::i8);
  EXPECT_THAT(matmul(low, high).to_vector<std::int32_t>(), ::testing::Each(131071 * -16256));
}

TEST_P(Int8Test, ProductsHaveBatchesThatBroadcast) {
  const Tensor a = bytes({2, 1, 3, 33});
  const Tensor b = bytes({5, 33, 4}, 77);
  const Tensor c = matmul(a, b);
  EXPECT_EQ(c.shape(), (Shape{2, 5, 3, 4}));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 5; ++j) {
      EXPECT_EQ(contiguous(c[i][j]).to_vector<std::int32_t>(),
                product(contiguous(a[i][0]), contiguous(b[j])));
    }
  }
  EXPECT_THAT(matmul(full(device(), {3}, 2, DType::i8), full(device(), {3}, -5, DType::i8))
                  .to_vector<std::int32_t>(),
              ElementsAre(-30));
  EXPECT_THAT(matmul(zeros(device(), {2, 0}, DType::i8), zeros(device(), {0, 1}, DType::i8))
                  .to_vector<std::int32_t>(),
              ElementsAre(0, 0));
}

TEST_P(Int8Test, WhatFollowsAProductIsWhatItIsAlone) {
  const Tensor a = bytes({37, 130});
  const Tensor b = bytes({130, 50}, 77);
  const std::vector<std::int32_t> sums = product(a, b);
  const Tensor scale = arange(device(), 1, 51, 1, DType::f32) * 0.25F;
  const Tensor shift = arange(device(), 0, 37, 1, DType::f32);
  device().sync();
  const auto scaled =
      (matmul(a, b).to(DType::f32) * scale + reshape(shift, {37, 1})).to_vector<float>();
  const auto halves = maximum(matmul(a, b), 0).to(DType::f16).to_vector<f16>();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto column = static_cast<float>(i % 50 + 1) * 0.25F;
    ASSERT_EQ(scaled[i], static_cast<float>(sums[i]) * column + static_cast<float>(i / 50)) << i;
    ASSERT_EQ(halves[i].bits, f16(static_cast<float>(std::max(sums[i], 0))).bits) << i;
  }
}

TEST_P(Int8Test, ProductsHaveNoGradient) {
  const Tensor x = Tensor::from(device(), std::vector<float>{1, 2, 3, 4}, {2, 2});
  const auto gradients = grad(
      [](const std::vector<Tensor>& in) {
        const Tensor small = in[0].to(DType::i8);
        return sum(matmul(small, small).to(DType::f32)) + sum(in[0]);
      },
      {x});
  EXPECT_THAT(gradients[0].to_vector<float>(), ElementsAre(1, 1, 1, 1));
}

TEST_P(Int8Test, ErrorsSayWhatToDo) {
  const Tensor a = bytes({2, 3});
  const Tensor b = bytes({3, 2});
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)matmul(a, b.to(DType::f32)); }),
            "matmul: element types differ: cast both sides to i8, or to a float type: lhs i8[2, "
            "3], rhs f32[3, 2]");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)matmul(a.to(DType::u8), b); }),
            "matmul: element types differ: cast both sides to i8, or to a float type: lhs u8[2, "
            "3], rhs i8[3, 2]");
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)matmul(a, b, zeros(device(), {2}, DType::i8)); }),
              HasSubstr("a product of i8 takes no bias: add it to the result, which is i32"));
  const Tensor wide = zeros(device(), {1, 131072}, DType::i8);
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)matmul(wide, transpose(wide)); }),
            "matmul: a sum of 131072 products of i8 may not fit i32, one of 131071 does: cut the "
            "inner axis into parts, or cast to f32: lhs i8[1, 131072], rhs i8[131072, 1]");
  EXPECT_THAT(thrown_text<DtypeError>([&] {
                (void)einsum("ij,jk->ik", {a, b});
              }),
              HasSubstr("does not take i8: write it as matmul, or cast first"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)(a + 128); }),
              HasSubstr("the number 128 does not fit i8[2, 3]"));
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         Int8Test,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0", "sim:0"),
                         [](const auto& param) {
                           const std::string name = param.param;
                           return name.substr(0, name.find(':'));
                         });

}  // namespace
}  // namespace hearth
