// The oracle against values computed by hand, because all other backends are compared with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/backends/reference/reference.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "small_call.hpp"

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallCall;
using testing::SmallTensor;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> unary(OpKind kind, DType dtype, const std::vector<double>& x) {
  const auto count = static_cast<std::int64_t>(x.size());
  const SmallTensor in(dtype, {count}, x);
  const SmallTensor out(dtype, {count});
  reference::evaluate(SmallCall(kind, {in.view()}, {out.view()}).call()).value();
  return out.values();
}

std::vector<double> binary(OpKind kind,
                           DType dtype,
                           const std::vector<double>& a,
                           const std::vector<double>& b,
                           DType result) {
  const auto count = static_cast<std::int64_t>(a.size());
  const SmallTensor lhs(dtype, {count}, a);
  const SmallTensor rhs(dtype, {count}, b);
  const SmallTensor out(result, {count});
  reference::evaluate(SmallCall(kind, {lhs.view(), rhs.view()}, {out.view()}).call()).value();
  return out.values();
}

std::vector<double> binary(OpKind kind,
                           DType dtype,
                           const std::vector<double>& a,
                           const std::vector<double>& b) {
  return binary(kind, dtype, a, b, dtype);
}

template <class Attributes>
std::vector<double> with_attributes(OpKind kind,
                                    const SmallTensor& in,
                                    DType dtype,
                                    const Shape& shape,
                                    const Attributes& attributes) {
  const SmallTensor out(dtype, shape);
  reference::evaluate(SmallCall(kind, {in.view()}, {out.view()}).with(attributes).call()).value();
  return out.values();
}

std::vector<double> cast(DType from, DType to, double value) {
  const SmallTensor in(from, {}, {value});
  const SmallTensor out(to, {});
  reference::evaluate(SmallCall(OpKind::cast, {in.view()}, {out.view()}).call()).value();
  return out.values();
}

TEST(Reference, RoundsOnceAtTheStore) {
  // Just above the middle between two neighbours: rounding to f32 first would give the middle,
  // which then rounds down.
  EXPECT_EQ(cast(DType::f64, DType::f16, 1.0 + 0x1p-11 + 0x1p-40)[0], 1.0 + 0x1p-10);
  EXPECT_EQ(cast(DType::f64, DType::f16, 1.0 + 0x1p-11)[0], 1.0);
  EXPECT_EQ(cast(DType::f64, DType::f16, -(1.0 + 0x1p-11 + 0x1p-40))[0], -(1.0 + 0x1p-10));
  EXPECT_EQ(cast(DType::f64, DType::bf16, 1.0 + 0x1p-8 + 0x1p-40)[0], 1.0 + 0x1p-7);
  EXPECT_EQ(cast(DType::f64, DType::bf16, 1e300)[0], kInfinity);
  EXPECT_EQ(cast(DType::f64, DType::f16, -1e-300)[0], 0.0);
}

TEST(Reference, CastsToIntegersTruncateAndSaturate) {
  EXPECT_EQ(cast(DType::f32, DType::i32, -2.75)[0], -2);
  EXPECT_EQ(cast(DType::f32, DType::u8, 300)[0], 255);
  EXPECT_EQ(cast(DType::f32, DType::u8, -3)[0], 0);
  EXPECT_EQ(cast(DType::f32, DType::i8, 128.5)[0], 127);
  EXPECT_EQ(cast(DType::f32, DType::i8, -127.75)[0], -127);
  EXPECT_EQ(cast(DType::f64, DType::i8, -1000)[0], -128);
  EXPECT_EQ(cast(DType::f32, DType::i8, kNaN)[0], 0);
  EXPECT_EQ(cast(DType::i32, DType::i8, 200)[0], -56);
  EXPECT_EQ(cast(DType::i8, DType::u8, -1)[0], 255);
  EXPECT_EQ(cast(DType::f32, DType::i32, kInfinity)[0], 2147483647);
  EXPECT_EQ(cast(DType::f64, DType::i64, kNaN)[0], 0);
  EXPECT_EQ(cast(DType::i32, DType::u8, 257)[0], 1);
  EXPECT_EQ(cast(DType::f32, DType::boolean, kNaN)[0], 1);
  EXPECT_EQ(cast(DType::i32, DType::boolean, 256)[0], 1);
}

