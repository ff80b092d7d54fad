// Parts of tensors by a[...]: values, gradients, and refused mistakes.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::thrown_text;
using OpsPartTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

TEST_F(OpsPartTest, ANumberTakesAnAxisAway) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(x[1].shape(), (Shape{3}));
  EXPECT_THAT(reals(x[1]), ElementsAre(3, 4, 5));
  EXPECT_THAT(reals(x[-2]), ElementsAre(0, 1, 2));
  EXPECT_EQ(x[1][2].item(), 5);
}

TEST_F(OpsPartTest, AListNamesAnAxisAnEntry) {
  const Tensor x = counting({2, 3, 2});
  EXPECT_EQ((x[{1, 2, 0}].shape()), (Shape{}));
  EXPECT_EQ((x[{1, -1, 0}].item()), 10);
  EXPECT_THAT(reals(x[{0, 1}]), ElementsAre(2, 3));
  EXPECT_THAT(reals(x[{1}]), ElementsAre(6, 7, 8, 9, 10, 11));
}

TEST_F(OpsPartTest, ARangeKeepsItsAxis) {
  const Tensor x = counting({2, 3, 2});
  EXPECT_EQ((x[{Range{}, Range{.start = -2}, 1}].shape()), (Shape{2, 2}));
  EXPECT_THAT(reals(x[{Range{}, Range{.start = -2}, 1}]), ElementsAre(3, 5, 9, 11));
  EXPECT_THAT(reals(x[{0, Range{.step = -2}, 0}]), ElementsAre(4, 0));
  EXPECT_EQ(x[Range{.stop = 1}].shape(), (Shape{1, 3, 2}));
}

TEST_F(OpsPartTest, GradientsFlowToThePart) {
  const Tensor x = counting({2, 3});
  const Tensors gradient = grad([](const Tensors& in) { return square(in[0][{1, -1}]); }, {x});
  EXPECT_THAT(reals(gradient[0]), ElementsAre(0, 0, 0, 0, 0, 10));
  check_gradients(device(),
                  [](const Tensors& in) {
                    return square(in[0][{Range{.step = 2}, 1}]);
                  },
                  {{.shape = {3, 2}, .values = {1, 2, 3, 4, 5, 6}}});
}

TEST_F(OpsPartTest, MistakesNameTheRuleAndTheValues) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)x[2]; }),
            "index: 2 is outside axis 0 of f64[2, 3]");
  EXPECT_EQ(thrown_text<ArgumentError>([&] {
              (void)x[{0, -4}];
            }),
            "index: -4 is outside axis 1 of f64[2, 3]");
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)x[{0, 0, 0}];
            }),
            "index: 3 indices for the axes of f64[2, 3]");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)Tensor()[0]; }),
            "index: an operand is an empty tensor");
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)x[{0, 0, 0, 0, 0, 0, 0, 0, 0}];
            }),
            "index: a tensor has at most 8 axes, got 9 indices");
  try {
    (void)x[7];
    FAIL() << "nothing was refused";
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.error().op, "index");
    EXPECT_THAT(error.error().location.file, EndsWith("ops_part_test.cpp"));
  }
}

}  // namespace
}  // namespace hearth
