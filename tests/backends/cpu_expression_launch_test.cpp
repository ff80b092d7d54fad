// The launch of tile programs: operands that share bytes, many sets at once, views as index maps,
// integer ops without a result, and cached programs.
#include "tests/backends/cpu_levels.hpp"
#include "tests/backends/expression_runner.hpp"
#include "tests/backends/small_call.hpp"
#include "tests/streams/kernel/example_kernels.hpp"

#include <hearth/runtime/base/cores.hpp>
#include <hearth/streams/kernel/kernel_interpreter.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace hearth::cpu {
namespace {

using hearth::testing::axis;
using hearth::testing::SmallTensor;

std::vector<double> waves(std::int64_t count, double step = 0.37) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(std::sin(static_cast<double>(i) * step) + 1e-3 * static_cast<double>(i % 17));
  }
  return values;
}

/// p, m = p - rate * (decay * m + g), decay * m + g; the second input is m.
KernelIR momentum_update() {
  KernelBuilder b({0});
  const KernelValue p = b.input(DType::f32, {axis(0)});
  const KernelValue m = b.input(DType::f32, {axis(0)});
  const KernelValue g = b.input(DType::f32, {axis(0)});
  const KernelValue rate = b.parameter(DType::f32);
  const KernelValue next = b.parameter(DType::f32) * m + g;
  b.output(p - rate * next);
  b.output(next);
  return b.take();
}

Status interpret_flat(const KernelIR& kernel,
                      std::int64_t count,
                      const std::vector<TensorView>& inputs,
                      const std::vector<TensorView>& outputs,
                      const std::vector<ScalarAttributes>& parameters) {
  std::vector<KernelTensor> in;
  std::vector<KernelTensor> out;
  for (const TensorView& view : inputs) {
    in.push_back({view.data, hearth::detail::Layout(Shape{count})});
  }
  for (const TensorView& view : outputs) {
    out.push_back({view.data, hearth::detail::Layout(Shape{count})});
  }
  return interpret(kernel, {std::array{count}, in, out, parameters});
}

// Any output in the bytes of any input, as in optimizer updates.
TEST(Expression, WritesItsResultsOverItsInputs) {
  const KernelIR kernel = momentum_update();
  const std::vector<ScalarAttributes> parameters{{.real = 0.1}, {.real = 0.9}};
  constexpr std::int64_t kCount = 5003;
  for (std::size_t first = 0; first < 3; ++first) {
    for (std::size_t second = 0; second < 3; ++second) {
      if (first == second) {
        continue;
      }
      const auto make = [&] {
        return std::array{SmallTensor(DType::f32, {kCount}, waves(kCount)),
                          SmallTensor(DType::f32, {kCount}, waves(kCount, 0.11)),
                          SmallTensor(DType::f32, {kCount}, waves(kCount, 0.73))};
      };
      const auto mine = make();
      const auto theirs = make();
      const std::vector<TensorView> inputs{mine[0].view(), mine[1].view(), mine[2].view()};
      const std::vector<TensorView> outputs{mine[first].view(), mine[second].view()};
      ExpressionRunner runner;
      runner.run(kernel, {inputs, outputs, parameters}).value();
      interpret_flat(kernel,
                     kCount,
                     {theirs[0].view(), theirs[1].view(), theirs[2].view()},
                     {theirs[first].view(), theirs[second].view()},
                     parameters)
          .value();
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(mine[i].values(), theirs[i].values()) << first << second << " tensor " << i;
      }
    }
  }
}

TEST(Expression, SwapsTwoTensorsInPlace) {
  KernelBuilder b({0});
  const KernelValue x = b.input(DType::f32, {axis(0)});
  const KernelValue y = b.input(DType::f32, {axis(0)});
  b.output(y);
  b.output(x);
  const KernelIR kernel = b.take();
  const SmallTensor first(DType::f32, {3000}, waves(3000));
  const SmallTensor second(DType::f32, {3000}, waves(3000, 0.9));
  const std::vector<double> was_first = first.values();
  const std::vector<double> was_second = second.values();
  const std::vector<TensorView> tensors{first.view(), second.view()};
  ExpressionRunner runner;
  runner.run(kernel, {tensors, tensors, {}}).value();
  EXPECT_EQ(first.values(), was_second);
  EXPECT_EQ(second.values(), was_first);
}

