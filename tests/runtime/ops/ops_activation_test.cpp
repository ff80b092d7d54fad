// silu, gelu, log1p and expm1 at points, in all float types, and near 0.
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

using ::testing::HasSubstr;
using testing::thrown_text;
using ActivationTest = testing::ReferenceTest;

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

double gelu_by_erf(double x) {
  return 0.5 * x * std::erfc(-x / std::sqrt(2));
}
double gelu_by_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}
double exact_silu(double x) {
  return x / (1 + std::exp(-x));
}

struct Function {
  const char* name;
  Tensor (*op)(Arg);
  double (*exact)(double);
};
const Function kFunctions[] = {
    {"silu", silu, exact_silu},
    {"gelu", [](Arg x) { return gelu(x); }, gelu_by_erf},
    {"gelu by tanh", [](Arg x) { return gelu(x, GeluForm::tanh); }, gelu_by_tanh},
    {"log1p", log1p, [](double x) { return std::log1p(x); }},
    {"expm1", expm1, [](double x) { return std::expm1(x); }}};

TEST_F(ActivationTest, GivesTheExactValueInEveryFloatType) {
  const std::vector<double> points{-0.9, -0.5, -1e-3, 0, 1e-3, 0.25, 1, 2.75, 5};
  for (const Function& function : kFunctions) {
    for (const DType dtype : kFloats) {
      const Tensor x = cast(f64(points, {9}), dtype);
      const Tensor y = function.op(x);
      EXPECT_EQ(y.dtype(), dtype);
      const std::vector<double> rounded = reals(x);
      const std::vector<double> got = reals(y);
      const auto limit = testing::tolerance(testing::Precision::function, dtype);
      for (std::size_t i = 0; i < points.size(); ++i) {
        EXPECT_TRUE(limit.accepts(got[i], function.exact(rounded[i])))
            << function.name << " in " << name(dtype) << " of " << rounded[i] << ": " << got[i]
            << " instead of " << function.exact(rounded[i]);
      }
    }
  }
}

TEST_F(ActivationTest, GatesCloseFarBelowZeroAndKeepNan) {
  for (const Function& function : {kFunctions[0], kFunctions[1], kFunctions[2]}) {
    const std::vector<double> y = reals(function.op(f32({-200, 200, NAN}, {3})));
    EXPECT_EQ(y[0], 0) << function.name;
    EXPECT_EQ(y[1], 200) << function.name;
    EXPECT_TRUE(std::isnan(y[2])) << function.name;
  }
}

TEST_F(ActivationTest, RefusesIntegersAndNumbersByItsName) {
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)silu(i32({1}, {1})); }),
            "silu: does not take i32, only f32, f64, f16, bf16: i32[1]");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)gelu(i32({1}, {1})); }),
            "gelu: does not take i32, only f32, f64, f16, bf16: i32[1]");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)expm1(i32({1}, {1})); }),
            "expm1: does not take i32, only f32, f64, f16, bf16: i32[1]");
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)silu(1.0); }), HasSubstr("silu: an operand"));
}

TEST_F(ActivationTest, GradientsMatchDifferences) {
  testing::HostRandom random(31);
  for (const Function& function : kFunctions) {
    SCOPED_TRACE(function.name);
    testing::check_gradients(device(),
                             [&](const std::vector<Tensor>& in) { return function.op(in[0]); },
                             {random.uniform({3, 5}, -0.8, 2)});
  }
}

// In f16 the chain rounds once in each direction.
TEST_F(ActivationTest, GradientsOfNarrowTypesAreRoundedOnce) {
  const Tensor x = cast(f64({-0.7, 0.1, 1.3}, {3}), DType::f16);
  const std::vector<double> rounded = reals(x);
  const Tensor slope = grad([](const std::vector<Tensor>& in) { return sum(silu(in[0])); }, {x})[0];
  EXPECT_EQ(slope.dtype(), DType::f16);
  const auto limit = testing::tolerance(testing::Precision::function, DType::f16);
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    const double gate = 1 / (1 + std::exp(-rounded[i]));
    EXPECT_TRUE(limit.accepts(reals(slope)[i], gate * (1 + rounded[i] * (1 - gate)))) << i;
  }
}

TEST_F(ActivationTest, LeakyReluKeepsASlopeBelowZero) {
  const Tensor x = f64({-2, 0, 3}, {3});
  EXPECT_THAT(reals(leaky_relu(x, 0.5)), ::testing::ElementsAre(-1, 0, 3));
  EXPECT_THAT(reals(leaky_relu(x)), ::testing::ElementsAre(-0.02, 0, 3));
  testing::check_gradients(device(),
                           [](const std::vector<Tensor>& in) { return leaky_relu(in[0], 0.2); },
                           {testing::HostRandom(9).signed_values({2, 3})});
  EXPECT_THROW((void)leaky_relu(cast(x, DType::i32)), DtypeError);
}

}  // namespace
}  // namespace hearth