TEST(Reference, CarriesNaNWherePyTorchDoes) {
  EXPECT_TRUE(std::isnan(unary(OpKind::relu, DType::f32, {kNaN})[0]));
  EXPECT_TRUE(std::isnan(binary(OpKind::min, DType::f32, {kNaN}, {1})[0]));
  EXPECT_TRUE(std::isnan(binary(OpKind::min, DType::f32, {1}, {kNaN})[0]));
  EXPECT_TRUE(std::isnan(binary(OpKind::max, DType::f32, {kNaN}, {1})[0]));
  EXPECT_TRUE(std::isnan(binary(OpKind::max, DType::f32, {1}, {kNaN})[0]));
  const SmallTensor x(DType::f32, {4}, {1, kNaN, 3, kNaN});
  EXPECT_TRUE(std::isnan(
      with_attributes(OpKind::reduce_max, x, DType::f32, {}, ReduceAttributes{.axes = 1})[0]));
  EXPECT_EQ(with_attributes(OpKind::argmax, x, DType::i64, {}, AxisAttributes{})[0], 1);
  EXPECT_TRUE(std::isnan(
      with_attributes(OpKind::reduce_min, x, DType::f32, {}, ReduceAttributes{.axes = 1})[0]));
  EXPECT_EQ(with_attributes(OpKind::argmin, x, DType::i64, {}, AxisAttributes{})[0], 1);
}

TEST(Reference, ComparisonsWithNaNAreFalseButForNotEqual) {
  EXPECT_EQ(binary(OpKind::equal, DType::f64, {kNaN}, {kNaN}, DType::boolean)[0], 0);
  EXPECT_EQ(binary(OpKind::not_equal, DType::f64, {kNaN}, {kNaN}, DType::boolean)[0], 1);
  EXPECT_EQ(binary(OpKind::greater_equal, DType::f64, {kNaN}, {1}, DType::boolean)[0], 0);
}

TEST(Reference, IntegersWrapAndTruncate) {
  EXPECT_THAT(binary(OpKind::add, DType::u8, {250, 1}, {10, 2}), ElementsAre(4, 3));
  EXPECT_THAT(binary(OpKind::mul, DType::i8, {127, -128}, {2, -1}), ElementsAre(-2, -128));
  EXPECT_THAT(binary(OpKind::div, DType::i8, {-7, -128}, {2, -1}), ElementsAre(-3, -128));
  EXPECT_THAT(binary(OpKind::sub, DType::i32, {-2147483648.0}, {1}), ElementsAre(2147483647));
  EXPECT_THAT(binary(OpKind::div, DType::i32, {7, -7, -2147483648.0}, {2, 2, -1}),
              ElementsAre(3, -3, -2147483648.0));
  EXPECT_THAT(binary(OpKind::pow, DType::i64, {2, -3, 2, -1, 1}, {10, 3, -1, -3, -5}),
              ElementsAre(1024, -27, 0, -1, 1));
  EXPECT_THAT(unary(OpKind::neg, DType::u8, {1}), ElementsAre(255));
}

TEST(Reference, DividingAnIntegerByZeroNamesTheElement) {
  const SmallTensor a(DType::i32, {3}, {1, 2, 3});
  const SmallTensor b(DType::i32, {3}, {1, 1, 0});
  const SmallTensor out(DType::i32, {3}, {9, 9, 9});
  const Status status =
      reference::evaluate(SmallCall(OpKind::div, {a.view(), b.view()}, {out.view()}).call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kernel_failed);
  EXPECT_THAT(status.error().text, HasSubstr("div: division by zero at element 2: 3 and 0"));
  EXPECT_THAT(out.values(), ElementsAre(9, 9, 9));
}