// Sets of all sizes, each with its own parameters, on one core and on several.
TEST(Expression, RunsManySetsInOneLaunch) {
  const KernelIR kernel = momentum_update();
  const std::vector<std::int64_t> sizes{1, 7, 0, 4096, 33, 200'003, 64, 129, 150'000, 2};
  std::vector<int> cores = available_cores();
  for (const std::vector<int>& used : {std::vector<int>{cores[0]}, cores}) {
    std::vector<SmallTensor> tensors;
    std::vector<SmallTensor> wanted;
    std::vector<std::vector<TensorView>> inputs;
    std::vector<std::vector<TensorView>> outputs;
    std::vector<std::vector<ScalarAttributes>> parameters;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Shape shape = i % 2 == 0 ? Shape{sizes[i]} : Shape{1, sizes[i], 1};
      for (const double step : {0.37, 0.11, 0.73}) {
        tensors.emplace_back(DType::f32, shape, waves(sizes[i], step));
        wanted.emplace_back(DType::f32, shape, waves(sizes[i], step));
      }
      parameters.push_back({{.real = 0.01 * static_cast<double>(i + 1)}, {.real = 0.5}});
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const SmallTensor* const mine = &tensors[3 * i];
      const SmallTensor* const theirs = &wanted[3 * i];
      inputs.push_back({mine[0].view(), mine[1].view(), mine[2].view()});
      outputs.push_back({mine[0].view(), mine[1].view()});
      interpret_flat(kernel,
                     sizes[i],
                     {theirs[0].view(), theirs[1].view(), theirs[2].view()},
                     {theirs[0].view(), theirs[1].view()},
                     parameters[i])
          .value();
    }
    std::vector<ExpressionCall> calls;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      calls.push_back({inputs[i], outputs[i], parameters[i]});
    }
    ExpressionRunner runner(machine_isa(), used);
    runner.run(kernel, calls).value();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(tensors[i].values(), wanted[i].values()) << "tensor " << i;
    }
  }
}

// One set broadcasts and one is transposed; the other sets are contiguous.
TEST(Expression, RunsSetsThatDoNotLieFlatInTheSameLaunch) {
  KernelBuilder b({0});
  const KernelValue left = b.input(DType::f32, {axis(0)});
  b.output(left - b.input(DType::f32, {axis(0)}));
  const KernelIR kernel = b.take();
  const SmallTensor a(DType::f32, {40, 60}, waves(2400));
  const SmallTensor row(DType::f32, {60}, waves(60, 0.9));
  const hearth::detail::Layout transposed(Shape{40, 60}, Strides{1, 40});
  std::vector<SmallTensor> results;
  for (int i = 0; i < 3; ++i) {
    results.emplace_back(DType::f32, Shape{40, 60});
  }
  const std::array straight{a.view(), a.view()};
  const std::array broadcast{a.view(), row.view()};
  const std::array turned{a.view(), a.view(transposed, 0)};
  const std::array outputs{results[0].view(), results[1].view(), results[2].view()};
  const std::array calls{ExpressionCall{straight, std::span(outputs).subspan(0, 1), {}},
                         ExpressionCall{broadcast, std::span(outputs).subspan(1, 1), {}},
                         ExpressionCall{turned, std::span(outputs).subspan(2, 1), {}}};
  ExpressionRunner runner;
  runner.run(kernel, calls).value();
  const std::vector<double> x = a.values();
  const std::vector<double> y = row.values();
  for (std::size_t i = 0; i < 2400; ++i) {
    const auto minus = [&](double other) {
      return static_cast<double>(static_cast<float>(x[i]) - static_cast<float>(other));
    };
    ASSERT_EQ(results[0].values()[i], 0.0);
    ASSERT_EQ(results[1].values()[i], minus(y[i % 60]));
    ASSERT_EQ(results[2].values()[i], minus(x[i % 60 * 40 + i / 60]));
  }
}

// ---- kernels with index maps beyond broadcasting ----

void expect_as_interpreted(const KernelIR& kernel,
                           const std::vector<std::int64_t>& extents,
                           const std::vector<TensorView>& inputs,
                           DType type,
                           const std::vector<Shape>& output_shapes,
                           const std::vector<ScalarAttributes>& parameters = {}) {
  std::vector<KernelTensor> in;
  for (const TensorView& view : inputs) {
    in.push_back({view.data, *view.layout});
  }
  std::vector<SmallTensor> got;
  std::vector<SmallTensor> want;
  std::vector<KernelTensor> out;
  std::vector<TensorView> outputs;
  for (const Shape& shape : output_shapes) {
    got.emplace_back(type, shape);
    want.emplace_back(type, shape);
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    outputs.push_back(got[i].view());
    out.push_back({want[i].view().data, hearth::detail::Layout(want[i].shape())});
  }
  interpret(kernel, {extents, in, out, parameters}).value();
  for (const IsaLevel level : levels_here()) {
    ExpressionRunner runner(level);
    runner.run(kernel, {inputs, outputs, parameters}).value();
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].values(), want[i].values()) << name(level) << " output " << i;
    }
  }
}

