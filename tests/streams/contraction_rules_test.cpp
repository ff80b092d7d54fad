#include <hearth/streams/shape_rules.hpp>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace hearth {
namespace {

TensorSpec f32(std::initializer_list<std::int64_t> dims) {
  return {DType::f32, Shape(dims)};
}
TensorSpec f16_of(std::initializer_list<std::int64_t> dims) {
  return {DType::f16, Shape(dims)};
}
TensorSpec i64(std::initializer_list<std::int64_t> dims) {
  return {DType::i64, Shape(dims)};
}

template <class T>
std::string text(const Result<T>& result) {
  return result.has_value() ? "no error" : result.error().text;
}

TEST(Matmul, MultipliesTheLastTwoAxesAndBroadcastsTheOthers) {
  EXPECT_EQ(rules::matmul(f32({4, 8}), f32({8, 3}), nullptr).value().shape, (Shape{4, 3}));
  EXPECT_EQ(rules::matmul(f32({5, 1, 4, 8}), f32({6, 8, 3}), nullptr).value().shape,
            (Shape{5, 6, 4, 3}));
  EXPECT_EQ(rules::matmul(f32({0, 4, 0}), f32({0, 3}), nullptr).value().shape, (Shape{0, 4, 3}));
}

TEST(Matmul, ShowsTheOperandsWhoseInnerDimensionsDiffer) {
  const Result<TensorSpec> result = rules::matmul(f32({4, 8}), f32({9, 3}), nullptr);
  EXPECT_EQ(result.error().code, ErrorCode::shape_mismatch);
  EXPECT_EQ(text(result), "matmul: inner dimensions differ: lhs f32[4, 8], rhs f32[9, 3]");
}

TEST(Matmul, NeedsMatricesOfOneType) {
  EXPECT_EQ(text(rules::matmul(f32({8}), f32({8, 3}), nullptr)),
            "matmul: needs rank 2 or more: lhs f32[8], rhs f32[8, 3]");
  EXPECT_EQ(text(rules::matmul(f32({4, 8}), f16_of({8, 3}), nullptr)),
            "matmul: element types differ: lhs f32[4, 8], rhs f16[8, 3]");
  EXPECT_EQ(text(rules::matmul(f32({2, 4, 8}), f32({3, 8, 3}), nullptr)),
            "matmul: batch axes do not broadcast: lhs f32[2, 4, 8], rhs f32[3, 8, 3]");
}

TEST(Matmul, ChecksTheBias) {
  const TensorSpec good = f32({3});
  const TensorSpec bad = f32({4});
  EXPECT_EQ(rules::matmul(f32({4, 8}), f32({8, 3}), &good).value().shape, (Shape{4, 3}));
  EXPECT_EQ(text(rules::matmul(f32({4, 8}), f32({8, 3}), &bad)),
            "matmul: bias must be [3]: lhs f32[4, 8], rhs f32[8, 3], bias f32[4]");
}

TEST(Matmul, RefusesAResultThatIsTooLarge) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(rules::matmul(f32({huge, 1}), f32({1, huge}), nullptr).error().code,
            ErrorCode::shape_mismatch);
}

TEST(Conv2d, SlidesItsWindow) {
  const TensorSpec x = f32({2, 6, 10, 11});
  const auto shape = [&](const TensorSpec& w, const ConvAttributes& attributes) {
    return rules::conv2d(x, w, nullptr, attributes).value().shape;
  };
  EXPECT_EQ(shape(f32({8, 6, 3, 3}), {}), (Shape{2, 8, 8, 9}));
  EXPECT_EQ(shape(f32({8, 6, 3, 3}), {.stride = {2, 3}, .padding = {1, 1}}), (Shape{2, 8, 5, 4}));
  EXPECT_EQ(shape(f32({8, 6, 3, 3}), {.dilation = {2, 4}}), (Shape{2, 8, 6, 3}));
  EXPECT_EQ(shape(f32({8, 3, 10, 11}), {.groups = 2}), (Shape{2, 8, 1, 1}));
}

TEST(Conv2d, TakesABatchOfNothing) {
  EXPECT_EQ(rules::conv2d(f32({0, 1, 5, 5}), f32({1, 1, 3, 3}), nullptr, {}).value().shape,
            (Shape{0, 1, 3, 3}));
}

