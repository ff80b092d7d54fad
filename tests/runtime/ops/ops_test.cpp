// Creation and elementwise ops: values and refused mistakes, on the reference device.
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/reference_test.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using testing::thrown_text;
using OpsTest = testing::ReferenceTest;

using Dims = std::initializer_list<std::int64_t>;

// ---- creation ----

TEST_F(OpsTest, FullTakesEveryIntegerAndIsF32UnlessATypeIsNamed) {
  EXPECT_EQ(full(device(), {2}, 3).dtype(), DType::f32);
  EXPECT_EQ(full(device(), {2}, 3U).dtype(), DType::f32);
  EXPECT_EQ(full(device(), {}, std::uint8_t{200}, DType::u8).item<int>(), 200);
  EXPECT_EQ(full(device(), {}, true, DType::boolean).item<bool>(), true);
  EXPECT_EQ(full(device(), {}, std::numeric_limits<std::uint64_t>::max()).item(), 0x1p64);
}

TEST_F(OpsTest, NumbersInARowInMemoryAreCopiedFromWhateverHoldsThem) {
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::span<float> part = std::span(values).subspan(2);
  EXPECT_THAT(reals(Tensor::from(device(), part, {2, 2})), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(Tensor::from(device(), part).shape(), Shape{4});
  const std::array<std::int64_t, 3> whole{1, 2, 3};
  EXPECT_EQ(Tensor::from(device(), whole).dtype(), DType::i64);
  EXPECT_EQ(Tensor::from(device(), whole, {3, 1}).shape(), (Shape{3, 1}));
  const std::vector<float> none;  // a 0 in braces is a size, not a null source location
  EXPECT_EQ(Tensor::from(device(), none, {0, 4}).shape(), (Shape{0, 4}));
  EXPECT_EQ(Tensor::from(device(), none, {0}).shape(), Shape{0});
  const double bare[] = {1, 2};
  EXPECT_EQ(Tensor::from(device(), bare).dtype(), DType::f64);
  const std::array<bool, 2> truths{true, false};
  EXPECT_EQ(Tensor::from(device(), truths).dtype(), DType::boolean);
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)Tensor::from(device(), part, {5}); }),
              HasSubstr("4"));
}

TEST_F(OpsTest, NumbersInBracesAreF32UnlessATypeIsNamed) {
  const Tensor x = Tensor::from(device(), {1.5, 2.0}, {2});
  EXPECT_EQ(x.dtype(), DType::f32);
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(1.5F, 2.0F));
  EXPECT_THAT(Tensor::from(device(), {0.1, 2.0}, {2}, DType::f64).to_vector<double>(),
              ElementsAre(0.1, 2.0));
  EXPECT_THAT(Tensor::from<double>(device(), {0.1}, {1}).to_vector<double>(), ElementsAre(0.1));
  EXPECT_THAT(Tensor::from(device(), {7.0, 255.0}, {2}, DType::u8).to_vector<std::uint8_t>(),
              ElementsAre(7, 255));
  EXPECT_THAT(Tensor::from(device(), {1.0, 0.0}, {2}, DType::boolean).to_vector<std::uint8_t>(),
              ElementsAre(1, 0));
  EXPECT_EQ(Tensor::from(device(), {1.5}, {1}, DType::f16).item(), 1.5);
  EXPECT_EQ(Tensor::from(device(), {1, 2}, {2}).dtype(), DType::i32);
  EXPECT_EQ(thrown_text<ArgumentError>([&] {
              (void)Tensor::from(device(), {1.0, 0.5}, {2}, DType::i32);
            }),
            "from: value 1 of {...} is 0.5, which i32 cannot hold");
}

TEST_F(OpsTest, ReadIntoWritesIntoMemoryThatItsOwnerKeeps) {
  auto out = std::make_shared<std::vector<float>>(2);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span<float>(*out));
  const Tensor x = Tensor::from<float>(device(), {3, 4}, {2});
  x.read_into(bytes, out).get();
  EXPECT_THAT(*out, ElementsAre(3, 4));
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)x.read_into(bytes, nullptr); }),
            "read_into: the target has no owner: `owner` is null");
}

