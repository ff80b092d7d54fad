// linspace and eye, repeat and pad, sort: generated and rearranged tensors.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::thrown_text;
using GridTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

TEST_F(GridTest, LinspaceHasBothEnds) {
  EXPECT_THAT(reals(linspace(device(), -1, 1, 5)), ElementsAre(-1, -0.5, 0, 0.5, 1));
  EXPECT_THAT(reals(linspace(device(), 3, 0, 4, DType::f64)), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(reals(linspace(device(), 7, 9, 1)), ElementsAre(7));
  EXPECT_THAT(reals(linspace(device(), 7, 9, 0)), ElementsAre());
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Tensor row = linspace(device(), 0, 0.1, 7, dtype);
    EXPECT_EQ(row.dtype(), dtype);
    EXPECT_EQ(reals(row)[6], reals(full(device(), {1}, 0.1, dtype))[0]) << name(dtype);
  }
}

TEST_F(GridTest, LinspaceRefusesWhatIsNoRow) {
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)linspace(device(), 0, 1, -1); }),
            "linspace: -1 values from 0 to 1 are no row of numbers");
  EXPECT_THAT(thrown_text<ArgumentError>(
                  [&] { (void)linspace(device(), 0, std::numeric_limits<double>::infinity(), 3); }),
              HasSubstr("3 values from 0 to inf"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)linspace(device(), 0, 1e6, 3, DType::f16); }),
              HasSubstr("1000000 does not fit f16"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)linspace(device(), 0, 1, 2, DType::i32); }),
              HasSubstr("makes floats, not i32"));
}

TEST_F(GridTest, EyeIsOneOnTheDiagonal) {
  EXPECT_THAT(reals(eye(device(), 2)), ElementsAre(1, 0, 0, 1));
  const Tensor wide = eye(device(), 2, 3, DType::i32);
  EXPECT_EQ(wide.dtype(), DType::i32);
  EXPECT_THAT(integers(wide), ElementsAre(1, 0, 0, 0, 1, 0));
  EXPECT_EQ(eye(device(), 0, 3).shape(), (Shape{0, 3}));
  EXPECT_EQ(eye(device(), 2, 2, DType::boolean).dtype(), DType::boolean);
  EXPECT_THROW((void)eye(device(), -1), ShapeError);
}

TEST_F(GridTest, RepeatGoesOverEachAxis) {
  const Tensor x = counting({2, 2});
  EXPECT_THAT(reals(repeat(x, {1, 2})), ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(reals(repeat(x, {2, 1})), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  const Tensor more = repeat(x, {3, 1, 2});
  EXPECT_EQ(more.shape(), (Shape{3, 2, 4}));
  EXPECT_EQ(reals(sum(more)), std::vector<double>{36});
  EXPECT_EQ(repeat(x, {0, 1}).shape(), (Shape{0, 2}));
  EXPECT_EQ(repeat(zeros(device(), {0, 2}), {2, 3}).shape(), (Shape{0, 6}));
  EXPECT_EQ(repeat(ones(device(), {}), {4}).shape(), Shape{4});
  EXPECT_EQ(repeat(ones(device(), {1, 2, 1, 2, 1, 2, 1, 2}), {2, 1, 2, 1, 2, 1, 2, 2}).shape(),
            (Shape{2, 2, 2, 2, 2, 2, 2, 4}));
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)repeat(x, {2}); }),
            "repeat: the counts [2] are no count of 0 or more for each axis of [2, 2]");
  EXPECT_THROW((void)repeat(x, {-1, 2}), ArgumentError);
}

TEST_F(GridTest, PadAddsAConstant) {
  const Tensor x = counting({2, 2});
  EXPECT_THAT(reals(pad(x, {{.axis = 1, .before = 1, .after = 2}})),
              ElementsAre(0, 0, 1, 0, 0, 0, 2, 3, 0, 0));
  EXPECT_THAT(reals(pad(x, {{.axis = 0, .after = 1}}, {.value = -1})),
              ElementsAre(0, 1, 2, 3, -1, -1));
  EXPECT_EQ(pad(x, {{.axis = 0, .before = 1}, {.axis = -1, .after = 1}}).shape(), (Shape{3, 3}));
  EXPECT_THAT(integers(pad(i64({5}, {1}), {{.before = 2}}, {.value = 7})), ElementsAre(7, 7, 5));
  EXPECT_EQ(detail::TensorAccess::impl(pad(x, std::vector<PadAxis>())),
            detail::TensorAccess::impl(x));
}