TEST(Conv2d, ChecksChannelsGroupsAndBias) {
  const TensorSpec bias = f32({7});
  EXPECT_EQ(text(rules::conv2d(f32({6, 10, 10}), f32({8, 6, 3, 3}), nullptr, {})),
            "conv2d: needs rank 4: x f32[6, 10, 10], w f32[8, 6, 3, 3]");
  EXPECT_EQ(
      text(rules::conv2d(f32({1, 6, 10, 10}), f32({8, 5, 3, 3}), nullptr, {})),
      "conv2d: w needs 6 input channels for groups = 1: x f32[1, 6, 10, 10], w f32[8, 5, 3, 3]");
  EXPECT_EQ(
      text(rules::conv2d(f32({1, 6, 10, 10}), f32({8, 6, 3, 3}), nullptr, {.groups = 4})),
      "conv2d: groups = 4 does not divide the channels: x f32[1, 6, 10, 10], w f32[8, 6, 3, 3]");
  EXPECT_FALSE(
      rules::conv2d(f32({1, 6, 10, 10}), f32({8, 6, 3, 3}), nullptr, {.groups = 0}).has_value());
  EXPECT_EQ(text(rules::conv2d(f32({1, 6, 10, 10}), f32({8, 6, 3, 3}), &bias, {})),
            "conv2d: bias must be [8]: x f32[1, 6, 10, 10], w f32[8, 6, 3, 3], bias f32[7]");
}

TEST(Conv2d, NeedsAWindowThatFits) {
  EXPECT_EQ(
      text(rules::conv2d(f32({1, 1, 2, 9}), f32({1, 1, 3, 3}), nullptr, {})),
      "conv2d: a window of 3 (dilation 1) is larger than the padded height, 2: x f32[1, 1, 2, 9]");
  EXPECT_TRUE(rules::conv2d(f32({1, 1, 2, 9}), f32({1, 1, 3, 3}), nullptr, {.padding = {1, 0}})
                  .has_value());
}

TEST(Conv2d, RefusesNumbersWithoutMeaning) {
  const auto code = [](const ConvAttributes& attributes) {
    return rules::conv2d(f32({1, 1, 9, 9}), f32({1, 1, 3, 3}), nullptr, attributes).error().code;
  };
  constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(code({.stride = {0, 1}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.padding = {1, -1}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.dilation = {0, 1}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.padding = {kHighest, 0}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.dilation = {kHighest, 1}}), ErrorCode::invalid_argument);
  EXPECT_EQ(rules::conv2d(f32({1, 1, 9, 9}), f32({1, 1, 0, 3}), nullptr, {}).error().code,
            ErrorCode::invalid_argument);
}

TEST(Pool2d, SlidesItsWindow) {
  const TensorSpec x = f32({2, 3, 7, 8});
  EXPECT_EQ(rules::pool2d(OpKind::max_pool2d, x, {}).value().shape, (Shape{2, 3, 3, 4}));
  EXPECT_EQ(
      rules::pool2d(OpKind::avg_pool2d, x, {.kernel = {3, 3}, .stride = {1, 2}, .padding = {1, 1}})
          .value()
          .shape,
      (Shape{2, 3, 7, 4}));
}

TEST(Pool2d, KeepsEveryWindowOverTheInput) {
  const Result<TensorSpec> result =
      rules::pool2d(OpKind::max_pool2d, f32({1, 1, 7, 7}), {.kernel = {3, 3}, .padding = {2, 0}});
  EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(text(result),
            "max_pool2d: kernel and stride must be positive and padding at most half the kernel: "
            "kernel [3, 3], stride [2, 2], padding [2, 0]");
  EXPECT_FALSE(rules::pool2d(OpKind::avg_pool2d, f32({1, 1, 1, 7}), {}).has_value());
  EXPECT_EQ(text(rules::pool2d(OpKind::avg_pool2d, f32({7, 7}), {})),
            "avg_pool2d: needs rank 4: x f32[7, 7]");
}

TEST(CrossEntropy, GivesALossForEachRow) {
  EXPECT_EQ(rules::cross_entropy(f32({4, 10}), i64({4})).value().shape, (Shape{4}));
}

TEST(CrossEntropy, NeedsATargetForEachRow) {
  EXPECT_EQ(text(rules::cross_entropy(f32({4, 10}), i64({5}))),
            "cross_entropy: the number of rows differs: logits f32[4, 10], targets i64[5]");
  EXPECT_EQ(text(rules::cross_entropy(f32({10}), i64({4}))),
            "cross_entropy: needs logits of rank 2 and targets of rank 1: logits f32[10], targets "
            "i64[4]");
}

}  // namespace
}  // namespace hearth
