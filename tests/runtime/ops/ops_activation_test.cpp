// Activations, log1p and expm1 at points, in all float types, near 0 and far from it.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/explanation.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"
#include "tests/support/tolerance.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace hearth {
namespace {

using ::testing::HasSubstr;
using testing::thrown_text;
using ActivationTest = testing::ReferenceTest;

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

constexpr double kInf = std::numeric_limits<double>::infinity();

double gelu_by_erf(double x) {
  return 0.5 * x * std::erfc(-x / std::sqrt(2));
}
double gelu_by_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}
double exact_silu(double x) {
  return x / (1 + std::exp(-x));
}
double exact_elu(double x, double alpha = 1) {
  return x > 0 ? x : alpha * std::expm1(x);
}
double exact_softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}
double exact_hardsigmoid(double x) {
  return std::clamp(x + 3, 0.0, 6.0) / 6;
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
    {"mish", mish, [](double x) { return x * std::tanh(exact_softplus(x)); }},
    {"elu", [](Arg x) { return elu(x); }, [](double x) { return exact_elu(x); }},
    {"elu of 0.3", [](Arg x) { return elu(x, 0.3); }, [](double x) { return exact_elu(x, 0.3); }},
    {"selu", selu, [](double x) { return 1.0507009873554805 * exact_elu(x, 1.6732632423543772); }},
    {"celu of 0.4",
     [](Arg x) { return celu(x, 0.4); },
     [](double x) { return x > 0 ? x : 0.4 * std::expm1(x / 0.4); }},
    {"softplus", [](Arg x) { return softplus(x); }, exact_softplus},
    {"softplus of 3",
     [](Arg x) { return softplus(x, {.beta = 3, .threshold = 60}); },
     [](double x) { return exact_softplus(3 * x) / 3; }},
    {"softplus of -1",
     [](Arg x) { return softplus(x, {.beta = -1}); },
     [](double x) { return -exact_softplus(-x); }},
    {"hardsigmoid", hardsigmoid, exact_hardsigmoid},
    {"hardswish", hardswish, [](double x) { return x * exact_hardsigmoid(x); }},
    {"softsign", softsign, [](double x) { return x / (1 + std::fabs(x)); }},
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
  for (const Function& function : {kFunctions[0], kFunctions[1], kFunctions[2], kFunctions[3]}) {
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

// No exponential overflows, neither in the value nor in the gradient.
TEST_F(ActivationTest, AreFiniteFarFromZeroWithTheirGradients) {
  struct Limit {
    const char* name;
    Tensor (*op)(Arg);
    double below;  // the value at -1e4, and the slope there and at 1e4
    double slope_below;
    double slope_above;
  };
  constexpr double kScale = 1.0507009873554805;
  const std::vector<Limit> limits{
      {"elu", [](Arg x) { return elu(x); }, -1, 0, 1},
      {"selu", selu, -kScale * 1.6732632423543772, 0, kScale},
      {"celu", [](Arg x) { return celu(x, 0.5); }, -0.5, 0, 1},
      {"softplus", [](Arg x) { return softplus(x); }, 0, 0, 1},
      {"softplus without a threshold",
       [](Arg x) { return softplus(x, {.threshold = kInf}); },
       0,
       0,
       1},
      {"mish", mish, 0, 0, 1},
      {"hardsigmoid", hardsigmoid, 0, 0, 0},
      {"hardswish", hardswish, 0, 0, 1},
  };
  for (const Limit& limit : limits) {
    SCOPED_TRACE(limit.name);
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const Tensor x = cast(f64({-1e4, 1e4}, {2}), dtype);
      const auto near = testing::tolerance(testing::Precision::function, dtype);
      EXPECT_TRUE(near.accepts(reals(limit.op(x))[0], limit.below)) << name(dtype);
      const auto total = [&](const std::vector<Tensor>& in) { return sum(limit.op(in[0])); };
      const std::vector<double> slope = reals(grad(total, {x})[0]);
      EXPECT_TRUE(near.accepts(slope[0], limit.slope_below)) << name(dtype) << " " << slope[0];
      EXPECT_TRUE(near.accepts(slope[1], limit.slope_above)) << name(dtype) << " " << slope[1];
    }
  }
}

TEST_F(ActivationTest, SlopesAtZeroAreThoseFromBelow) {
  const Tensor zero = f64({0}, {1});
  const auto slope = [&](Tensor (*op)(Arg)) {
    return grad([&](const std::vector<Tensor>& in) { return sum(op(in[0])); }, {zero})[0]
        .item<double>();
  };
  EXPECT_EQ(slope([](Arg x) { return elu(x, 0.25); }), 0.25);
  EXPECT_EQ(slope([](Arg x) { return celu(x, 2); }), 1);
  EXPECT_EQ(slope([](Arg x) { return softplus(x); }), 0.5);
  EXPECT_EQ(slope(softsign), 1);
  EXPECT_EQ(slope(hardswish), 0.5);
}

TEST_F(ActivationTest, SoftplusIsStraightAboveItsThreshold) {
  const Tensor x = f64({1, 2, 3}, {3});
  EXPECT_THAT(reals(softplus(x, {.threshold = 2})),
              ::testing::ElementsAre(::testing::DoubleNear(std::log1p(std::exp(1)), 1e-12),
                                     ::testing::DoubleNear(std::log1p(std::exp(2)), 1e-12),
                                     3));
  EXPECT_THAT(reals(softplus(x, {.beta = 2, .threshold = 3}))[1], 2);
}

TEST_F(ActivationTest, RefuseOptionsOutsideTheirRange) {
  const Tensor x = f64({1}, {1});
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)softplus(x, {.beta = 0}); }),
            "softplus: beta is 0");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)softplus(x, {.threshold = NAN}); }),
            "softplus: threshold is nan");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)celu(x, 0); }), "celu: alpha is 0");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)elu(x, kInf); }), "elu: alpha is inf");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)mish(i32({1}, {1})); }),
            "mish: does not take i32, only f32, f64, f16, bf16: i32[1]");
}

// A chain of one operand reads and writes memory once.
TEST(ActivationKernels, AreOneKernelEach) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device();
  const Tensor x = ones(device, {64});
  const std::vector<std::pair<const char*, Tensor (*)(Arg)>> functions{
      {"elu", [](Arg a) { return elu(a, 0.5); }},
      {"selu", selu},
      {"celu", [](Arg a) { return celu(a, 0.5); }},
      {"softplus", [](Arg a) { return softplus(a, {.beta = 2}); }},
      {"mish", mish},
      {"hardsigmoid", hardsigmoid},
      {"hardswish", hardswish},
      {"softsign", softsign},
      {"log2", log2},
      {"tan", tan},
      {"sinh", sinh},
      {"cosh", cosh},
      {"asinh", asinh},
      {"acosh", acosh},
      {"atanh", atanh},
      {"isnan", isnan},
      {"isinf", isinf},
      {"logaddexp", [](Arg a) { return logaddexp(a, 0.5); }},
      {"lerp", [](Arg a) { return lerp(a, 2.0, 0.25); }},
      {"nan_to_num", [](Arg a) { return nan_to_num(a); }},
  };
  for (const auto& [name, function] : functions) {
    Tensor y = function(x);
    device.sync();
    const Explanation once = explain(device, [&, op = function] { y = op(x); });
    EXPECT_EQ(once.kernels.size(), 1U) << name << ": " << once.to_string();
  }
}

}  // namespace
}  // namespace hearth
