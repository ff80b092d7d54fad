// Every row of the VJP table against central differences, and the values at the points where a
// derivative is a convention.
#include "runtime/tape/vjp_table.hpp"

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::HostRandom;
using testing::HostTensor;
using VjpTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

TEST(VjpTable, HasARowForEveryDifferentiableKindAndNoOther) {
  for (const OpInfo& info : op_table()) {
    // Moving a tensor to another device counts as an upload and has a gradient; other uploads have
    // no inputs.
    const bool wanted = info.differentiable || info.kind == OpKind::upload;
    EXPECT_EQ(vjp_row(info.kind).emit != nullptr, wanted) << info.name;
  }
}

// ---- element by element ----

TEST_F(VjpTest, UnaryOpsMatchDifferences) {
  struct Case {
    const char* name;
    Tensor (*op)(Arg);
    bool is_positive;
  };
  const Case cases[] = {{"neg", neg, false},
                        {"abs", abs, false},
                        {"exp", exp, false},
                        {"log", log, true},
                        {"sqrt", sqrt, true},
                        {"rsqrt", rsqrt, true},
                        {"square", square, false},
                        {"sin", sin, false},
                        {"cos", cos, false},
                        {"tanh", tanh, false},
                        {"erf", erf, false},
                        {"sigmoid", sigmoid, false},
                        {"recip", recip, false},
                        {"log1p", log1p, true},
                        {"expm1", expm1, false},
                        {"relu", relu, false},
                        {"contiguous", contiguous, false}};
  HostRandom random(1);
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    const HostTensor x =
        test.is_positive ? random.uniform({3, 5}, 0.3, 2) : random.signed_values({3, 5});
    check_gradients(device(), [&](const Tensors& in) { return test.op(in[0]); }, {x});
  }
}

TEST_F(VjpTest, UnaryOpsOfStridedInputsMatchDifferences) {
  HostRandom random(2);
  const auto fn = [](const Tensors& in) {
    const Tensor view = slice(transpose(in[0]), 0, {.start = -1, .stop = 0, .step = -2});
    return tanh(view) * sigmoid(view);
  };
  check_gradients(device(), fn, {random.signed_values({3, 7})});
}

TEST_F(VjpTest, AbsAndReluHaveNoSlopeAtZero) {
  const Tensor x = f64({-1, 0, 2}, {3});
  EXPECT_THAT(reals(grad([](const Tensors& in) { return sum(abs(in[0])); }, {x})[0]),
              ElementsAre(-1, 0, 1));
  EXPECT_THAT(reals(grad([](const Tensors& in) { return sum(relu(in[0])); }, {x})[0]),
              ElementsAre(0, 0, 1));
}

TEST_F(VjpTest, DropoutPassesTheGradientOfWhatItKept) {
  HostRandom random(3);
  const auto fn = [](const Tensors& in) {
    Generator generator(17);
    return dropout(in[0], 0.4, generator);
  };
  check_gradients(device(), fn, {random.signed_values({5, 7})});
}

TEST_F(VjpTest, CastReturnsTheGradientInTheTypeOfItsOperand) {
  const Tensor x = f64({1, 2}, {2});
  const Tensor gradient =
      grad([](const Tensors& in) { return sum(square(cast(in[0], DType::f32))); }, {x})[0];
  EXPECT_EQ(gradient.dtype(), DType::f64);
  EXPECT_THAT(reals(gradient), ElementsAre(2, 4));
}

TEST_F(VjpTest, ACastToIntegersPassesNothing) {
  const Tensor x = f64({1.5, 2.5}, {2});
  const auto fn = [](const Tensors& in) {
    const Tensor whole = cast(in[0], DType::i32);
    EXPECT_FALSE(whole.is_tracked());
    return sum(in[0] * cast(whole, DType::f64));
  };
  EXPECT_THAT(reals(grad(fn, {x})[0]), ElementsAre(1, 2));
}

// ---- two and three operands ----