TEST(Expression, ReadsViewsByTheirIndexMaps) {
  std::vector<double> numbers;
  for (int i = 0; i < 700 * 6; ++i) {
    numbers.push_back(i * 7 % 1013);
  }
  const SmallTensor x(DType::i32, {700, 6}, numbers);
  const SmallTensor y(DType::i32, {700, 2, 3}, numbers);
  // Columns 5, 3 and 1, beside planes [i, j % 2, j / 2].
  expect_as_interpreted(
      hearth::testing::columns_as_planes(), {700, 3}, {x.view(), y.view()}, DType::i32, {{700, 3}});
}

TEST(Expression, WritesAxesInTheOrderOfTheOutput) {
  KernelBuilder b({0, 1, 2});
  const KernelValue x = b.input(DType::i32, {axis(0), axis(1), axis(2)});
  b.output(x * x);
  b.output(x + x);
  KernelIR kernel = b.take();
  kernel.outputs[0].map = {axis(2), axis(0), axis(1)};
  std::vector<double> numbers;
  for (int i = 0; i < 21 * 34 * 45; ++i) {
    numbers.push_back(i % 3001);
  }
  const SmallTensor x_values(DType::i32, {21, 34, 45}, numbers);
  expect_as_interpreted(
      kernel, {21, 34, 45}, {x_values.view()}, DType::i32, {{45, 21, 34}, {21, 34, 45}});
}

TEST(Expression, KnowsPlacesAndIndices) {
  KernelBuilder b({0, 1});
  const KernelValue x = b.input(DType::i64, {axis(1), axis(0)});
  b.output(x + b.position() * 3 + b.index(0) * 1000 - b.index(1));
  const KernelIR kernel = b.take();
  std::vector<double> numbers;
  for (int i = 0; i < 77 * 130; ++i) {
    numbers.push_back(i);
  }
  const SmallTensor x_values(DType::i64, {130, 77}, numbers);
  expect_as_interpreted(kernel, {77, 130}, {x_values.view()}, DType::i64, {{77, 130}});
}

// Philox words at indices that the kernel computes, which no loop for random ops supports.
TEST(Expression, DrawsWordsAtAnyPlace) {
  KernelBuilder b({0});
  const KernelValue x = b.input(DType::i64, {axis(0)});
  const KernelValue place = b.position() * 5 + x;
  b.output(random_word(b.parameter(DType::i64), x, place));
  const KernelIR kernel = b.take();
  std::vector<double> numbers;
  for (int i = 0; i < 1000; ++i) {
    numbers.push_back(i * i % 777);
  }
  const SmallTensor x_values(DType::i64, {1000}, numbers);
  expect_as_interpreted(kernel, {1000}, {x_values.view()}, DType::i64, {{1000}}, {{.integer = 99}});
}

TEST(Expression, FillsFromParametersAlone) {
  KernelBuilder b({0});
  const KernelValue a = b.parameter(DType::f32);
  const KernelValue c = b.parameter(DType::boolean);
  b.output(select(c, a + 1.0, a * a));
  const KernelIR kernel = b.take();
  expect_as_interpreted(kernel, {3001}, {}, DType::f32, {{3001}}, {{.real = 0.3}, {.integer = 1}});
  expect_as_interpreted(kernel, {3001}, {}, DType::f32, {{3001}}, {{.real = 0.3}, {.integer = 0}});
}

// ---- instructions that hold several ops ----

/// adamw on the values of a builder: p, m, v from p, g, m, v and eight scalars.
std::array<KernelValue, 3> adamw(const std::array<KernelValue, 4>& x,
                                 const std::array<KernelValue, 8>& s) {
  const KernelValue p = s[0] * x[0];
  const KernelValue m = s[1] * x[2] + s[2] * x[1];
  const KernelValue v = s[3] * x[3] + s[4] * x[1] * x[1];
  return {p - s[5] * m / (sqrt(v) * s[6] + s[7]), m, v};
}