TEST_F(OpsTest, CreationFillsWithTheValueInTheAskedType) {
  EXPECT_THAT(full(device(), {2}, 1.5).to_vector<float>(), ElementsAre(1.5F, 1.5F));
  EXPECT_THAT(full(device(), {2}, -3, DType::i32).to_vector<std::int32_t>(), ElementsAre(-3, -3));
  EXPECT_THAT(full(device(), {1}, std::numeric_limits<std::int64_t>::max(), DType::i64)
                  .to_vector<std::int64_t>(),
              ElementsAre(std::numeric_limits<std::int64_t>::max()));
  EXPECT_THAT(full(device(), {1}, 3, DType::f32).to_vector<float>(), ElementsAre(3.0F));
  EXPECT_THAT(ones(device(), {2}, DType::boolean).to_vector<std::uint8_t>(), ElementsAre(1, 1));
  EXPECT_EQ(zeros(device(), {}).shape(), Shape{});
  EXPECT_TRUE(zeros(device(), {3, 0}).to_vector<float>().empty());
}

TEST_F(OpsTest, LikeKeepsShapeAndTypeOfTheModel) {
  const Tensor like = i32({1, 2, 3}, {3, 1});
  EXPECT_EQ(zeros_like(like).dtype(), DType::i32);
  EXPECT_EQ(ones_like(like).shape(), (Shape{3, 1}));
  EXPECT_THAT(ones_like(like).to_vector<std::int32_t>(), ElementsAre(1, 1, 1));
}

TEST_F(OpsTest, FillRefusesAValueThatTheTypeCannotHold) {
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)full(device(), {1}, 0.5, DType::i32); }),
              HasSubstr("the value 0.5 does not fit i32"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)full(device(), {1}, 256, DType::u8); }),
              HasSubstr("the value 256 does not fit u8"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)full(device(), {1}, 70000, DType::f16); }),
              HasSubstr("the value 70000 does not fit f16"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)full(device(), {1}, 0x1p63, DType::i64); }),
              HasSubstr("does not fit i64"));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(reals(full(device(), {1}, -kInfinity, DType::f16)), ElementsAre(-kInfinity));
}

TEST_F(OpsTest, FillKeepsTheDigitsOfALongInteger) {
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(full(device(), {}, odd, DType::i64).item<std::int64_t>(), odd);
  EXPECT_EQ(full(device(), {}, -odd, DType::i64).item<std::int64_t>(), -odd);
  EXPECT_EQ(full(device(), {}, std::uint64_t{1} << 63U).item(), 0x1p63);
  EXPECT_THAT(thrown_text<ArgumentError>(
                  [&] { (void)full(device(), {}, std::uint64_t{1} << 63U, DType::i64); }),
              HasSubstr("does not fit i64"));
}

TEST_F(OpsTest, ABoolTensorHoldsNoughtsAndOnesAlone) {
  const std::array bytes{std::byte{1}, std::byte{0}, std::byte{2}};
  EXPECT_EQ(thrown_text<ArgumentError>(
                [&] { (void)Tensor::from_bytes(device(), bytes, DType::boolean, {3}); }),
            "from: byte 2 of a bool tensor is 2, neither 0 nor 1");
  EXPECT_THAT(
      integers(Tensor::from_bytes(device(), std::span(bytes).first(2), DType::boolean, {2})),
      ElementsAre(1, 0));
  EXPECT_THAT(integers(Tensor::from(device(), {true, false, true}, {3})), ElementsAre(1, 0, 1));
}

TEST_F(OpsTest, ArangeStopsBeforeTheEnd) {
  EXPECT_THAT(arange(device(), 0, 1, 0.25).to_vector<float>(), ElementsAre(0, 0.25F, 0.5F, 0.75F));
  EXPECT_THAT(arange(device(), 3, -2, -2, DType::i64).to_vector<std::int64_t>(),
              ElementsAre(3, 1, -1));
  EXPECT_EQ(arange(device(), 1, 0).shape(), Shape{0});
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)arange(device(), 0, 1, 0); }),
              HasSubstr("the step is 0"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)arange(device(), 0, 1, 0.5, DType::i32); }),
              HasSubstr("i32 needs whole numbers"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)arange(device(), 0, 1, 1, DType::boolean); }),
              HasSubstr("does not make bool"));
}

