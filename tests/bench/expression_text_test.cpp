// Expressions as text: their values by the oracle, and their mistakes.
#include "bench/kernels/expression_text.hpp"

#include "bench/kernels/bench_device.hpp"
#include "bench/kernels/operands.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Compares each element that the oracle computes with a function of its inputs.
void expect_values(const std::string& text, const std::function<double(double, double)>& expected) {
  const Problem problem = parse_problems("expression shape=2x64 dtype=f64 text=" + text).value()[0];
  const auto device = BenchDevice::open("reference:0", 1).value();
  const auto operands = Operands::make(*device, problem, Heat::hot).value();
  ASSERT_TRUE(operands->fill(Data::uniform).has_value());
  ASSERT_TRUE(device->run(operands->call(0), detail::kRulePick).has_value());
  const Operands::Results results = operands->results().value();
  const KernelCall call = operands->host_call();
  for (std::size_t i = 0; i < 128; ++i) {
    double got = 0;
    std::memcpy(&got, results.bytes.data() + i * sizeof got, sizeof got);
    const double x = call.inputs[0].as<double>()[i];
    const double y = call.inputs.size() > 1 ? call.inputs[1].as<double>()[i] : 0;
    ASSERT_NEAR(got, expected(x, y), 1e-12) << text << " of " << x << ", " << y;
  }
}

TEST(ExpressionText, HasTheUsualPrecedence) {
  expect_values("1+2*x-3/4", [](double x, double) { return 1 + 2 * x - 0.75; });
  expect_values("x-y-1", [](double x, double y) { return x - y - 1; });
  expect_values("x/4/2", [](double x, double) { return x / 8; });
  expect_values("-(x+y)*-2", [](double x, double y) { return 2 * (x + y); });
  expect_values("-x*x", [](double x, double) { return -x * x; });
}

TEST(ExpressionText, HasFunctions) {
  expect_values("x*sigmoid(x)", [](double x, double) { return x / (1 + std::exp(-x)); });
  expect_values("max(x,y)+min(x,y)", [](double x, double y) { return x + y; });
  expect_values("gelu(x)",
                [](double x, double) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; });
  expect_values("relu(x)+abs(y)",
                [](double x, double y) { return std::max(x, 0.0) + std::abs(y); });
}

TEST(ExpressionText, InputsAreTheOtherNamesInTheirOrder) {
  EXPECT_THAT(parse_expression("b + a*exp(b)", DType::f32).value().inputs, ElementsAre("b", "a"));
}

TEST(ExpressionText, MistakesHaveTheirPlace) {
  const auto mistake = [](const char* text) {
    return parse_expression(text, DType::f32).error().text;
  };
  EXPECT_THAT(mistake("x*sigmoi(x)"), HasSubstr("no function 'sigmoi'; did you mean 'sigmoid'?"));
  EXPECT_THAT(mistake("x+*2"), HasSubstr("a number, a name or '(' expected at character 3"));
  EXPECT_THAT(mistake("(x+1"), HasSubstr("')' expected at character 5"));
  EXPECT_THAT(mistake("x y"), HasSubstr("expected at character 3"));
  EXPECT_THAT(mistake("max(x)"), HasSubstr("max has 2 arguments, not 1"));
  EXPECT_THAT(mistake("1+2"), HasSubstr("has no input"));
}

}  // namespace
}  // namespace hearth::bench
