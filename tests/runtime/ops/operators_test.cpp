// Common first lines: operators, assignments, lists of tensors, one axis without braces.
#include <hearth/runtime/autodiff.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <sstream>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::thrown_text;
using OperatorsTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

TEST_F(OperatorsTest, AStreamPrintsValuesShapeTypeAndDevice) {
  std::ostringstream out;
  out << f32({1, 2}, {2}) * 2 << "; " << Tensor();
  EXPECT_EQ(out.str(), "[2., 4.]\nshape [2], f32, reference:0; empty tensor");
}

// ---- comparisons ----

TEST_F(OperatorsTest, EqualityGoesElementByElement) {
  const Tensor a = i32({1, 2, 3}, {3});
  const Tensor b = i32({1, 5, 3}, {3});
  EXPECT_EQ((a == b).dtype(), DType::boolean);
  EXPECT_THAT(integers(a == b), ElementsAre(1, 0, 1));
  EXPECT_THAT(integers(a != b), ElementsAre(0, 1, 0));
  EXPECT_THAT(integers(a == 2), ElementsAre(0, 1, 0));
  EXPECT_THAT(integers(2 != a), ElementsAre(1, 0, 1));
}

TEST_F(OperatorsTest, AllEqualNeedsShapeTypeAndEveryElement) {
  const Tensor a = f32({1, 2}, {2});
  EXPECT_TRUE(all_equal(a, f32({1, 2}, {2})));
  EXPECT_FALSE(all_equal(a, f32({1, 3}, {2})));
  EXPECT_FALSE(all_equal(a, f32({1, 2}, {1, 2})));
  EXPECT_FALSE(all_equal(a, f64({1, 2}, {2})));
  EXPECT_TRUE(all_equal(f32({}, {0}), f32({}, {0})));
  const Tensor nan = f32({std::numeric_limits<float>::quiet_NaN()}, {1});
  EXPECT_FALSE(all_equal(nan, nan));
}

// ---- assignments ----

TEST_F(OperatorsTest, AssignmentsComputeWithTheOldValue) {
  Tensor x = f64({1, 2}, {2});
  x += 3;
  EXPECT_THAT(reals(x), ElementsAre(4, 5));
  x -= f64({1}, {1});
  EXPECT_THAT(reals(x), ElementsAre(3, 4));
  x *= x;
  EXPECT_THAT(reals(x), ElementsAre(9, 16));
  x /= 2;
  EXPECT_THAT(reals(-x), ElementsAre(-4.5, -8));
}

TEST_F(OperatorsTest, OtherCopiesKeepTheirValuesWhenOneIsAssignedTo) {
  Tensor x = f64({1, 2}, {2});
  const Tensor copy = x;
  const Tensor view = reshape(x, {2, 1});
  x += 10;
  EXPECT_THAT(reals(copy), ElementsAre(1, 2));
  EXPECT_THAT(reals(view), ElementsAre(1, 2));
  EXPECT_THAT(reals(x), ElementsAre(11, 12));
}

TEST_F(OperatorsTest, AnAssignmentReusesTheMemoryOfASoleOwner) {
  Tensor x = f64({1, 2}, {2});
  device().sync();
  const std::int64_t before = device().memory().in_place_count;
  x += 1;
  device().sync();
  EXPECT_EQ(device().memory().in_place_count, before + 1);
  const Tensor copy = x;
  x += 1;
  device().sync();
  EXPECT_EQ(device().memory().in_place_count, before + 1);
}

TEST_F(OperatorsTest, AnAssignmentKeepsShapeAndNameOfItsLeftSide) {
  Tensor x = f64({1, 2}, {2});
  x.set_path("layer.weight");
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                x += f64({1, 2, 3, 4}, {2, 2});
              }),
              HasSubstr("keeps the shape of its left side: f64[2] would become [2, 2]"));
  EXPECT_THAT(reals(x), ElementsAre(1, 2)) << "a refused assignment changes nothing";
  x += 1;
  try {
    x += f64({1, 2, 3}, {3});
    FAIL() << "shapes that do not fit were added";
  } catch (const ShapeError& error) {
    EXPECT_EQ(error.error().module_path, "layer.weight");
  }
}

TEST_F(OperatorsTest, AssignmentsAreDifferentiated) {
  const auto fn = [](const Tensors& in) {
    Tensor y = in[0];
    y *= in[1];
    y += in[0];
    y -= 1;
    y /= in[1];
    return y;
  };
  HostRandom random(3);
  check_gradients(device(), fn, {random.signed_values({3}), random.signed_values({3})});
}