TEST_F(OpsTest, ArangeRefusesValuesThatTheTypeCannotHold) {
  const auto refusal = [&](double start, double stop, double step, DType dtype) {
    return thrown_text<ArgumentError>([&] { (void)arange(device(), start, stop, step, dtype); });
  };
  EXPECT_THAT(refusal(0, 257, 1, DType::u8),
              HasSubstr("257 values from 0 in steps of 1 do not fit u8"));
  EXPECT_THAT(refusal(-1, 3, 1, DType::u8), HasSubstr("the value -1 does not fit u8"));
  EXPECT_THAT(refusal(3, -2, -1, DType::u8), HasSubstr("do not fit u8"));
  EXPECT_THAT(refusal(0x1p31, 0x1p31 + 2, 1, DType::i32), HasSubstr("does not fit i32"));
  EXPECT_THAT(refusal(0x1p31 - 2, 0x1p31 + 2, 1, DType::i32), HasSubstr("do not fit i32"));
  EXPECT_THAT(refusal(0x1p62, 0x1p64, 0x1p62, DType::i64), HasSubstr("do not fit i64"));
  EXPECT_THAT(refusal(0, 1, 1e30, DType::i64), HasSubstr("the value 1e+30 does not fit i64"));
  EXPECT_THAT(refusal(65000, 66000, 100, DType::f16), HasSubstr("does not fit f16"));
}

TEST_F(OpsTest, ArangeGivesTheEndsOfItsType) {
  EXPECT_THAT(integers(arange(device(), 254, 256, 1, DType::u8)), ElementsAre(254, 255));
  EXPECT_THAT(integers(arange(device(), 1, -1, -1, DType::u8)), ElementsAre(1, 0));
  EXPECT_THAT(integers(arange(device(), -0x1p31, -0x1p31 + 1, 1, DType::i32)),
              ElementsAre(std::numeric_limits<std::int32_t>::min()));
  EXPECT_THAT(integers(arange(device(), -0x1p63, 0, 0x1p62, DType::i64)),
              ElementsAre(std::numeric_limits<std::int64_t>::min(), -(std::int64_t{1} << 62)));
  EXPECT_EQ(arange(device(), 300, 0, 1, DType::u8).shape(), Shape{0});
}

// ---- one value ----

TEST_F(OpsTest, ItemGivesIntegersAsTheyAre) {
  using Limits = std::numeric_limits<std::int64_t>;
  for (const std::int64_t value : {Limits::max(), Limits::min(), (std::int64_t{1} << 53) + 1}) {
    EXPECT_EQ(i64({value}, {1}).item<std::int64_t>(), value);
  }
  EXPECT_EQ(i64({Limits::max()}, {1}).item<std::uint64_t>(), 0x7fffffffffffffffU);
  EXPECT_EQ(i64({200}, {1}).item<std::uint8_t>(), 200);
  EXPECT_EQ(i32({-128}, {1}).item<std::int8_t>(), -128);
  EXPECT_EQ(i64({-3}, {1}).item<float>(), -3.0F);
  EXPECT_TRUE(booleans({1}, {1}).item<bool>());
  EXPECT_EQ(booleans({1}, {1}).item<int>(), 1);
}

TEST_F(OpsTest, ItemDropsAFractionAsCastDoes) {
  EXPECT_EQ(f64({2.75}, {1}).item<int>(), 2);
  EXPECT_EQ(f64({-2.75}, {1}).item<int>(), -2);
  EXPECT_EQ(f64({-0.75}, {1}).item<unsigned>(), 0U);
  EXPECT_EQ(f64({255.9}, {1}).item<std::uint8_t>(), 255);
  EXPECT_EQ(f64({-0x1p63}, {1}).item<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(f64({0x1p63}, {1}).item<std::uint64_t>(), std::uint64_t{1} << 63U);
}

TEST_F(OpsTest, ItemRefusesWhatItsTypeCannotHold) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)f64({nan}, {1}).item<int>(); }),
            "item: the value nan does not fit an integer of 32 bits");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)f64({0x1p63}, {1}).item<std::int64_t>(); }),
            "item: the value 9.223372036854776e+18 does not fit an integer of 64 bits");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)f64({0x1p64}, {1}).item<std::uint64_t>(); }),
            "item: the value 1.8446744073709552e+19 does not fit an unsigned integer of 64 bits");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)i64({256}, {1}).item<std::uint8_t>(); }),
            "item: the value 256 does not fit an unsigned integer of 8 bits");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)i64({-1}, {1}).item<std::uint64_t>(); }),
            "item: the value -1 does not fit an unsigned integer of 64 bits");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)f64({1e300}, {1}).item<float>(); }),
            "item: the value 1e+300 does not fit a float of 32 bits");
  EXPECT_TRUE(std::isnan(f64({nan}, {1}).item<float>()));
  EXPECT_TRUE(std::isnan(f64({nan}, {1}).item()));
}