TEST_F(VjpTest, BinaryOpsMatchDifferencesForEveryBroadcast) {
  struct Case {
    const char* name;
    Tensor (*op)(Arg, Arg);
  };
  struct Shapes {
    Shape a;
    Shape b;
  };
  const Case cases[] = {{"add", add},
                        {"sub", sub},
                        {"mul", mul},
                        {"div", div},
                        {"pow", pow},
                        {"minimum", minimum},
                        {"maximum", maximum}};
  const Shapes shapes[] = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{1, 3}, {2, 1}}, {{}, {2, 2}}, {{2, 1, 2}, {1, 3, 1}}};
  HostRandom random(4);
  for (const Case& test : cases) {
    for (const Shapes& pair : shapes) {
      SCOPED_TRACE(std::string(test.name) + " " + pair.a.to_string() + pair.b.to_string());
      check_gradients(device(),
                      [&](const Tensors& in) { return test.op(in[0], in[1]); },
                      {random.uniform(pair.a, 0.4, 1), random.uniform(pair.b, 1.1, 1.9)});
    }
  }
}

TEST_F(VjpTest, BinaryOpsWithNumbersMatchDifferences) {
  HostRandom random(5);
  const HostTensor x = random.uniform({2, 3}, 0.4, 1.9);
  Tensor (*const ops[])(Arg, Arg) = {add, sub, mul, div, pow, minimum, maximum};
  for (const auto op : ops) {
    SCOPED_TRACE(&op - ops);
    for (const double number : {0.7, 2.0, 3.0}) {
      check_gradients(device(), [&](const Tensors& in) { return op(in[0], number); }, {x});
      check_gradients(device(), [&](const Tensors& in) { return op(number, in[0]); }, {x});
    }
  }
}

TEST_F(VjpTest, BinaryOpsOfOneTensorWithItselfMatchDifferences) {
  HostRandom random(6);
  const auto fn = [](const Tensors& in) { return in[0] * in[0] + in[0] / transpose(in[0]); };
  check_gradients(device(), fn, {random.uniform({3, 3}, 0.5, 2)});
}

TEST_F(VjpTest, PowersOfZeroHaveFiniteGradients) {
  const Tensor zero = f64({0}, {1});
  const auto of_base = [&](double exponent) {
    return reals(grad([&](const Tensors& in) { return sum(pow(in[0], exponent)); }, {zero})[0])[0];
  };
  EXPECT_EQ(of_base(0), 0);
  EXPECT_EQ(of_base(1), 1);
  EXPECT_EQ(of_base(2), 0);
  EXPECT_EQ(of_base(3), 0);
  const std::vector<Tensor> both = grad([](const Tensors& in) { return sum(pow(in[0], in[1])); },
                                        {f64({0, 0}, {2}), f64({0, 2}, {2})});
  EXPECT_THAT(reals(both[0]), ElementsAre(0, 0));
  EXPECT_THAT(reals(both[1]), ElementsAre(0, 0));
}

TEST_F(VjpTest, TiesOfMinimumAndMaximumShareInHalves) {
  const Tensors inputs{f64({1, 2, 3}, {3}), f64({1, 3, 2}, {3})};
  const Tensors of_max = grad([](const Tensors& in) { return sum(maximum(in[0], in[1])); }, inputs);
  EXPECT_THAT(reals(of_max[0]), ElementsAre(0.5, 0, 1));
  EXPECT_THAT(reals(of_max[1]), ElementsAre(0.5, 1, 0));
  const Tensors of_min = grad([](const Tensors& in) { return sum(minimum(in[0], 2)); }, inputs);
  EXPECT_THAT(reals(of_min[0]), ElementsAre(1, 0.5, 0));
}

TEST_F(VjpTest, WhereMatchesDifferences) {
  HostRandom random(7);
  const Tensor mask = booleans({1, 0, 0, 1, 1, 0}, {2, 3});
  const HostTensor a = random.signed_values({2, 1});
  const HostTensor b = random.signed_values({3});
  check_gradients(device(), [&](const Tensors& in) { return where(mask, in[0], in[1]); }, {a, b});
  check_gradients(device(), [&](const Tensors& in) { return where(mask, in[0], 2); }, {a});
  check_gradients(device(), [&](const Tensors& in) { return where(mask, 0.5, in[0]); }, {b});
  check_gradients(
      device(), [&](const Tensors& in) { return where(in[0] > 0, in[0], square(in[0])); }, {b});
}