KernelIR adamw_kernel(const std::vector<AffineIndex>& gradient_map, bool uses_moment_first) {
  KernelBuilder b({0, 1});
  std::array<KernelValue, 4> x;
  for (std::size_t i = 0; i < 4; ++i) {
    x[i] = b.input(DType::f32, i == 1 ? gradient_map : std::vector{axis(0), axis(1)});
  }
  std::array<KernelValue, 8> s;
  for (KernelValue& each : s) {
    each = b.parameter(DType::f32);
  }
  const auto results = adamw(x, s);
  if (uses_moment_first) {
    b.output(results[1] * results[1] - results[2]);
  }
  for (const KernelValue& each : results) {
    b.output(each);
  }
  return b.take();
}

// The update's single loop where an operand repeats, and where one result is needed before the
// others.
TEST(Expression, UpdatesAsAdamWDoesWhateverItsOperandsAre) {
  const std::vector<ScalarAttributes> scalars{{.real = 0.999},
                                              {.real = 0.9},
                                              {.real = 0.1},
                                              {.real = 0.99},
                                              {.real = 0.01},
                                              {.real = 0.05},
                                              {.real = 1.3},
                                              {.real = 1e-8}};
  const Shape shape{37, 600};
  constexpr std::int64_t kCount = 37 * 600;
  const SmallTensor p(DType::f32, shape, waves(kCount));
  const SmallTensor m(DType::f32, shape, waves(kCount, 0.11));
  const SmallTensor v(DType::f32, shape, std::vector<double>(kCount, 0.3));
  const std::vector<std::pair<Shape, std::vector<AffineIndex>>> gradients{
      {shape, {axis(0), axis(1)}},
      {{37, 1}, {axis(0), AffineIndex{}}},
      {{600}, {axis(1)}},
      {{}, {}}};
  for (const auto& [gradient_shape, map] : gradients) {
    const SmallTensor g(DType::f32, gradient_shape, waves(gradient_shape.element_count(), 0.7));
    for (const bool uses_moment_first : {false, true}) {
      SCOPED_TRACE(gradient_shape.to_string());
      expect_as_interpreted(adamw_kernel(map, uses_moment_first),
                            {37, 600},
                            {p.view(), g.view(), m.view(), v.view()},
                            DType::f32,
                            std::vector<Shape>(uses_moment_first ? 4 : 3, shape),
                            scalars);
    }
  }
}

// a·b ± c, c - a·b and a·b ± c·d, each operand a tensor, a row of one element, or a scalar.
TEST(Expression, PutsProductsAndSumsTogetherWhicheverOperandsRepeat) {
  const Shape shape{5, 700};
  const SmallTensor dense(DType::f32, shape, waves(5 * 700));
  const SmallTensor column(DType::f32, {5, 1}, waves(5, 0.9));
  const std::vector<AffineIndex> whole{axis(0), axis(1)};
  const std::vector<AffineIndex> repeated{axis(0), AffineIndex{}};
  for (unsigned form = 0; form < 5 * 81; ++form) {
    KernelBuilder b({0, 1});
    std::vector<TensorView> inputs;
    std::vector<ScalarAttributes> scalars;
    unsigned left = form / 5;
    const auto operand = [&] {
      const unsigned which = left % 3;
      left /= 3;
      if (which == 2) {
        scalars.push_back({.real = 0.3 + static_cast<double>(scalars.size())});
        return b.parameter(DType::f32);
      }
      inputs.push_back(which == 0 ? dense.view() : column.view());
      return b.input(DType::f32, which == 0 ? whole : repeated);
    };
    const KernelValue a = operand();
    const KernelValue c = operand();
    const KernelValue d = operand();
    const KernelValue e = operand();
    const KernelValue product = a * c;
    const std::array results{
        product + d * e, product - d * e, (product + d) + e, (product - d) + e, (d - product) + e};
    b.output(results[form % 5]);
    expect_as_interpreted(b.take(), {5, 700}, inputs, DType::f32, {shape}, scalars);
    ASSERT_FALSE(HasFailure()) << "form " << form;
  }
}

// ---- integer ops without a result ----

KernelIR quotient() {
  KernelBuilder b({0});
  const KernelValue x = b.input(DType::i32, {axis(0)});
  const KernelValue y = b.input(DType::i32, {axis(0)});
  b.output(x + y);
  b.output(x / y);
  return b.take();
}

