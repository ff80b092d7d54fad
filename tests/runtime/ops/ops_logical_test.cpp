// Truth values: of two tensors, of one, and along axes.
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

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown_text;
using LogicalTest = testing::ReferenceTest;

TEST_F(LogicalTest, JoinsBoolsInTheFourWays) {
  const Tensor a = booleans({0, 0, 1, 1}, {4});
  const Tensor b = booleans({0, 1, 0, 1}, {4});
  EXPECT_THAT(integers(logical_and(a, b)), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(integers(logical_or(a, b)), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(integers(logical_xor(a, b)), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(integers(logical_not(a)), ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(logical_and(a, b).dtype(), DType::boolean);
}

TEST_F(LogicalTest, TakesWhatIsNotZeroForTrue) {
  const Tensor x = f32({0, -0.0F, 0.5F, NAN}, {4});
  EXPECT_THAT(integers(logical_not(x)), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(integers(logical_and(x, i32({1, 1, 2, -3}, {4}))), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(integers(logical_xor(x, i64({256}, {1}))), ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(logical_not(x).dtype(), DType::boolean);
}

TEST_F(LogicalTest, TakesANumberOnEitherSide) {
  const Tensor a = booleans({0, 1}, {2});
  EXPECT_THAT(integers(logical_and(a, true)), ElementsAre(0, 1));
  EXPECT_THAT(integers(logical_or(0.0, a)), ElementsAre(0, 1));
  EXPECT_THAT(integers(logical_xor(a, 3)), ElementsAre(1, 0));
}

TEST_F(LogicalTest, NamesTheOpAndTheOperandsAsTheyWereGiven) {
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)logical_or(f32({1, 2}, {2}), i32({1, 2, 3}, {3}));
            }),
            "logical_or: shapes do not broadcast: lhs f32[2], rhs i32[3]");
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)logical_and(1, 0); }),
              HasSubstr("logical_and: both operands are numbers"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)logical_not(Tensor()); }),
              HasSubstr("logical_not: an operand is an empty tensor"));
}

TEST_F(LogicalTest, AnyAndAllGoAlongAxes) {
  const Tensor x = f64({0, 0, 0, 2, 0, -1}, {3, 2});
  EXPECT_THAT(integers(any(x, 1)), ElementsAre(0, 1, 1));
  EXPECT_THAT(integers(all(x, 1)), ElementsAre(0, 0, 0));
  EXPECT_THAT(integers(all(x, 0, {.keep_dims = true})), ElementsAre(0, 0));
  EXPECT_EQ(all(x, 0, {.keep_dims = true}).shape(), (Shape{1, 2}));
  EXPECT_THAT(integers(any(x)), ElementsAre(1));
  EXPECT_THAT(integers(all(booleans({1, 1}, {2}))), ElementsAre(1));
  EXPECT_EQ(any(x).dtype(), DType::boolean);
  EXPECT_THAT(integers(all(f64({NAN, 1}, {2}))), ElementsAre(1));
}

TEST_F(LogicalTest, AnyAndAllOfNothingAreFalseAndTrue) {
  const Tensor none = zeros(device(), {2, 0});
  EXPECT_THAT(integers(any(none, 1)), ElementsAre(0, 0));
  EXPECT_THAT(integers(all(none, 1)), ElementsAre(1, 1));
  EXPECT_THAT(integers(any(none)), ElementsAre(0));
  EXPECT_EQ(all(none, 0).shape(), (Shape{0}));
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)any(none, 2); }),
            "any: axis 2 is outside a tensor of rank 2, whose axes are -2 to 1");
}

}  // namespace
}  // namespace hearth