TEST(Reference, ScalarsTakeTheirSide) {
  const SmallTensor x(DType::f32, {2}, {1, 4});
  const SmallTensor out(DType::f32, {2});
  const ScalarAttributes two{.real = 2, .integer = 0};
  reference::evaluate(SmallCall(OpKind::sub, {x.view()}, {out.view()})
                          .with(two)
                          .with(RecordFlag::scalar_lhs)
                          .call())
      .value();
  EXPECT_THAT(out.values(), ElementsAre(1, -2));
  reference::evaluate(SmallCall(OpKind::sub, {x.view()}, {out.view()})
                          .with(two)
                          .with(RecordFlag::scalar_rhs)
                          .call())
      .value();
  EXPECT_THAT(out.values(), ElementsAre(-1, 2));
}

TEST(Reference, ReadsNegativeAndZeroStrides) {
  const SmallTensor x(DType::f32, {6}, {1, 2, 3, 4, 5, 6});
  const detail::Layout backwards(Shape{2, 3}, Strides{-3, -1});
  const detail::Layout repeated(Shape{2, 3}, Strides{0, 2});
  const SmallTensor out(DType::f32, {2, 3});
  reference::evaluate(
      SmallCall(OpKind::add, {x.view(backwards, 5), x.view(repeated, 0)}, {out.view()}).call())
      .value();
  EXPECT_THAT(out.values(), ElementsAre(7, 8, 9, 4, 5, 6));
}

TEST(Reference, OutputsMayShareBytesWithInputsInAnyWay) {
  const SmallTensor x(DType::f32, {4}, {1, 2, 3, 4});
  const detail::Layout backwards(Shape{4}, Strides{-1});
  reference::evaluate(SmallCall(OpKind::sub, {x.view(), x.view(backwards, 3)}, {x.view()}).call())
      .value();
  EXPECT_THAT(x.values(), ElementsAre(-3, -1, 1, 3));
}