// ---- views and movement ----

TEST_F(VjpTest, ViewsMatchDifferences) {
  HostRandom random(8);
  using Fn = Tensor (*)(const Tensors&);
  const Fn views[] = {
      [](const Tensors& in) {
        return reshape(in[0], {5, -1});
      },
      [](const Tensors& in) { return flatten(in[0], 1); },
      [](const Tensors& in) {
        return permute(in[0], {2, 0, 1});
      },
      [](const Tensors& in) { return transpose(in[0], 0, 1); },
      [](const Tensors& in) { return slice(in[0], 2, {.start = 1, .stop = 5, .step = 2}); },
      [](const Tensors& in) { return slice(in[0], 1, {.step = -1}); },
      [](const Tensors& in) { return slice(slice(in[0], 2, {.start = -3}), 0, {.start = 1}); },
      [](const Tensors& in) {
        return expand(slice(in[0], 1, {.stop = 1}), {2, 2, 3, 5});
      },
      [](const Tensors& in) { return squeeze(unsqueeze(in[0], -1), 3); },
  };
  const HostTensor x = random.signed_values({2, 3, 5});
  for (const Fn& fn : views) {
    SCOPED_TRACE(&fn - views);
    check_gradients(device(), [&](const Tensors& in) { return square(fn(in)); }, {x});
  }
}

Tensor columns(const Tensor& x, std::int64_t first, std::int64_t last, int axis = 2) {
  return slice(x, axis, {.start = first, .stop = last});
}

TEST_F(VjpTest, SlicesOfOneTensorMatchDifferences) {
  HostRandom random(9);
  using Fn = Tensor (*)(const Tensors&);
  const Fn functions[] = {
      [](const Tensors& in) {  // all of it
        const Tensor& x = in[0];
        return concat({exp(columns(x, 3, 5)), square(columns(x, 0, 2)), columns(x, 2, 3) * 3}, 2);
      },
      [](const Tensors& in) {  // of a permuted tensor
        const Tensor x = permute(in[0], {2, 0, 1});
        return concat({exp(columns(x, 2, 5, 0)), square(columns(x, 0, 2, 0))}, 0);
      },
      [](const Tensors& in) {  // one of them twice, and the whole
        const Tensor& x = in[0];
        return exp(x) *
               concat({square(columns(x, 0, 2)) * exp(columns(x, 0, 2)), tanh(columns(x, 2, 5))},
                      2);
      },
      [](const Tensors& in) {  // with a gap, overlapping, along two axes
        const Tensor& x = in[0];
        return concat({exp(columns(x, 0, 2)),
                       square(columns(x, 1, 3)),
                       tanh(columns(concat({columns(x, 0, 1, 1), columns(x, 1, 3, 1)}, 1), 4, 5))},
                      2);
      },
      [](const Tensors& in) {  // with gaps: before, between and after them
        const Tensor& x = in[0];
        return concat({exp(columns(x, 3, 4)), square(columns(x, 1, 2))}, 2);
      },
      [](const Tensors& in) {  // with a gap, of a permuted tensor
        const Tensor x = permute(in[0], {2, 0, 1});
        return concat({exp(columns(x, 3, 5, 0)), square(columns(x, 0, 2, 0))}, 0);
      },
      [](const Tensors& in) {  // in sum as long as the whole, but overlapping
        const Tensor& x = in[0];
        return concat({exp(columns(x, 0, 3)), square(columns(x, 2, 4))}, 2);
      },
      [](const Tensors& in) {  // some without elements
        const Tensor& x = in[0];
        return concat({exp(columns(x, 0, 3)),
                       columns(x, 1, 1),
                       square(columns(x, 3, 5)),
                       columns(in[0], 2, 2)},
                      2);
      },
  };
  for (const Fn& fn : functions) {
    SCOPED_TRACE(&fn - functions);
    check_gradients(device(), fn, {random.signed_values({2, 3, 5})});
  }
}