TEST_F(OperatorsTest, OperatorsNameTheLineOfTheirUser) {
  Tensor a = f64({1, 2}, {2});
  const Tensor b = f64({1, 2, 3}, {3});
  const auto line_of = [](const auto& fn) {
    try {
      fn();
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.error().location.file, EndsWith("operators_test.cpp"));
      return error.error().location.line;
    }
    return 0U;
  };
  EXPECT_EQ(line_of([&] { a += b; }), static_cast<unsigned>(__LINE__));
  EXPECT_EQ(line_of([&] { a /= 0 * b; }), static_cast<unsigned>(__LINE__));
  EXPECT_EQ(line_of([&] { (void)(a == b); }), static_cast<unsigned>(__LINE__));
  EXPECT_EQ(line_of([&] { (void)(2 * Tensor()); }), static_cast<unsigned>(__LINE__));
  EXPECT_EQ(line_of([&] { (void)-Tensor(); }), static_cast<unsigned>(__LINE__));
  EXPECT_EQ(line_of([&] { (void)sum(a, 3); }), static_cast<unsigned>(__LINE__));
  EXPECT_EQ(line_of([&] { (void)concat({a, f64({1}, {1, 1})}); }), static_cast<unsigned>(__LINE__));
  EXPECT_EQ(line_of([&] { (void)a.size(2); }), static_cast<unsigned>(__LINE__));
  EXPECT_EQ(line_of([&] { (void)Tensor().rank(); }), static_cast<unsigned>(__LINE__));
  EXPECT_EQ(line_of([&] { (void)zeros(device(), {2, -1}); }), static_cast<unsigned>(__LINE__));
  const unsigned shape_line = __LINE__ + 1;
  const auto make_shape_of_nine = [] { (void)Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}); };
  EXPECT_EQ(line_of(make_shape_of_nine), shape_line);
}

// ---- lists of tensors ----

TEST_F(OperatorsTest, ConcatTakesAListOfTensors) {
  const Tensor a = f64({1, 2}, {1, 2});
  const Tensor b = f64({3, 4}, {1, 2});
  EXPECT_EQ(concat({a, b}).shape(), (Shape{2, 2}));
  EXPECT_THAT(reals(concat({a, b}, -1)), ElementsAre(1, 2, 3, 4));
}

TEST_F(OperatorsTest, StackMakesANewAxis) {
  const Tensor a = f64({1, 2}, {2});
  const Tensor b = f64({3, 4}, {2});
  EXPECT_EQ(stack({a, b, a}).shape(), (Shape{3, 2}));
  EXPECT_THAT(reals(stack({a, b})), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(stack({a, b, a}, -1).shape(), (Shape{2, 3}));
  EXPECT_THAT(reals(stack({a, b}, 1)), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(reals(stack(Tensors{sum(a), sum(b)})), ElementsAre(3, 7)) << "scalars make a row";
  EXPECT_EQ(stack({a}).shape(), (Shape{1, 2}));
}

TEST_F(OperatorsTest, StackIsDifferentiated) {
  HostRandom random(5);
  check_gradients(device(),
                  [](const Tensors& in) {
                    return stack({in[0], in[1] * 2, in[0]}, 1);
                  },
                  {random.signed_values({2, 3}), random.signed_values({2, 3})});
}

TEST_F(OperatorsTest, StackRefusesShapesThatDifferAndAxesThatAreNot) {
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)stack({f64({1}, {1}), f64({1, 2}, {2})});
              }),
              HasSubstr("stack: the tensors have different shapes: [1] and [2]"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)stack({f64({1}, {1})}, 2); }),
              HasSubstr("stack: axis 2"));
  EXPECT_THAT(thrown_text<ArgumentError>([] { (void)stack(Tensors{}); }),
              HasSubstr("stack: takes 1 or more"));
  EXPECT_THAT(thrown_text<ArgumentError>([] { (void)concat(Tensors{}); }),
              HasSubstr("concat: takes 1 or more"));
}

// ---- axes ----

TEST_F(OperatorsTest, OneAxisNeedsNoBraces) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(reals(sum(x, -1)), ElementsAre(3, 12));
  EXPECT_THAT(reals(mean(x, 0)), ElementsAre(1.5, 2.5, 3.5));
  EXPECT_EQ(max(x, 1, {.keep_dims = true}).shape(), (Shape{2, 1}));
  EXPECT_THAT(reals(sum(x, {0, 1})), ElementsAre(15));
  EXPECT_THAT(reals(sum(x, {})), ElementsAre(15)) << "no axis named: all";
  EXPECT_THAT(reals(sum(x, std::vector<int>{1})), ElementsAre(3, 12));
}

TEST_F(OperatorsTest, MoreAxesThanATensorCanHaveAreRefused) {
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)sum(counting({2}), {0, 1, 2, 3, 4, 5, 6, 7, 8});
              }),
              HasSubstr("at most 8 axes, got 9"));
}

TEST_F(OperatorsTest, ArgmaxWithoutAnAxisCountsThroughAllElements) {
  EXPECT_EQ(argmax(f64({1, 7, 3, 7}, {2, 2})).item<std::int64_t>(), 1);
  EXPECT_EQ(argmax(f64({1, 7, 3, 9}, {2, 2})).shape(), Shape{});
}

// ---- names ----

TEST_F(OperatorsTest, ViewsOfAParameterAreCalledLikeIt) {
  const Tensor weight = counting({2, 3});
  weight.set_path("encoder.weight");
  const Tensor x = f64({1, 2}, {2, 1});
  const auto path_of = [&](const Tensor& view) {
    try {
      (void)matmul(x, view);
    } catch (const ShapeError& error) {
      return error.error().module_path;
    }
    return std::string("no error");
  };
  EXPECT_EQ(path_of(weight), "encoder.weight");
  EXPECT_EQ(path_of(transpose(weight)), "encoder.weight");
  EXPECT_EQ(path_of(slice(weight, 1, {.stop = 2})), "encoder.weight");
  EXPECT_EQ(path_of(reshape(weight, {3, 2})), "encoder.weight");
  EXPECT_EQ(path_of(unsqueeze(weight, 0)), "encoder.weight");
  EXPECT_EQ(path_of(weight * 2), "") << "a result is no part of the parameter";
}

}  // namespace
}  // namespace hearth
