// The printed form of tensors.
#include "runtime/tensor_print.hpp"

#include "reference_test.hpp"

#include <hearth/runtime/update_group.hpp>

#include <gmock/gmock.h>

#include <limits>
#include <sstream>

namespace hearth {
namespace {

template <class T>
std::string print(const std::vector<T>& values,
                  const Shape& shape,
                  const detail::PrintOptions& options = {}) {
  return detail::print_values(
      std::as_bytes(std::span<const T>(values)), dtype_of<T>, shape, options);
}

TEST(TensorPrint, RowsGoBelowOneAnother) {
  EXPECT_EQ(print<std::int32_t>({1, 2, 3, 4, 5, 16}, {2, 3}), "[[ 1,  2,  3],\n [ 4,  5, 16]]");
}

TEST(TensorPrint, BlocksAreSeparatedByAnEmptyLine) {
  EXPECT_EQ(print<std::int64_t>({1, 2, 3, 4}, {2, 1, 2}), "[[[1, 2]],\n\n [[3, 4]]]");
}

TEST(TensorPrint, WholeFloatsShowNoDecimals) {
  EXPECT_EQ(print<float>({1, -2, 30}, {3}), "[ 1., -2., 30.]");
}

TEST(TensorPrint, OtherFloatsShowFourDecimals) {
  EXPECT_EQ(print<double>({0.5, -1.25, 3.14159265}, {3}), "[ 0.5000, -1.2500,  3.1416]");
}

TEST(TensorPrint, ValuesOfVeryDifferentSizeShowPowersOfTen) {
  EXPECT_EQ(print<double>({0.5, 12345.5}, {2}), "[5.0000e-01, 1.2346e+04]");
  EXPECT_EQ(print<double>({2e-7}, {1}), "[2.0000e-07]");
  EXPECT_EQ(print<double>({3e12}, {1}), "[3.0000e+12]");
}

TEST(TensorPrint, NanAndInfinityAreNamed) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(
      print<double>({std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 0.5}, {4}),
      "[   nan,    inf,   -inf, 0.5000]");
}

TEST(TensorPrint, HalfTypesPrintAsNumbers) {
  EXPECT_EQ(print<bf16>({bf16(1.5F)}, {1}), "[1.5000]");
  EXPECT_EQ(print<f16>({f16(-2.0F)}, {1}), "[-2.]");
}

TEST(TensorPrint, BoolsAreWords) {
  const std::vector<std::uint8_t> values{1, 0};
  EXPECT_EQ(detail::print_values(std::as_bytes(std::span(values)), DType::boolean, {2}),
            "[ true, false]");
}

TEST(TensorPrint, AScalarIsABareNumber) {
  EXPECT_EQ(print<float>({2.5F}, {}), "2.5000");
  EXPECT_EQ(print<std::uint8_t>({200}, {}), "200");
  EXPECT_EQ(print<std::int8_t>({-100}, {}), "-100");
}

TEST(TensorPrint, AnAxisOfSizeZeroIsAnEmptyPairOfBrackets) {
  EXPECT_EQ(print<float>({}, {0}), "[]");
  EXPECT_EQ(print<float>({}, {2, 0}), "[[],\n []]");
  EXPECT_EQ(print<float>({}, {0, 3}), "[]");
}

TEST(TensorPrint, EmptyPairsOfBracketsAreShortenedToo) {
  constexpr std::int64_t kMany = std::int64_t{1} << 59;
  const detail::PrintOptions options{.max_elements = 4, .edge_elements = 1};
  EXPECT_EQ(print<float>({}, {4, 0}, options), "[[],\n [],\n [],\n []]");
  EXPECT_EQ(print<float>({}, {5, 0}, options), "[[],\n …,\n []]");
  EXPECT_EQ(print<float>({}, {kMany, 0}, options), "[[],\n …,\n []]");
  EXPECT_EQ(print<float>({}, {kMany / 4, 0, 4}, options), "[[],\n\n …,\n\n []]");
  EXPECT_EQ(print<float>({}, {0, kMany}, options), "[]");
}

TEST(TensorPrint, LongAxesAreShortenedAndShortOnesAreNot) {
  std::vector<std::int32_t> values(20);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int32_t>(i);
  }
  const detail::PrintOptions options{.max_elements = 10, .edge_elements = 2};
  EXPECT_EQ(print(values, {20}, options), "[ 0,  1, …, 18, 19]");
  EXPECT_EQ(print(values, {10, 2}, options), "[[ 0,  1],\n [ 2,  3],\n …,\n [16, 17],\n [18, 19]]");
}

TEST(TensorPrint, OnlyWhatIsShownDecidesTheFormat) {
  std::vector<double> values(2000, 1e9);
  values[0] = values[1999] = 2;
  EXPECT_EQ(print(values, {2000}, {.edge_elements = 1}), "[2., …, 2.]");
}

using TensorPrintOnDevice = testing::ReferenceTest;

TEST_F(TensorPrintOnDevice, SaysShapeTypeAndDevice) {
  EXPECT_EQ(f32({1, 2, 3, 4}, {2, 2}).to_string(),
            "[[1., 2.],\n [3., 4.]]\nshape [2, 2], f32, reference:0");
  EXPECT_EQ(transpose(f32({1, 2, 3, 4}, {2, 2})).to_string(),
            "[[1., 3.],\n [2., 4.]]\nshape [2, 2], f32, reference:0");
  EXPECT_EQ(Tensor().to_string(), "empty tensor");
}

TEST_F(TensorPrintOnDevice, OfALongTensorWhatIsShownIsReadAlone) {
  const Tensor huge = expand(f32({7}, {1, 1}), {1 << 20, 1 << 20});
  const std::string row = "[7., 7., 7., …, 7., 7., 7.]";
  EXPECT_EQ(huge.to_string(),
            "[" + row + ",\n " + row + ",\n " + row + ",\n …,\n " + row + ",\n " + row + ",\n " +
                row + "]\nshape [1048576, 1048576], f32, reference:0");
}

// The ends of two long axes, with a short one between them, are gathered in order.
TEST_F(TensorPrintOnDevice, TheEndsOfLongAxesComeFromWhereTheyLie) {
  const Tensor all = cast(reshape(arange(device(), 0, 3600), {60, 2, 30}), DType::i32);
  const std::vector<std::int32_t> values = all.to_vector<std::int32_t>();
  const std::string whole = print<std::int32_t>(values, {60, 2, 30});
  EXPECT_EQ(all.to_string(), whole + "\nshape [60, 2, 30], i32, reference:0");
  EXPECT_THAT(whole, ::testing::HasSubstr("[[[   0,    1,    2, …,   27,   28,   29],"));
  EXPECT_THAT(whole, ::testing::HasSubstr("[3570, 3571, 3572, …, 3597, 3598, 3599]]]"));
}

TEST_F(TensorPrintOnDevice, AMistakeNamesTheLineThatPrints) {
  Tensor weight = f32({1, 2}, {2});
  Tensor none;
  UpdateGroup group(device());
  group.sgd(weight, f32({1, 1}, {2}), none, {});
  std::ostringstream out;
  const std::uint32_t line = __LINE__ + 2;
  try {
    out << weight;
    ADD_FAILURE() << "it was printed";
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.error().location.line, line);
    EXPECT_THAT(error.error().location.file, ::testing::EndsWith("print_test.cpp"));
  }
}

}  // namespace
}  // namespace hearth