// One kernel assembles them; otherwise each would be scattered into zeros and added.
TEST_F(VjpTest, SlicesThatDoNotOverlapCostFewerKernels) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {1, 6});
  const auto kernels_with = [&](std::int64_t first, std::int64_t last) {
    const std::uint64_t before = device().statistics().kernels;
    const std::vector<Tensor> slopes = grad(
        [&](const Tensors& in) {
          return sum(exp(columns(in[0], 0, 2, 1))) + sum(square(columns(in[0], 2, 4, 1))) +
                 sum(tanh(columns(in[0], first, last, 1)));
        },
        {x});
    device().sync();
    return device().statistics().kernels - before;
  };
  const std::uint64_t overlapping = kernels_with(3, 6);
  EXPECT_LE(kernels_with(4, 6) + 4, overlapping);
  EXPECT_LE(kernels_with(5, 6) + 3, overlapping);  // zeros for the gap
}

// One by one, in another order; in the second pass one row has no part.
TEST_F(VjpTest, RowsThatAreSlicedOneByOneComeBackTogether) {
  constexpr std::int64_t kRows = 101;
  for (const std::int64_t left_out : {std::int64_t{-1}, std::int64_t{40}}) {
    const Tensor x = ones(device(), {kRows, 2});
    const std::uint64_t before = device().statistics().kernels;
    const Tensor slope = grad(
        [&](const Tensors& in) {
          std::vector<Tensor> rows;
          for (std::int64_t i = 0; i < kRows; ++i) {
            const std::int64_t row = i * 37 % kRows;
            if (row != left_out) {
              rows.push_back(columns(in[0], row, row + 1, 0) * static_cast<double>(row + 1));
            }
          }
          return sum(concat(rows, 0));
        },
        {x})[0];
    const std::vector<double> values = cast(slope, DType::f64).to_vector<double>();
    for (std::int64_t row = 0; row < kRows; ++row) {
      const double expected = row == left_out ? 0 : static_cast<double>(row + 1);
      EXPECT_EQ(values[static_cast<std::size_t>(2 * row)], expected) << row;
      EXPECT_EQ(values[static_cast<std::size_t>(2 * row + 1)], expected) << row;
    }
    // A product forwards and one backwards for each row, its slices, and a few more.
    EXPECT_LT(device().statistics().kernels - before, 4U * kRows);
  }
}

TEST_F(VjpTest, ConcatMatchesDifferences) {
  HostRandom random(9);
  const auto fn = [](const Tensors& in) {
    return square(concat(std::vector{in[0], in[1], in[0], in[2]}, 1));
  };
  check_gradients(
      device(),
      fn,
      {random.signed_values({2, 1}), random.signed_values({2, 3}), random.signed_values({2, 2})});
}

TEST_F(VjpTest, ConcatWithConstantsGivesOnlyTheTrackedOnes) {
  const Tensor constant = counting({2, 2});
  const auto fn = [&](const Tensors& in) {
    return sum(square(concat(std::vector{constant, in[0]}, 0)));
  };
  EXPECT_THAT(reals(grad(fn, {f64({3, 4}, {1, 2})})[0]), ElementsAre(6, 8));
}

TEST_F(VjpTest, MovingToAnotherDeviceBringsTheGradientBack) {
  const Tensor x = f64({1, 2}, {2});
  const auto fn = [&](const Tensors& in) {
    const Tensor there = square(in[0].to(other_device()));
    return sum(there.to(device()) * in[0]);
  };
  const Tensor gradient = grad(fn, {x})[0];
  EXPECT_EQ(gradient.device(), device());
  EXPECT_THAT(reals(gradient), ElementsAre(3, 12));
}

// ---- reductions ----

