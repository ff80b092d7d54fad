// clamp, masked_fill, tril and triu: values, gradients at the edges, and errors.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"
#include "tests/support/tolerance.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <optional>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::thrown_text;
using MaskTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

TEST_F(MaskTest, ClampBoundsOneSideOrBoth) {
  const Tensor x = f64({-2, -1, 0.5, 1, 3}, {5});
  EXPECT_THAT(reals(clamp(x, -1, 1)), ElementsAre(-1, -1, 0.5, 1, 1));
  EXPECT_THAT(reals(clamp(x, 0)), ElementsAre(0, 0, 0.5, 1, 3));
  EXPECT_THAT(reals(clamp(x, {}, 0)), ElementsAre(-2, -1, 0, 0, 0));
  EXPECT_THAT(integers(clamp(i32({-5, 0, 7}, {3}), -1, 3)), ElementsAre(-1, 0, 3));
  EXPECT_THAT(reals(clamp(x, 2, 1)), ElementsAre(1, 1, 1, 1, 1)) << "the upper bound wins";
}

TEST_F(MaskTest, ClampTakesTensorsAsBounds) {
  const Tensor x = f64({-2, 0, 2}, {3});
  EXPECT_THAT(reals(clamp(x, f64({0, -1, 5}, {3}), f64({1}, {}))), ElementsAre(0, 0, 1));
  EXPECT_EQ(clamp(x, f64({0, 1}, {2, 1})).shape(), (Shape{2, 3}));
}

TEST_F(MaskTest, ClampKeepsNan) {
  const std::vector<double> y = reals(clamp(f64({NAN, 5}, {2}), 0, 1));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 1);
}

TEST_F(MaskTest, ClampPassesTheGradientInsideAndOnTheBounds) {
  const Tensor x = f64({-2, -1, 0.5, 1, 3}, {5});
  EXPECT_THAT(reals(grad([](const Tensors& in) { return sum(clamp(in[0], -1, 1)); }, {x})[0]),
              ElementsAre(0, 1, 1, 1, 0));
  const Tensors both =
      grad([](const Tensors& in) { return sum(clamp(in[0], in[1])); }, {x, f64({0}, {1})});
  EXPECT_THAT(reals(both[0]), ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(reals(both[1]), ElementsAre(2));
}

TEST_F(MaskTest, ClampRefusesWhatIsNoBound) {
  const Tensor x = f64({1, 2}, {2});
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)clamp(x, {}); }),
            "clamp: needs a bound: low, high or both");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)clamp(x, NAN); }), "clamp: a bound is NaN");
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)clamp(x, 0, f32({1, 2, 3}, {3}));
            }),
            "clamp: shapes do not broadcast: lhs f64[2], rhs f32[3]");
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)clamp(cast(x, DType::u8), -1); }),
              HasSubstr("clamp: the number -1 does not fit u8[2]"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)clamp(cast(x, DType::boolean), 0); }),
              HasSubstr("clamp: does not take bool"));
}

TEST_F(MaskTest, ClampNamesTheLineThatWroteABound) {
  const Tensor bytes = cast(f64({1, 2}, {2}), DType::u8);
  const Tensor x = f64({1, 2}, {2});
  const auto line_of = [](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.error().location.file, EndsWith("ops_mask_test.cpp")) << error.what();
      return error.error().location.line;
    }
    return 0U;
  };
  EXPECT_EQ(line_of([&] { (void)clamp(bytes, -5, 300); }), __LINE__);
  EXPECT_EQ(line_of([&] { (void)clamp(x, NAN, 1); }), __LINE__);
  EXPECT_EQ(line_of([&] { (void)clamp(x, Tensor(), 1); }), __LINE__);
  EXPECT_EQ(line_of([&] { (void)clamp(x, 0, std::optional<double>(NAN)); }), __LINE__);
}

