// Gradients of the oracle against its forward ops: linear ones by the adjoint identity <f(x), g> =
// <x, f*(g)>, the others by central differences in f64.
#include <gtest/gtest.h>

#include <hearth/backends/reference/reference.hpp>
#include <hearth/runtime/base/philox.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <functional>
#include <vector>

#include "small_call.hpp"

namespace hearth {
namespace {

using testing::SmallCall;
using testing::SmallTensor;

SmallTensor random_tensor(const Shape& shape, std::uint64_t seed) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    values.push_back(philox::normal_element(seed, 0, static_cast<std::uint64_t>(i), DType::f64));
  }
  return {DType::f64, shape, values};
}

double dot(const SmallTensor& a, const SmallTensor& b) {
  double sum = 0;
  const auto x = a.values();
  const auto y = b.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

template <class Attributes>
SmallTensor apply(OpKind kind,
                  const std::vector<const SmallTensor*>& inputs,
                  const Shape& shape,
                  const Attributes& attributes) {
  SmallTensor out(DType::f64, shape);
  std::vector<TensorView> views;
  for (const SmallTensor* input : inputs) {
    views.push_back(input->view());
  }
  reference::evaluate(SmallCall(kind, views, {out.view()}).with(attributes).call()).value();
  return out;
}

struct ConvCase {
  Shape x;
  Shape w;
  Shape y;
  ConvAttributes attributes;
};

TEST(ReferenceAdjoint, ConvolutionGradientsAreItsAdjoints) {
  const ConvCase cases[] = {
      {{2, 4, 7, 6},
       {6, 2, 3, 2},
       {2, 6, 4, 3},
       {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}},
      {{1, 3, 9, 8},
       {3, 1, 3, 3},
       {1, 3, 5, 6},
       {.padding = {0, 1}, .dilation = {2, 2}, .groups = 3}},
      {{3, 2, 5, 5}, {4, 2, 1, 1}, {3, 4, 5, 5}, {}},
  };
  for (const ConvCase& c : cases) {
    const SmallTensor x = random_tensor(c.x, 1);
    const SmallTensor w = random_tensor(c.w, 2);
    const SmallTensor grad = random_tensor(c.y, 3);
    const double want = dot(apply(OpKind::conv2d, {&x, &w}, c.y, c.attributes), grad);
    EXPECT_NEAR(
        dot(x, apply(OpKind::conv2d_backward_input, {&grad, &w}, c.x, c.attributes)), want, 1e-9);
    EXPECT_NEAR(
        dot(w, apply(OpKind::conv2d_backward_weight, {&x, &grad}, c.w, c.attributes)), want, 1e-9);
  }
}

TEST(ReferenceAdjoint, AveragePoolGradientIsItsAdjoint) {
  const Shape in{2, 3, 7, 9};
  const Shape out{2, 3, 4, 4};
  for (const std::int64_t count_include_pad : {0, 1}) {
    const PoolAttributes pool{.kernel = {3, 2},
                              .stride = {2, 3},
                              .padding = {1, 1},
                              .count_include_pad = count_include_pad};
    const SmallTensor x = random_tensor(in, 4);
    const SmallTensor grad = random_tensor(out, 5);
    EXPECT_NEAR(dot(apply(OpKind::avg_pool2d, {&x}, out, pool), grad),
                dot(x, apply(OpKind::avg_pool2d_backward, {&grad}, in, pool)),
                1e-9);
  }
}

TEST(ReferenceAdjoint, MaxPoolGradientGoesWhereTheMaximumCameFrom) {
  const Shape in{1, 2, 5, 5};
  const Shape out{1, 2, 3, 3};
  const PoolAttributes pool{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  const SmallTensor x = random_tensor(in, 6);
  const SmallTensor y(DType::f64, out);
  const SmallTensor positions(DType::i32, out);
  reference::evaluate(
      SmallCall(OpKind::max_pool2d, {x.view()}, {y.view(), positions.view()}).with(pool).call())
      .value();
  const SmallTensor grad = random_tensor(out, 7);
  // Where nothing ties, the maximum is linear around x with this gradient.
  EXPECT_NEAR(dot(y, grad),
              dot(x, apply(OpKind::max_pool2d_backward, {&grad, &positions}, in, pool)),
              1e-12);
}

TEST(ReferenceAdjoint, SliceScatterIsTheAdjointOfSlice) {
  const SmallTensor x = random_tensor({4, 7}, 8);
  const SmallTensor grad = random_tensor({2, 3}, 9);
  const SliceAttributes slice{.start = {1, 6}, .step = {2, -2}};
  const detail::Layout layout(Shape{2, 3}, Strides{14, -2});
  const SmallTensor sliced(DType::f64, {2, 3});
  reference::evaluate(SmallCall(OpKind::copy, {x.view(layout, 7 + 6)}, {sliced.view()}).call())
      .value();
  EXPECT_NEAR(
      dot(sliced, grad), dot(x, apply(OpKind::slice_scatter, {&grad}, {4, 7}, slice)), 1e-12);
}

TEST(ReferenceAdjoint, PicksAndAdditionsByIndexAreAdjoints) {
  const SmallTensor x = random_tensor({4, 5}, 20);
  const AxisAttributes along{.axis = 1, .keep_dims = 0};
  const SmallTensor places(DType::i64, {3, 4}, {4, 0, 4, 2, 1, 1, 1, 1, 0, 3, 2, 3});
  const SmallTensor grad = random_tensor({3, 4}, 21);
  EXPECT_NEAR(dot(apply(OpKind::gather, {&x, &places}, {3, 4}, along), grad),
              dot(x, apply(OpKind::scatter_add, {&grad, &places}, {4, 5}, along)),
              1e-12);
  const SmallTensor line(DType::i32, {6}, {4, 0, 0, 2, 4, 4});
  const SmallTensor slices = random_tensor({4, 6}, 22);
  EXPECT_NEAR(dot(apply(OpKind::index_select, {&x, &line}, {4, 6}, along), slices),
              dot(x, apply(OpKind::index_add, {&slices, &line}, {4, 5}, along)),
              1e-12);
}

/// Central differences of <f(x), grad> in every element of x.
std::vector<double> differences(const SmallTensor& x,
                                const SmallTensor& grad,
                                const std::function<SmallTensor(const SmallTensor&)>& f) {
  constexpr double kStep = 1e-5;
  std::vector<double> out;
  const std::vector<double> values = x.values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<double> moved = values;
    moved[i] = values[i] + kStep;
    const double up = dot(f(SmallTensor(DType::f64, x.shape(), moved)), grad);
    moved[i] = values[i] - kStep;
    out.push_back((up - dot(f(SmallTensor(DType::f64, x.shape(), moved)), grad)) / (2 * kStep));
  }
  return out;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-7) << "element " << i;
  }
}

