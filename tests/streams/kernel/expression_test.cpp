#include <array>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>
#include <hearth/streams/kernel/kernel_interpreter.hpp>
#include <hearth/streams/kernel/kernel_verifier.hpp>
#include <hearth/streams/kernel/pointwise.hpp>

#include "example_expressions.hpp"
#include "example_kernels.hpp"

namespace hearth {
namespace {

using testing::axis;
using testing::scaled_sum;

std::string refusal(KernelIR kernel) {
  const Result<ExpressionRef> made = make_expression("mine", std::move(kernel));
  return made.has_value() ? "" : made.error().text;
}

TEST(Expression, RefusesWhatKnowsItsPlace) {
  constexpr std::string_view kRule =
      "mine: an expression makes each element of its results from those at its place";
  EXPECT_EQ(refusal(testing::scale_bias_relu()), kRule);
  EXPECT_EQ(refusal(testing::root_mean_square()), kRule);
  KernelBuilder placed({0});
  const KernelValue x = placed.input(DType::i64, {axis(0)});
  placed.output(x + placed.position());
  EXPECT_EQ(refusal(placed.take()), kRule);
  KernelBuilder turned({0});
  turned.output(turned.input(DType::f32, {{.start = 3, .terms = {{.axis = 0, .step = -1}}}}));
  EXPECT_EQ(refusal(turned.take()), kRule);
  EXPECT_NE(refusal(KernelIR{}), "");
}

TEST(Expression, RefusesMoreThanTheLimits) {
  KernelBuilder many({0});
  KernelValue sum = many.input(DType::f32, {axis(0)});
  for (int i = 0; i < kMostExpressionInputs; ++i) {
    sum = sum + many.input(DType::f32, {axis(0)});
  }
  many.output(sum);
  EXPECT_EQ(refusal(many.take()), "mine: it has 17 inputs, at most 16 are possible");
}

TEST(Expression, CountsItsArithmetic) {
  EXPECT_EQ(scaled_sum("sum")->flops, 2U);  // a product and a sum; the conversion counts as none
}

TEST(ExpressionTable, GivesEqualOnesOneNumber) {
  ExpressionTable table;
  const ExprId first = table.intern(scaled_sum("sum")).value();
  EXPECT_EQ(table.intern(scaled_sum("sum")).value(), first);
  const ExprId renamed = table.intern(scaled_sum("other")).value();
  EXPECT_NE(renamed, first);
  const ExpressionRef with_gradient =
      make_expression(
          "sum", scaled_sum("sum")->kernel, {{.expression = scaled_sum("slope"), .inputs = {0, 1}}})
          .value();
  EXPECT_NE(table.intern(with_gradient).value(), first);
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table[renamed].name, "other");
  ExpressionTable full(1);
  static_cast<void>(full.intern(scaled_sum("sum")));
  EXPECT_EQ(full.intern(scaled_sum("other")).error().code, ErrorCode::out_of_memory);
}

TEST(Expression, HasTheShapeToWhichItsInputsBroadcast) {
  const ExpressionRef sum = scaled_sum("sum");
  const std::vector<TensorSpec> good{{DType::f32, {2, 1}}, {DType::f32, {3}}};
  EXPECT_EQ(expression_shape(*sum, good).value(), Shape({2, 3}));
  const std::vector<TensorSpec> wide{{DType::f32, {2}}, {DType::f32, {3}}};
  EXPECT_EQ(expression_shape(*sum, wide).error().text,
            "sum: shapes do not broadcast: input 1 is f32[3], those before it make [2]");
  const std::vector<TensorSpec> typed{{DType::f32, {2}}, {DType::f64, {2}}};
  EXPECT_EQ(expression_shape(*sum, typed).error().text, "sum: input 1 is f64[2], not f32");
  const std::vector<TensorSpec> few{{DType::f32, {2}}};
  EXPECT_EQ(expression_shape(*sum, few).error().text, "sum: takes 2 inputs, was given 1");
}

// A column and a row, one of them longer by an axis: the maps of numpy broadcasting.
TEST(Pointwise, SpreadsOverShapesThatBroadcast) {
  const ExpressionRef sum = scaled_sum("sum");
  ASSERT_TRUE(is_pointwise(sum->kernel));
  const std::array shapes{Shape{2, 1}, Shape{3}};
  const Shape out{2, 3};
  const KernelIR kernel = spread(sum->kernel, shapes, out);
  ASSERT_TRUE(verify(kernel).has_value());
  EXPECT_FALSE(is_pointwise(kernel));
  std::array<float, 2> column{1, 2};
  std::array<float, 3> row{10, 20, 30};
  std::array<float, 6> result{};
  const std::array inputs{
      KernelTensor{std::as_writable_bytes(std::span(column)).data(), detail::Layout(shapes[0])},
      KernelTensor{std::as_writable_bytes(std::span(row)).data(), detail::Layout(shapes[1])}};
  const std::array outputs{
      KernelTensor{std::as_writable_bytes(std::span(result)).data(), detail::Layout(out)}};
  const std::array parameters{ScalarAttributes{.real = 0.5}};
  interpret(kernel, {out.dims(), inputs, outputs, parameters}).value();
  EXPECT_EQ(result, (std::array<float, 6>{10.5F, 20.5F, 30.5F, 11, 21, 31}));
}

}  // namespace
}  // namespace hearth