TEST(Reference, ReducesTheAxesOfTheMask) {
  const SmallTensor x(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(with_attributes(OpKind::reduce_sum, x, DType::f32, {3}, ReduceAttributes{.axes = 1}),
              ElementsAre(5, 7, 9));
  EXPECT_THAT(
      with_attributes(
          OpKind::reduce_mean, x, DType::f32, {2, 1}, ReduceAttributes{.axes = 2, .keep_dims = 1}),
      ElementsAre(2, 5));
  EXPECT_THAT(with_attributes(OpKind::reduce_max, x, DType::f32, {}, ReduceAttributes{.axes = 3}),
              ElementsAre(6));
  EXPECT_THAT(with_attributes(OpKind::argmax, x, DType::i64, {3}, AxisAttributes{.axis = 0}),
              ElementsAre(1, 1, 1));
  EXPECT_THAT(with_attributes(OpKind::reduce_min, x, DType::f32, {}, ReduceAttributes{.axes = 3}),
              ElementsAre(1));
  EXPECT_THAT(with_attributes(OpKind::reduce_prod, x, DType::f32, {2}, ReduceAttributes{.axes = 2}),
              ElementsAre(6, 120));
  EXPECT_THAT(with_attributes(OpKind::argmin, x, DType::i64, {3}, AxisAttributes{.axis = 0}),
              ElementsAre(0, 0, 0));
}

TEST(Reference, SumsUpFromEitherEnd) {
  const SmallTensor x(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(with_attributes(OpKind::cumsum, x, DType::f32, {2, 3}, ScanAttributes{.axis = 1}),
              ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(with_attributes(
                  OpKind::cumsum, x, DType::f32, {2, 3}, ScanAttributes{.axis = 1, .reverse = 1}),
              ElementsAre(6, 5, 3, 15, 11, 6));
  EXPECT_THAT(with_attributes(OpKind::cumsum, x, DType::f32, {2, 3}, ScanAttributes{.axis = 0}),
              ElementsAre(1, 2, 3, 5, 7, 9));
}

TEST(Reference, ReducingNothingGivesZeroNaNOrAnError) {
  const SmallTensor none(DType::f32, {0, 2});
  EXPECT_THAT(
      with_attributes(OpKind::reduce_sum, none, DType::f32, {2}, ReduceAttributes{.axes = 1}),
      ElementsAre(0, 0));
  EXPECT_TRUE(std::isnan(
      with_attributes(OpKind::reduce_mean, none, DType::f32, {2}, ReduceAttributes{.axes = 1})[0]));
  EXPECT_THAT(
      with_attributes(OpKind::reduce_prod, none, DType::f32, {2}, ReduceAttributes{.axes = 1}),
      ElementsAre(1, 1));
  const SmallTensor out(DType::f32, {2});
  for (const OpKind kind : {OpKind::reduce_max, OpKind::reduce_min}) {
    const Status status = reference::evaluate(
        SmallCall(kind, {none.view()}, {out.view()}).with(ReduceAttributes{.axes = 1}).call());
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(status.error().op, name(kind));
  }
}

TEST(Reference, MultipliesMatricesAndAddsTheBiasToEachRow) {
  const SmallTensor a(DType::f32, {2, 2}, {1, 2, 3, 4});
  const SmallTensor b(DType::f32, {2, 3}, {1, 0, 2, 0, 1, 3});
  const SmallTensor bias(DType::f32, {3}, {10, 20, 30});
  const SmallTensor out(DType::f32, {2, 3});
  reference::evaluate(
      SmallCall(OpKind::matmul, {a.view(), b.view(), bias.view()}, {out.view()}).call())
      .value();
  EXPECT_THAT(out.values(), ElementsAre(11, 22, 38, 13, 24, 48));
}

TEST(Reference, BatchesBroadcastInMatmul) {
  const SmallTensor a(DType::f32, {2, 1, 2}, {1, 2, 3, 4});
  const SmallTensor b(DType::f32, {2, 1}, {1, 10});
  const SmallTensor out(DType::f32, {2, 1, 1});
  reference::evaluate(SmallCall(OpKind::matmul, {a.view(), b.view()}, {out.view()}).call()).value();
  EXPECT_THAT(out.values(), ElementsAre(21, 43));
}

TEST(Reference, ConvolutionIsACrossCorrelation) {
  const SmallTensor x(DType::f32, {1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const SmallTensor w(DType::f32, {1, 1, 1, 2}, {1, 10});
  const SmallTensor bias(DType::f32, {1}, {100});
  const SmallTensor out(DType::f32, {1, 1, 2, 4});
  reference::evaluate(SmallCall(OpKind::conv2d, {x.view(), w.view(), bias.view()}, {out.view()})
                          .with(ConvAttributes{.padding = {0, 1}})
                          .call())
      .value();
  EXPECT_THAT(out.values(), ElementsAre(110, 121, 132, 103, 140, 154, 165, 106));
}

TEST(Reference, GroupsSeeTheirOwnChannels) {
  const SmallTensor x(DType::f32, {1, 2, 1, 1}, {3, 5});
  const SmallTensor w(DType::f32, {4, 1, 1, 1}, {1, 2, 10, 20});
  const SmallTensor out(DType::f32, {1, 4, 1, 1});
  reference::evaluate(SmallCall(OpKind::conv2d, {x.view(), w.view()}, {out.view()})
                          .with(ConvAttributes{.groups = 2})
                          .call())
      .value();
  EXPECT_THAT(out.values(), ElementsAre(3, 6, 50, 100));
}

TEST(Reference, MaxPoolGivesPositionsInThePlane) {
  const SmallTensor x(DType::f32, {1, 1, 3, 3}, {1, 9, 2, 9, 4, kNaN, 7, kNaN, 8});
  const SmallTensor y(DType::f32, {1, 1, 2, 2});
  const SmallTensor positions(DType::i32, {1, 1, 2, 2});
  const PoolAttributes pool{.kernel = {2, 2}, .stride = {1, 1}};
  reference::evaluate(
      SmallCall(OpKind::max_pool2d, {x.view()}, {y.view(), positions.view()}).with(pool).call())
      .value();
  EXPECT_EQ(y.values()[0], 9);
  EXPECT_TRUE(std::isnan(y.values()[1]));
  EXPECT_THAT(positions.values(), ElementsAre(1, 5, 7, 5));
}

TEST(Reference, AveragePoolLeavesPaddingOutUnlessAsked) {
  const SmallTensor x(DType::f32, {1, 1, 1, 2}, {2, 4});
  PoolAttributes pool{.kernel = {1, 2}, .stride = {1, 1}, .padding = {0, 1}};
  EXPECT_THAT(with_attributes(OpKind::avg_pool2d, x, DType::f32, {1, 1, 1, 3}, pool),
              ElementsAre(2, 3, 4));
  pool.count_include_pad = 1;
  EXPECT_THAT(with_attributes(OpKind::avg_pool2d, x, DType::f32, {1, 1, 1, 3}, pool),
              ElementsAre(1, 3, 2));
}

TEST(Reference, SoftmaxIsStableAndLogSoftmaxIsItsLogarithm) {
  const SmallTensor x(DType::f64, {2, 2}, {1000, 1000 + std::log(3.0), -kInfinity, 0});
  const auto y = with_attributes(OpKind::softmax, x, DType::f64, {2, 2}, AxisAttributes{.axis = 1});
  EXPECT_NEAR(y[0], 0.25, 1e-12);
  EXPECT_NEAR(y[1], 0.75, 1e-12);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 1);
  const auto z =
      with_attributes(OpKind::log_softmax, x, DType::f64, {2, 2}, AxisAttributes{.axis = 1});
  EXPECT_NEAR(z[0], std::log(0.25), 1e-12);
  EXPECT_EQ(z[2], -kInfinity);
}

TEST(Reference, CrossEntropyIsTheLogSoftmaxAtTheTarget) {
  const SmallTensor logits(DType::f64, {2, 2}, {0, std::log(3.0), 5, 5});
  const SmallTensor targets(DType::i64, {2}, {1, 0});
  const SmallTensor losses(DType::f64, {2});
  const SmallTensor probabilities(DType::f64, {2, 2});
  reference::evaluate(SmallCall(OpKind::cross_entropy,
                                {logits.view(), targets.view()},
                                {losses.view(), probabilities.view()})
                          .call())
      .value();
  EXPECT_NEAR(losses.values()[0], -std::log(0.75), 1e-12);
  EXPECT_NEAR(losses.values()[1], std::log(2.0), 1e-12);
  EXPECT_NEAR(probabilities.values()[0], 0.25, 1e-12);
}

TEST(Reference, AClassOutsideItsRangeIsNamedWithItsRow) {
  const SmallTensor logits(DType::f32, {2, 3});
  const SmallTensor targets(DType::i32, {2}, {0, 3});
  const SmallTensor losses(DType::f32, {2});
  const Status status = reference::evaluate(
      SmallCall(OpKind::cross_entropy, {logits.view(), targets.view()}, {losses.view()}).call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::out_of_range);
  EXPECT_THAT(status.error().text,
              HasSubstr("cross_entropy: class 3 in row 1 is outside the 3 classes"));
}

TEST(Reference, APoolPositionOutsideItsPlaneIsRefused) {
  const SmallTensor grad(DType::f32, {1, 1, 1, 1}, {1});
  const SmallTensor positions(DType::i32, {1, 1, 1, 1}, {4});
  const SmallTensor out(DType::f32, {1, 1, 2, 2});
  const Status status = reference::evaluate(
      SmallCall(OpKind::max_pool2d_backward, {grad.view(), positions.view()}, {out.view()})
          .with(PoolAttributes{})
          .call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::out_of_range);
}

TEST(Reference, AnIndexOutsideItsAxisIsNamedWithItsPlace) {
  const SmallTensor x(DType::f32, {2, 3});
  const SmallTensor index(DType::i32, {2, 2}, {0, 2, -1, 3});
  const SmallTensor out(DType::f32, {2, 2});
  const Status status =
      reference::evaluate(SmallCall(OpKind::gather, {x.view(), index.view()}, {out.view()})
                              .with(AxisAttributes{.axis = 1})
                              .call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::out_of_range);
  EXPECT_EQ(status.error().text, "gather: index -1 at [1, 0] is outside axis 1 of size 3");
}

TEST(Reference, DropoutZeroesEvenInfinityAndScalesTheRest) {
  const SmallTensor x(DType::f32, {64}, std::vector<double>(64, kInfinity));
  const auto y = with_attributes(OpKind::dropout,
                                 x,
                                 DType::f32,
                                 {64},
                                 RandomAttributes{.seed = 1, .counter = 0, .a = 0.5, .b = 0});
  EXPECT_THAT(y, ::testing::Each(::testing::AnyOf(0.0, kInfinity)));
  EXPECT_THAT(y, ::testing::Contains(0.0));
  EXPECT_THAT(y, ::testing::Contains(kInfinity));
  const SmallTensor ones(DType::f32, {64}, std::vector<double>(64, 1.0));
  EXPECT_THAT(with_attributes(OpKind::dropout,
                              ones,
                              DType::f32,
                              {64},
                              RandomAttributes{.seed = 1, .counter = 0, .a = 0.75, .b = 0}),
              ::testing::Each(::testing::AnyOf(0.0, 4.0)));
}

TEST(Reference, SgdFollowsItsFormula) {
  const SmallTensor p(DType::f64, {1}, {1});
  const SmallTensor g(DType::f64, {1}, {0.5});
  const SmallTensor m(DType::f64, {1}, {2});
  const SgdAttributes sgd{
      .learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = 1};
  reference::evaluate(
      SmallCall(OpKind::sgd_step, {p.view(), g.view(), m.view()}, {p.view(), m.view()})
          .with(sgd)
          .call())
      .value();
  // g = 0.5 + 0.1 = 0.6; m = 1.8 + 0.6 = 2.4; g = 0.6 + 0.9*2.4 = 2.76; p = 1 - 0.276.
  EXPECT_NEAR(m.values()[0], 2.4, 1e-12);
  EXPECT_NEAR(p.values()[0], 0.724, 1e-12);
}

TEST(Reference, TheFirstAdamStepIsTheLearningRateInTheGradientsDirection) {
  const SmallTensor p(DType::f64, {2}, {1, 1});
  const SmallTensor g(DType::f64, {2}, {123, -0.01});
  const SmallTensor m(DType::f64, {2}, {0, 0});
  const SmallTensor v(DType::f64, {2}, {0, 0});
  const AdamAttributes adam{.learning_rate = 0.1,
                            .beta1 = 0.9,
                            .beta2 = 0.999,
                            .epsilon = 0,
                            .weight_decay = 0.5,
                            .decoupled = 1};
  reference::evaluate(SmallCall(OpKind::adam_step,
                                {p.view(), g.view(), m.view(), v.view()},
                                {p.view(), m.view(), v.view()})
                          .with(adam)
                          .call())
      .value();
  EXPECT_NEAR(p.values()[0], 0.95 - 0.1, 1e-12);
  EXPECT_NEAR(p.values()[1], 0.95 + 0.1, 1e-12);
  EXPECT_NEAR(m.values()[0], 12.3, 1e-12);
  EXPECT_NEAR(v.values()[0], 0.001 * 123 * 123, 1e-9);
}

TEST(Reference, RefusesWhatTheOpTableDoesNotAllow) {
  const SmallTensor integers(DType::i32, {1});
  const Support exp =
      reference::supports(SmallCall(OpKind::exp, {integers.view()}, {integers.view()}).call());
  EXPECT_FALSE(exp.yes);
  EXPECT_THAT(exp.reason, HasSubstr("exp takes f32, f64, f16, bf16, not i32"));
  EXPECT_FALSE(
      reference::supports(SmallCall(OpKind::reshape, {integers.view()}, {integers.view()}).call())
          .yes);
  EXPECT_FALSE(
      reference::supports(SmallCall(OpKind::where, {integers.view()}, {integers.view()}).call())
          .yes);
}

}  // namespace
}  // namespace hearth