TEST_F(OpsTest, FiniteIsWhatIsNeitherNanNorInfinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Tensor x =
      f32({1, kInfinity, std::numeric_limits<float>::quiet_NaN(), -kInfinity, -3e38F}, {5});
  EXPECT_THAT(integers(is_finite(x)), ElementsAre(1, 0, 0, 0, 1));
  EXPECT_THAT(integers(is_finite(cast(x, DType::f16))), ElementsAre(1, 0, 0, 0, 0));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)is_finite(i32({1}, {1})); }),
              HasSubstr("is_finite: takes floats, not i32[1]"));
}

TEST_F(OpsTest, RandomOpsFollowTheGeneratorAlone) {
  Generator first(7);
  Generator second(7);
  const std::vector<float> a = random_uniform(device(), {9}, first, -2, 3).to_vector<float>();
  const std::vector<float> b = random_uniform(device(), {9}, second, -2, 3).to_vector<float>();
  const std::vector<float> c = random_uniform(device(), {9}, second, -2, 3).to_vector<float>();
  EXPECT_EQ(a, b);
  EXPECT_NE(b, c);
  EXPECT_THAT(a, Each(AllOf(Ge(-2.0F), Le(3.0F))));
  EXPECT_EQ(first.counter(), 3U);  // nine words in blocks of four
}

TEST_F(OpsTest, NormalValuesHaveMeanAndDeviation) {
  Generator generator(3);
  const std::vector<double> values =
      random_normal(device(), {4001}, generator, 5, 2, DType::f64).to_vector<double>();
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += (value - 5) * (value - 5);
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 5, 4 * 2 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), 2, 4 * 2 / std::sqrt(2 * count));
}

TEST_F(OpsTest, BernoulliIsOneWithProbabilityP) {
  Generator generator(3);
  const std::vector<double> values = reals(random_bernoulli(device(), {4001}, generator, 0.25));
  double ones_seen = 0;
  for (const double value : values) {
    EXPECT_TRUE(value == 0 || value == 1);
    ones_seen += value;
  }
  EXPECT_NEAR(ones_seen / 4001, 0.25, 4 * std::sqrt(0.25 * 0.75 / 4001));
}

TEST_F(OpsTest, RandomOpsRefuseWhatIsNoDistribution) {
  Generator generator;
  EXPECT_THAT(
      thrown_text<ArgumentError>([&] { (void)random_uniform(device(), {1}, generator, 2, 1); }),
      HasSubstr("[2, 1) is no range"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)random_uniform(device(), {1}, generator, 1.0001, 1.0002, DType::f16);
              }),
              HasSubstr("there is no f16 in [1.0001, 1.0002)"));
  EXPECT_THAT(thrown_text<ArgumentError>(
                  [&] { (void)random_uniform(device(), {1}, generator, 0, 1e6, DType::f16); }),
              HasSubstr("[0, 1000000) goes beyond f16, whose values end at 65504"));
  EXPECT_THAT(
      thrown_text<ArgumentError>([&] { (void)random_normal(device(), {1}, generator, 0, -1); }),
      HasSubstr("standard deviation -1"));
  EXPECT_THAT(
      thrown_text<ArgumentError>([&] { (void)random_bernoulli(device(), {1}, generator, 1.5); }),
      HasSubstr("probability 1.5"));
  EXPECT_THAT(thrown_text<DtypeError>(
                  [&] { (void)random_uniform(device(), {1}, generator, 0, 1, DType::i32); }),
              HasSubstr("does not make i32"));
  EXPECT_EQ(generator.counter(), 0U);
}

// ---- element by element ----