TEST_F(VjpTest, ReductionsMatchDifferencesOverAnyAxes) {
  HostRandom random(10);
  Tensor (*const ops[])(Arg, Axes, ReduceOptions) = {sum, mean, max};
  const std::vector<int> axis_lists[] = {{}, {0}, {-1}, {0, 2}, {1, 0, 2}};
  for (const auto op : ops) {
    for (const std::vector<int>& axes : axis_lists) {
      for (const bool keep_dims : {false, true}) {
        SCOPED_TRACE(::testing::PrintToString(axes) + (keep_dims ? " kept" : ""));
        check_gradients(
            device(),
            [&](const Tensors& in) { return square(op(in[0], axes, {.keep_dims = keep_dims})); },
            {random.distinct({2, 3, 2})});
      }
    }
  }
}

TEST_F(VjpTest, TiesOfAMaximumShareEqually) {
  const Tensor x = f64({1, 4, 4, 2, 2, 2}, {2, 3});
  EXPECT_THAT(reals(grad([](const Tensors& in) { return sum(max(in[0], {1}) * 6); }, {x})[0]),
              ElementsAre(0, 3, 3, 2, 2, 2));
}

TEST_F(VjpTest, ReductionsOfNothingGiveGradientsOfNothing) {
  const Tensor x = zeros(device(), {0, 3}, DType::f64);
  EXPECT_EQ(grad([](const Tensors& in) { return sum(in[0]); }, {x})[0].shape(), (Shape{0, 3}));
  EXPECT_EQ(grad([](const Tensors& in) { return sum(mean(in[0], {0})); }, {x})[0].shape(),
            (Shape{0, 3}));
}

// ---- contractions ----

TEST_F(VjpTest, MatmulMatchesDifferencesForEveryBatch) {
  struct Shapes {
    Shape a;
    Shape b;
  };
  const Shapes shapes[] = {{{2, 3}, {3, 5}},
                           {{1, 3}, {3, 1}},
                           {{2, 2, 3}, {3, 2}},
                           {{2, 3}, {2, 3, 2}},
                           {{2, 1, 2, 3}, {3, 3, 2}},
                           {{3}, {3}},
                           {{3}, {3, 2}},
                           {{2, 3}, {3}},
                           {{3}, {2, 3, 2}},
                           {{2, 2, 3}, {3}}};
  HostRandom random(11);
  for (const Shapes& pair : shapes) {
    SCOPED_TRACE(pair.a.to_string() + pair.b.to_string());
    check_gradients(device(),
                    [](const Tensors& in) { return square(matmul(in[0], in[1])); },
                    {random.signed_values(pair.a), random.signed_values(pair.b)});
  }
}

TEST_F(VjpTest, MatmulWithBiasMatchesDifferences) {
  HostRandom random(12);
  const auto fn = [](const Tensors& in) { return square(matmul(in[0], in[1], in[2])); };
  const HostTensor w = random.signed_values({3, 2});
  const HostTensor bias = random.signed_values({2});
  check_gradients(device(), fn, {random.signed_values({5, 3}), w, bias});
  check_gradients(device(), fn, {random.signed_values({2, 2, 3}), w, bias});
}

TEST_F(VjpTest, MatmulOfStridedOperandsMatchesDifferences) {
  HostRandom random(13);
  const auto fn = [](const Tensors& in) {
    return matmul(transpose(in[0]), slice(in[1], 1, {.start = -1, .stop = 0, .step = -2}));
  };
  check_gradients(device(), fn, {random.signed_values({3, 2}), random.signed_values({3, 5})});
}

TEST_F(VjpTest, MatmulOfEmptyMatricesGivesZeros) {
  const Tensors gradients =
      grad([](const Tensors& in) { return sum(matmul(in[0], in[1])); },
           {zeros(device(), {2, 2, 0}, DType::f64), zeros(device(), {0, 3}, DType::f64)});
  EXPECT_EQ(gradients[0].shape(), (Shape{2, 2, 0}));
  EXPECT_EQ(gradients[1].shape(), (Shape{0, 3}));
  const Tensor right = grad(
      [&](const Tensors& in) {
        return sum(matmul(zeros(device(), {2, 0, 3}, DType::f64), in[0]));
      },
      {ones(device(), {3, 2}, DType::f64)})[0];
  EXPECT_THAT(reals(right), Each(0));
}