TEST(Expression, StoresNothingWhenAnIntegerIsDividedByZero) {
  constexpr std::int64_t kCount = 300'000;
  std::vector<double> divisors(kCount, 3);
  divisors[200'001] = 0;
  divisors[299'000] = 0;
  const SmallTensor x(DType::i32, {kCount}, std::vector<double>(kCount, 7));
  const SmallTensor y(DType::i32, {kCount}, divisors);
  const SmallTensor good(DType::i32, {kCount}, std::vector<double>(kCount, 2));
  const std::vector<double> untouched(kCount, -1);
  std::vector<SmallTensor> results;
  for (int i = 0; i < 3; ++i) {
    results.emplace_back(DType::i32, Shape{kCount}, untouched);
  }
  const std::array first_in{x.view(), good.view()};
  const std::array first_out{x.view(), results[0].view()};
  const std::array second_in{x.view(), y.view()};
  const std::array second_out{results[1].view(), results[2].view()};
  ExpressionRunner runner(machine_isa(), available_cores());
  const Status status = runner.run(quotient(),
                                   std::array{ExpressionCall{first_in, first_out, {}},
                                              ExpressionCall{second_in, second_out, {}}});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kernel_failed);
  EXPECT_EQ(status.error().text,
            "kernel: node %3 div: division by zero at element 200001: 7 and 0");
  EXPECT_EQ(x.values(), std::vector<double>(kCount, 7));
  for (const SmallTensor& result : results) {
    EXPECT_EQ(result.values(), untouched);
  }
}

TEST(Expression, LooksAtADivisorThatAllElementsShareOnce) {
  KernelBuilder b({0});
  const KernelValue left = b.input(DType::i64, {axis(0)});
  b.output(left / b.parameter(DType::i64));
  const KernelIR kernel = b.take();
  const SmallTensor x(DType::i64, {3}, {7, -9, 20});
  const SmallTensor y(DType::i64, {3}, {5, 5, 5});
  const std::array in{x.view()};
  const std::array out{y.view()};
  ExpressionRunner runner;
  const Status status = runner.run(kernel, {in, out, std::array{ScalarAttributes{}}});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().text, "kernel: node %2 div: division by zero at element 0: 7 and 0");
  EXPECT_EQ(y.values(), (std::vector<double>{5, 5, 5}));
  runner.run(kernel, {in, out, std::array{ScalarAttributes{.integer = 2}}}).value();
  EXPECT_EQ(y.values(), (std::vector<double>{3, -4, 10}));
}

// ---- programs ----

TEST(Expression, RefusesWhatAProgramDoesNotHold) {
  ExpressionRunner runner;
  KernelBuilder columns({0, 1}, 0b01);
  columns.output(columns.fold(FoldOp::sum, columns.input(DType::f32, {axis(0), axis(1)})));
  const Status refused = runner.run(columns.take(), ExpressionCall{});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_EQ(refused.error().text,
            "kernel: the CPU's tile programs have no folds but along the rows of row kernels");

  const SmallTensor x(DType::f32, {3});
  const std::array one{x.view()};
  const Status status = runner.run(momentum_update(), {one, one, {}});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().text, "kernel: 3 inputs, 1 given");
}

TEST(Expression, KeepsABoundedNumberOfPrograms) {
  ExpressionRunner runner;
  const SmallTensor x(DType::f32, {2}, {1, 2});
  const SmallTensor y(DType::f32, {2});
  const std::array in{x.view()};
  const std::array out{y.view()};
  const auto add = [&](std::size_t number) {
    KernelBuilder b({0});
    b.output(b.input(DType::f32, {axis(0)}) + static_cast<double>(number));
    const KernelIR kernel = b.take();
    // Two of them have one hash; the cache must distinguish them.
    run_expression(
        kernel, number < 2 ? 1 : number, std::array{ExpressionCall{in, out, {}}}, runner.context())
        .value();
    EXPECT_EQ(y.values(),
              (std::vector<double>{1.0 + static_cast<double>(number),
                                   2.0 + static_cast<double>(number)}));
  };
  add(0);
  add(1);
  add(0);
  EXPECT_EQ(runner.programs().size(), 1U);
  for (std::size_t i = 2; i < ProgramCache::kMostPrograms + 50; ++i) {
    add(i);
  }
  EXPECT_EQ(runner.programs().size(), ProgramCache::kMostPrograms);
}

}  // namespace
}  // namespace hearth::cpu