TEST_F(OpsTest, UnaryOpsComputeTheirFunction) {
  struct Case {
    Tensor (*op)(Arg);
    double (*function)(double);
  };
  const Case cases[] = {{neg, [](double x) { return -x; }},
                        {abs, [](double x) { return std::fabs(x); }},
                        {exp, [](double x) { return std::exp(x); }},
                        {log, [](double x) { return std::log(x); }},
                        {sqrt, [](double x) { return std::sqrt(x); }},
                        {rsqrt, [](double x) { return 1 / std::sqrt(x); }},
                        {square, [](double x) { return x * x; }},
                        {sin, [](double x) { return std::sin(x); }},
                        {cos, [](double x) { return std::cos(x); }},
                        {tanh, [](double x) { return std::tanh(x); }},
                        {erf, [](double x) { return std::erf(x); }},
                        {sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
                        {recip, [](double x) { return 1 / x; }},
                        {relu, [](double x) { return x > 0 ? x : 0; }}};
  const std::vector<double> values{-1.75, -0.5, 0.25, 3};
  const testing::Tolerance tolerance = testing::tolerance(testing::Precision::function, DType::f64);
  const Tensor x = f64(values, {2, 2});
  for (const Case& test : cases) {
    const Tensor y = test.op(x);
    EXPECT_EQ(y.shape(), x.shape());
    const std::vector<double> got = y.to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(tolerance.accepts(got[i], test.function(values[i])))
          << "case " << (&test - cases) << ": " << got[i] << " for " << values[i];
    }
  }
}

TEST_F(OpsTest, UnaryOpsRefuseOtherTypesNumbersAndEmptyTensors) {
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)exp(i32({1}, {1})); }),
            "exp: does not take i32, only f32, f64, f16, bf16: i32[1]");
  EXPECT_THAT(thrown_text<ArgumentError>([] { (void)exp(2.0); }),
              HasSubstr("an operand is a number"));
  EXPECT_THAT(thrown_text<ArgumentError>([] { (void)neg(Tensor()); }),
              HasSubstr("an operand is an empty tensor"));
}

TEST_F(OpsTest, CastConvertsAndIsFreeWhenTheTypeIsThere) {
  EXPECT_THAT(cast(f64({-1.7, 2.5}, {2}), DType::i32).to_vector<std::int32_t>(),
              ElementsAre(-1, 2));
  EXPECT_THAT(f64({0, 2.5}, {2}).to(DType::boolean).to_vector<std::uint8_t>(), ElementsAre(0, 1));
  const Tensor x = f64({1}, {1});
  EXPECT_EQ(detail::TensorAccess::impl(cast(x, DType::f64)), detail::TensorAccess::impl(x));
}

TEST_F(OpsTest, DropoutZeroesOrScales) {
  Generator generator(11);
  const std::vector<double> values =
      reals(dropout(ones(device(), {4001}, DType::f64), 0.2, generator));
  double dropped = 0;
  for (const double value : values) {
    EXPECT_TRUE(value == 0 || value == 1 / 0.8);
    dropped += value == 0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped / 4001, 0.2, 4 * std::sqrt(0.2 * 0.8 / 4001));
  EXPECT_EQ(generator.counter(), 1001U);
  EXPECT_THAT(reals(dropout(ones(device(), {3}), 1, generator)), Each(0));
  const Tensor x = ones(device(), {3});
  EXPECT_EQ(detail::TensorAccess::impl(dropout(x, 0, generator)), detail::TensorAccess::impl(x));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)dropout(x, -0.1, generator); }),
              HasSubstr("probability -0.1"));
}

// ---- two operands ----