TEST_F(GridTest, PadTakesFromTheAxisItself) {
  const Tensor x = counting({4});
  const auto by = [&](PadMode mode) {
    return reals(pad(x, {{.axis = 0, .before = 2, .after = 3}}, {.mode = mode}));
  };
  EXPECT_THAT(by(PadMode::reflect), ElementsAre(2, 1, 0, 1, 2, 3, 2, 1, 0));
  EXPECT_THAT(by(PadMode::replicate), ElementsAre(0, 0, 0, 1, 2, 3, 3, 3, 3));
  EXPECT_THAT(by(PadMode::circular), ElementsAre(2, 3, 0, 1, 2, 3, 0, 1, 2));
}

TEST_F(GridTest, PadRefusesWhatTheAxisDoesNotHave) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(thrown_text<ArgumentError>(
                [&] { (void)pad(x, {{.axis = 1, .before = 3}}, {.mode = PadMode::reflect}); }),
            "pad: axis 1 of [2, 3] has too few elements to grow by 3 and 0 in this mode");
  EXPECT_EQ(thrown_text<ArgumentError>(
                [&] { (void)pad(x, {{.axis = 1, .after = 3}}, {.mode = PadMode::reflect}); }),
            "pad: axis 1 of [2, 3] has too few elements to grow by 0 and 3 in this mode");
  EXPECT_EQ(thrown_text<ArgumentError>([&] {
              (void)pad(x, {{.axis = 1}, {.axis = -1, .after = 1}});
            }),
            "pad: axis 1 of [2, 3] is named twice");
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)pad(x, {{.axis = 0, .before = -1}}); }),
              HasSubstr("axis 0 cannot grow by -1 and 0"));
  EXPECT_THROW((void)pad(x, {{.axis = 2, .before = 1}}), ArgumentError);
  EXPECT_THROW((void)pad(zeros(device(), {0}), {{.after = 1}}, {.mode = PadMode::replicate}),
               ArgumentError);
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)pad(zeros(device(), {1}, DType::u8), {{.after = 1}}, {.value = 300});
              }),
              HasSubstr("pad: the value 300 does not fit u8"));
}

TEST_F(GridTest, GradientsOfRepeatAndPadAreSums) {
  const auto x = HostRandom(3).signed_values({2, 3});
  check_gradients(device(), [](const Tensors& in) { return repeat(in[0], {2, 3, 2}); }, {x});
  for (const PadMode mode :
       {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular}) {
    check_gradients(device(),
                    [&](const Tensors& in) {
                      return pad(in[0],
                                 {{.axis = 1, .before = 1, .after = 2}, {.axis = 0, .after = 1}},
                                 {mode});
                    },
                    {x});
  }
}

TEST_F(GridTest, SortKeepsTheOrderOfEqualValues) {
  const Tensor x = f64({3, 1, 2, 1, 0, 5}, {2, 3});
  const TopK rows = sort(x);
  EXPECT_THAT(reals(rows.values), ElementsAre(1, 2, 3, 0, 1, 5));
  EXPECT_THAT(integers(rows.positions), ElementsAre(1, 2, 0, 1, 0, 2));
  EXPECT_THAT(reals(sort(x, {.axis = 0, .descending = true}).values),
              ElementsAre(3, 1, 5, 1, 0, 2));
  const TopK even = sort(i32({1, 0, 1, 0}, {4}), {.descending = true});
  EXPECT_THAT(integers(even.positions), ElementsAre(0, 2, 1, 3));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(reals(sort(f64({nan, 1}, {2})).values)[1]));
  EXPECT_THAT(reals(sort(x, {.axis = -2}).values), ElementsAre(1, 0, 2, 3, 1, 5));
  EXPECT_EQ(sort(zeros(device(), {2, 0})).positions.shape(), (Shape{2, 0}));
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)sort(x, {.axis = 2}); }),
            "sort: axis 2 is outside a tensor of rank 2, whose axes are -2 to 1");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)sort(full(device(), {}, 1)); }),
            "sort: axis -1 is outside a tensor of rank 0, which has no axes");
  check_gradients(device(),
                  [](const Tensors& in) { return sort(in[0], {.axis = 0}).values; },
                  {HostRandom(4).distinct({3, 2})});
}

}  // namespace
}  // namespace hearth