TEST_F(VjpTest, Conv2dMatchesDifferences) {
  HostRandom random(14);
  const HostTensor x = random.signed_values({2, 4, 5, 4});
  const HostTensor w = random.signed_values({2, 2, 3, 2});
  const Conv2dOptions options{.stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 2}, .groups = 2};
  check_gradients(device(),
                  [&](const Tensors& in) { return square(conv2d(in[0], in[1], in[2], options)); },
                  {x, w, random.signed_values({2})});
  const Tensor fixed = x.on(device());
  check_gradients(device(), [&](const Tensors& in) { return conv2d(fixed, in[0], options); }, {w});
}

TEST_F(VjpTest, PoolsMatchDifferences) {
  HostRandom random(15);
  const HostTensor x = random.distinct({1, 2, 5, 4});
  const Pool2dOptions options{.kernel = {3, 2}, .stride = {{2, 1}}, .padding = {1, 0}};
  Pool2dOptions without_pad = options;
  without_pad.count_include_pad = false;
  check_gradients(device(), [&](const Tensors& in) { return max_pool2d(in[0], options); }, {x});
  check_gradients(device(), [&](const Tensors& in) { return avg_pool2d(in[0], options); }, {x});
  check_gradients(device(), [&](const Tensors& in) { return avg_pool2d(in[0], without_pad); }, {x});
}

// ---- rows ----

TEST_F(VjpTest, SoftmaxAndItsLogarithmMatchDifferences) {
  HostRandom random(16);
  const HostTensor x = random.signed_values({2, 3, 5});
  for (const int axis : {0, 1, -1}) {
    SCOPED_TRACE(axis);
    check_gradients(device(), [&](const Tensors& in) { return softmax(in[0], axis); }, {x});
    check_gradients(device(), [&](const Tensors& in) { return log_softmax(in[0], axis); }, {x});
  }
}

// ---- by index ----

TEST_F(VjpTest, OpsByIndexMatchDifferences) {
  HostRandom random(18);
  const HostTensor x = random.signed_values({3, 5});
  const HostTensor source = random.signed_values({2, 4});
  const Tensor places = i32({2, 0, 2, 1, 1, 1, 0, 2}, {2, 4});
  const Tensor columns = i64({4, 0, 4, 2, 1, 3, 3, 3}, {2, 4});
  const Tensor line = i64({2, 0, 2, 2}, {4});
  check_gradients(device(), [&](const Tensors& in) { return gather(in[0], 0, places); }, {x});
  check_gradients(
      device(), [&](const Tensors& in) { return square(gather(in[0], -1, columns)); }, {x});
  check_gradients(
      device(), [&](const Tensors& in) { return square(index_select(in[0], 0, line)); }, {x});
  check_gradients(
      device(), [&](const Tensors& in) { return index_select(transpose(in[0]), 1, line); }, {x});
  check_gradients(device(), [&](const Tensors& in) { return embedding(in[0], places); }, {x});
  check_gradients(device(),
                  [&](const Tensors& in) { return square(scatter_add(in[0], 1, columns, in[1])); },
                  {x, source});
  check_gradients(device(),
                  [&](const Tensors& in) { return square(index_add(in[0], 0, line, in[1])); },
                  {x, random.signed_values({4, 5})});
}

TEST_F(VjpTest, CrossEntropyMatchesDifferences) {
  HostRandom random(17);
  const Tensor targets = i32({2, 0, 4}, {3});
  const HostTensor x = random.signed_values({3, 5});
  check_gradients(device(), [&](const Tensors& in) { return cross_entropy(in[0], targets); }, {x});
  check_gradients(
      device(), [&](const Tensors& in) { return cross_entropy_per_row(in[0], targets); }, {x});
}

}  // namespace
}  // namespace hearth