TEST_F(OpsTest, BinaryOpsBroadcastAsNumPy) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(reals(x + f64({10, 20, 30}, {3})), ElementsAre(10, 21, 32, 13, 24, 35));
  EXPECT_THAT(reals(x - f64({1, 2}, {2, 1})), ElementsAre(-1, 0, 1, 1, 2, 3));
  EXPECT_THAT(reals(x * f64({2}, {})), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(reals(f64({12}, {1}) / f64({1, 2, 4}, {3, 1})), ElementsAre(12, 6, 3));
  EXPECT_EQ((f64({1}, {1, 1, 1}) + x).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ((zeros(device(), {0, 3}) + zeros(device(), {1, 3})).shape(), (Shape{0, 3}));
}

TEST_F(OpsTest, BinaryOpsTakeNumbersOnEitherSide) {
  const Tensor x = f64({1, 2, 4}, {3});
  EXPECT_THAT(reals(x + 1), ElementsAre(2, 3, 5));
  EXPECT_THAT(reals(1 - x), ElementsAre(0, -1, -3));
  EXPECT_THAT(reals(8 / x), ElementsAre(8, 4, 2));
  EXPECT_THAT(reals(pow(x, 2)), ElementsAre(1, 4, 16));
  EXPECT_THAT(reals(pow(2.0, x)), ElementsAre(2, 4, 16));
  EXPECT_THAT(reals(minimum(x, 3)), ElementsAre(1, 2, 3));
  EXPECT_THAT(reals(maximum(1.5, x)), ElementsAre(1.5, 2, 4));
  EXPECT_THAT((i32({1, 2}, {2}) * 3).to_vector<std::int32_t>(), ElementsAre(3, 6));
  EXPECT_EQ((f32({1}, {1}) + 1).dtype(), DType::f32);
}

TEST_F(OpsTest, ComparisonsGiveBool) {
  const Tensor x = f64({1, 2, 3}, {3});
  const Tensor y = f64({2, 2, 2}, {3});
  EXPECT_EQ((x < y).dtype(), DType::boolean);
  EXPECT_THAT(integers(x < y), ElementsAre(1, 0, 0));
  EXPECT_THAT(integers(x <= y), ElementsAre(1, 1, 0));
  EXPECT_THAT(integers(x > y), ElementsAre(0, 0, 1));
  EXPECT_THAT(integers(x >= 2), ElementsAre(0, 1, 1));
  EXPECT_THAT(integers(equal(x, y)), ElementsAre(0, 1, 0));
  EXPECT_THAT(integers(not_equal(x, y)), ElementsAre(1, 0, 1));
}

TEST_F(OpsTest, BinaryOpsNameWhatDoesNotFit) {
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)(counting({2, 3}) + counting({2}));
            }),
            "add: shapes do not broadcast: lhs f64[2, 3], rhs f64[2]");
  EXPECT_EQ(thrown_text<ArgumentError>(
                [&] { (void)(Tensor::from<std::uint8_t>(device(), {1}, {1}) + 300); }),
            "add: the number 300 does not fit u8[1]: cast the tensor first");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)(i64({1}, {1}) + (std::uint64_t{1} << 63U)); }),
            "add: the number 9223372036854775808 does not fit i64[1]: cast the tensor first");
  EXPECT_EQ((f64({1}, {1}) * (std::uint64_t{1} << 63U)).item(), 0x1p63);
  EXPECT_EQ(thrown_text<ArgumentError>([] { (void)add(1, 2); }),
            "add: both operands are numbers: 1 and 2");
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)(booleans({1}, {1}) + booleans({1}, {1})); }),
              HasSubstr("add: does not take bool"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)(Tensor() + f64({1}, {1})); }),
              HasSubstr("empty tensor"));
}

TEST_F(OpsTest, OperandsOnTwoDevicesAreRefused) {
  const Tensor here = f64({1}, {1});
  const Tensor there = here.to(other_device());
  EXPECT_THAT(thrown_text<DeviceMismatch>([&] { (void)(here + there); }), HasSubstr("reference:1"));
}

TEST_F(OpsTest, ErrorsSayWhichLineCalled) {
  try {
    (void)(counting({2}) + counting({3}));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_EQ(error.error().location.line, static_cast<std::uint32_t>(__LINE__ - 3));
    EXPECT_EQ(error.error().op, "add");
  }
}

TEST_F(OpsTest, WhereChoosesAndBroadcasts) {
  const Tensor mask = booleans({1, 0}, {2, 1});
  EXPECT_THAT(reals(where(mask, f64({1, 2}, {2}), f64({9}, {}))), ElementsAre(1, 2, 9, 9));
  EXPECT_THAT(reals(where(mask, f64({1, 2}, {2}), 0.5)), ElementsAre(1, 2, 0.5, 0.5));
  EXPECT_THAT(integers(where(mask, -1, i32({1, 2}, {2}))), ElementsAre(-1, -1, 1, 2));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)where(f64({1}, {1}), f64({1}, {1}), 0); }),
              HasSubstr("the condition is not bool"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)where(mask, 1, 0); }),
              HasSubstr("both choices are numbers"));
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)where(mask, counting({3}), counting({2})); }),
              HasSubstr("shapes do not broadcast"));
}

TEST_F(OpsTest, AMovedOperandIsGivenAway) {
  Tensor a = f64({1, 2}, {2});
  Tensor b = f64({3, 4}, {2});
  const Tensor sum_of_both = std::move(a) + std::move(b);
  EXPECT_FALSE(a.is_valid());  // NOLINT(bugprone-use-after-move): that is the point
  EXPECT_THAT(reals(sum_of_both), ElementsAre(4, 6));
}

}  // namespace
}  // namespace hearth