TEST(ReferenceAdjoint, SoftmaxGradientsMatchDifferences) {
  const Shape shape{2, 3, 4};
  const SmallTensor x = random_tensor(shape, 10);
  const SmallTensor grad = random_tensor(shape, 11);
  const std::pair<OpKind, OpKind> kinds[] = {{OpKind::softmax, OpKind::softmax_backward},
                                             {OpKind::log_softmax, OpKind::log_softmax_backward}};
  for (const auto& kind : kinds) {
    for (int axis = 0; axis < 3; ++axis) {
      const AxisAttributes along{.axis = axis, .keep_dims = 0};
      const auto forward = [&](const SmallTensor& at) {
        return apply(kind.first, {&at}, shape, along);
      };
      const SmallTensor y = forward(x);
      expect_near(apply(kind.second, {&grad, &y}, shape, along).values(),
                  differences(x, grad, forward));
    }
  }
}

TEST(ReferenceAdjoint, CrossEntropyGradientMatchesDifferences) {
  const Shape shape{3, 5};
  const SmallTensor x = random_tensor(shape, 12);
  const SmallTensor grad = random_tensor({3}, 13);
  const SmallTensor targets(DType::i64, {3}, {4, 0, 2});
  const SmallTensor probabilities(DType::f64, shape);
  const auto forward = [&](const SmallTensor& at) {
    SmallTensor losses(DType::f64, {3});
    reference::evaluate(SmallCall(OpKind::cross_entropy,
                                  {at.view(), targets.view()},
                                  {losses.view(), probabilities.view()})
                            .call())
        .value();
    return losses;
  };
  const std::vector<double> want = differences(x, grad, forward);
  forward(x);
  const SmallTensor out(DType::f64, shape);
  reference::evaluate(SmallCall(OpKind::cross_entropy_backward,
                                {grad.view(), probabilities.view(), targets.view()},
                                {out.view()})
                          .call())
      .value();
  expect_near(out.values(), want);
}

TEST(ReferenceAdjoint, ReluGradientFollowsItsResult) {
  const SmallTensor grad(DType::f64, {3}, {5, 6, 7});
  const SmallTensor y(DType::f64, {3}, {0, 2, 0});
  const SmallTensor out(DType::f64, {3});
  reference::evaluate(
      SmallCall(OpKind::relu_backward, {grad.view(), y.view()}, {out.view()}).call())
      .value();
  EXPECT_EQ(out.values(), (std::vector<double>{0, 6, 0}));
}

}  // namespace
}  // namespace hearth