TEST_F(MaskTest, ClampTakesBoundsThatMayBeAbsent) {
  const Tensor x = f64({-2, 0, 2}, {3});
  std::optional<double> one;
  const std::optional<int> minus_one = -1;
  EXPECT_THAT(reals(clamp(x, minus_one, one)), ElementsAre(-1, 0, 2));
  one = 1;
  EXPECT_THAT(reals(clamp(x, std::nullopt, one)), ElementsAre(-2, 0, 1));
  EXPECT_THAT(reals(clamp(x, {-1}, {1})), ElementsAre(-1, 0, 1));
  const std::optional<Tensor> tensor = f64({0}, {1});
  EXPECT_THAT(reals(clamp(x, tensor, std::optional<Tensor>())), ElementsAre(0, 0, 2));
  EXPECT_THAT(reals(clamp(x, std::optional<Tensor>(f64({0}, {1})))), ElementsAre(0, 0, 2));
  EXPECT_THAT(reals(clamp(x, std::optional<Arg>(Arg(0)), Arg(1.5F))), ElementsAre(0, 0, 1.5));
}

TEST_F(MaskTest, MaskedFillBroadcastsItsMask) {
  const Tensor x = i32({1, 2, 3, 4}, {2, 2});
  EXPECT_THAT(integers(masked_fill(x, booleans({1, 0}, {2}), -7)), ElementsAre(-7, 2, -7, 4));
  EXPECT_THAT(integers(masked_fill(x, booleans({0, 1}, {2, 1}), i32({9}, {}))),
              ElementsAre(1, 2, 9, 9));
  const Tensor filled = masked_fill(f64({1, 2}, {2}), booleans({1, 0}, {2}), -INFINITY);
  EXPECT_THAT(reals(filled), ElementsAre(-INFINITY, 2));
}

TEST_F(MaskTest, MaskedFillPassesTheGradientWhereItKeeps) {
  const Tensor mask = booleans({1, 0, 0}, {3});
  const Tensors both =
      grad([&](const Tensors& in) { return sum(square(masked_fill(in[0], mask, in[1]))); },
           {f64({1, 2, 3}, {3}), f64({5}, {})});
  EXPECT_THAT(reals(both[0]), ElementsAre(0, 4, 6));
  EXPECT_THAT(reals(both[1]), ElementsAre(10));
}

TEST_F(MaskTest, MaskedFillSaysWhatIsNoMaskOrNoValue) {
  const Tensor x = f64({1, 2}, {2});
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)masked_fill(x, x, 0); }),
            "masked_fill: the mask is not bool: f64[2]");
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)masked_fill(x, booleans({1}, {1}), x); }),
            "masked_fill: the value is no number and no tensor of rank 0: f64[2]");
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)masked_fill(x, booleans({1, 0, 0}, {3}), 0);
              }),
              HasSubstr("masked_fill: shapes do not broadcast"));
}

TEST_F(MaskTest, TrianglesKeepTheirSideOfADiagonal) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_THAT(reals(tril(x)), ElementsAre(1, 0, 0, 4, 5, 0));
  EXPECT_THAT(reals(tril(x, 1)), ElementsAre(1, 2, 0, 4, 5, 6));
  EXPECT_THAT(reals(tril(x, -1)), ElementsAre(0, 0, 0, 4, 0, 0));
  EXPECT_THAT(reals(triu(x)), ElementsAre(1, 2, 3, 0, 5, 6));
  EXPECT_THAT(reals(triu(x, 2)), ElementsAre(0, 0, 3, 0, 0, 0));
  constexpr auto kFar = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(reals(tril(x, kFar)), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(reals(triu(x, kFar)), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(reals(tril(x, -kFar)), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST_F(MaskTest, TrianglesTakeBatchesTypesAndViews) {
  EXPECT_THAT(integers(tril(i64({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2}))),
              ElementsAre(1, 0, 3, 4, 5, 0, 7, 8));
  EXPECT_THAT(integers(triu(booleans({1, 1, 1, 1}, {2, 2}))), ElementsAre(1, 1, 0, 1));
  EXPECT_THAT(reals(tril(transpose(f64({1, 2, 3, 4}, {2, 2})))), ElementsAre(1, 0, 2, 4));
  EXPECT_EQ(tril(zeros(device(), {0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)triu(f64({1}, {1})); }),
            "triu: needs matrices, got f64[1]");
}

TEST_F(MaskTest, TrianglesPassTheGradientOfWhatTheyKeep) {
  testing::HostRandom random(32);
  testing::check_gradients(device(),
                           [](const Tensors& in) { return square(tril(in[0], 1)); },
                           {random.signed_values({2, 3, 4})});
}

}  // namespace
}  // namespace hearth
