// hvp, jvp and jacobian against central differences and closed forms.
#include <hearth/runtime/derivatives.hpp>

#include "gradient_check.hpp"
#include "reference_test.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::HostRandom;
using testing::HostTensor;
using testing::thrown_text;
using DerivativesTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

Tensor energy(const Tensors& in) {
  return sum(exp(matmul(in[0], in[1])) * tanh(in[0]));
}

/// (fn(inputs + h v) - fn(inputs - h v)) / 2h, for every number in the result.
template <class Fn>
std::vector<double> difference(const Fn& fn, const Tensors& inputs, const Tensors& vectors) {
  constexpr double kStep = 1e-5;
  const auto at = [&](double step) {
    Tensors moved;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      moved.push_back(inputs[i] + vectors[i] * step);
    }
    return fn(moved);
  };
  return ((at(kStep) - at(-kStep)) / (2 * kStep)).template to_vector<double>();
}

void expect_near(const Tensor& got, const std::vector<double>& want) {
  const std::vector<double> values = got.to_vector<double>();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(values[i], want[i], 1e-7 * (1 + std::abs(want[i]))) << "element " << i;
  }
}

class DerivativesOfTwo : public DerivativesTest {
 protected:
  DerivativesOfTwo() {
    HostRandom random(61);
    for (int i = 0; i < 2; ++i) {
      inputs.push_back(random.signed_values({2, 2}).on(device()));
      vectors.push_back(random.signed_values({2, 2}).on(device()));
    }
  }
  Tensors inputs;
  Tensors vectors;
};

TEST_F(DerivativesOfTwo, HvpIsTheChangeOfTheGradient) {
  const Tensors products = hvp(energy, inputs, vectors);
  ASSERT_EQ(products.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(products[i].shape(), inputs[i].shape());
    EXPECT_FALSE(products[i].is_tracked());
    expect_near(
        products[i],
        difference([&](const Tensors& in) { return grad(energy, in)[i]; }, inputs, vectors));
  }
}

TEST_F(DerivativesOfTwo, JvpIsTheChangeOfTheValue) {
  const auto fn = [](const Tensors& in) { return softmax(matmul(in[0], sin(in[1])), 0); };
  const ValueAndTangent result = jvp(fn, inputs, vectors);
  EXPECT_EQ(reals(result.value), reals(fn(inputs)));
  EXPECT_FALSE(result.value.is_tracked());
  EXPECT_FALSE(result.tangent.is_tracked());
  EXPECT_EQ(result.tangent.shape(), (Shape{2, 2}));
  expect_near(result.tangent, difference(fn, inputs, vectors));
}

TEST_F(DerivativesOfTwo, TheyNestInGradAndInEachOther) {
  const HostTensor x{{2, 2}, {0.3, -0.4, 0.5, 0.7}};
  const Tensor fixed = inputs[1];
  const auto one = [fixed](const Tensors& in) { return energy({in[0], fixed}); };
  check_gradients(device(), [&](const Tensors& in) { return hvp(one, in, {vectors[0]})[0]; }, {x});
  check_gradients(
      device(),
      [&](const Tensors& in) {
        return jvp([](const Tensors& t) { return exp(matmul(t[0], t[0])); }, in, {vectors[0]})
            .tangent;
      },
      {x});
  check_gradients(device(),
                  [&](const Tensors& in) {
                    return jacobian([](const Tensor& t) { return sum(exp(t) * t, {0}); }, in[0]);
                  },
                  {x});
  // jvp of a gradient is hvp.
  const Tensor along =
      jvp([&](const Tensors& in) { return grad(one, in)[0]; }, {inputs[0]}, {vectors[0]}).tangent;
  expect_near(along, reals(hvp(one, {inputs[0]}, {vectors[0]})[0]));
}

TEST_F(DerivativesTest, ValuesThatDependOnNothingHaveZeroTangents) {
  const Tensor x = f64({1, 2}, {2});
  const Tensor constant = f64({3}, {1});
  const auto fn = [&](const Tensors&) { return constant; };
  EXPECT_THAT(reals(jvp(fn, {x}, {x}).tangent), ElementsAre(0));
  EXPECT_THAT(reals(hvp([](const Tensors& in) { return sum(in[0]); }, {x}, {x})[0]), Each(0));
  EXPECT_THAT(reals(jacobian([&](const Tensor&) { return constant; }, x)), Each(0));
}

TEST_F(DerivativesTest, JacobianHasTheValuesAxesThenTheInputs) {
  const Tensor x = f64({1, 2, 3}, {3});
  const Tensor w = f64({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor rows = jacobian([&](const Tensor& in) { return matmul(w, in); }, x);
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(reals(rows), reals(w));
  const Tensor of_matrix = jacobian([](const Tensor& in) { return square(in); }, w);
  EXPECT_EQ(of_matrix.shape(), (Shape{2, 3, 2, 3}));
  EXPECT_EQ(reals(of_matrix)[7], 4);
  EXPECT_EQ(reals(sum(of_matrix))[0], 42);
  EXPECT_EQ(jacobian([](const Tensor& in) { return sum(in); }, x).shape(), (Shape{3}));
}

TEST_F(DerivativesTest, TheJacobianOfAGradientIsTheHessian) {
  const Tensor x = f64({2, 3}, {2});
  const auto fn = [](const Tensors& in) {
    const Tensor a = slice(in[0], 0, {.stop = 1});
    const Tensor b = slice(in[0], 0, {.start = 1});
    return sum(a * a * b);
  };
  const Tensor hessian = jacobian([&](const Tensor& in) { return grad(fn, {in})[0]; }, x);
  EXPECT_THAT(reals(hessian), ElementsAre(6, 4, 4, 0));
}

TEST_F(DerivativesTest, EmptyTensorsGiveEmptyDerivatives) {
  const Tensor none = zeros(device(), {0, 2}, DType::f64);
  const auto fn = [](const Tensors& in) { return exp(in[0]); };
  EXPECT_EQ(jvp(fn, {none}, {none}).tangent.shape(), (Shape{0, 2}));
  EXPECT_EQ(hvp([](const Tensors& in) { return sum(exp(in[0])); }, {none}, {none})[0].shape(),
            (Shape{0, 2}));
  EXPECT_EQ(jacobian([](const Tensor& in) { return exp(in); }, none).shape(), (Shape{0, 2, 0, 2}));
  EXPECT_EQ(jacobian([](const Tensor& in) { return sum(in, {0}); }, none).shape(),
            (Shape{2, 0, 2}));
}

TEST_F(DerivativesTest, SixteenBitsKeepTheirType) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Tensor x = cast(f64({0.5, 2}, {2}), dtype);
    const auto fn = [](const Tensors& in) { return square(in[0]); };
    const ValueAndTangent result = jvp(fn, {x}, {x});
    EXPECT_EQ(result.tangent.dtype(), dtype);
    EXPECT_THAT(reals(result.tangent), ElementsAre(0.5, 8));
    const Tensor rows = jacobian([](const Tensor& in) { return square(in); }, x);
    EXPECT_EQ(rows.dtype(), dtype);
    EXPECT_THAT(reals(rows), ElementsAre(1, 0, 0, 4));
  }
}

TEST_F(DerivativesTest, MistakesNameTheRuleAndTheValues) {
  const Tensor x = f64({1, 2}, {2});
  const auto loss = [](const Tensors& in) { return sum(in[0]); };
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)hvp(loss, {x}, {}); }),
            "hvp: needs one vector for each input and at least one, was given 1 inputs and 0 "
            "vectors");
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)jvp(loss, {x}, {f64({1}, {1})}); }),
            "jvp: vector 0 is f64[1], its input f64[2]");
  EXPECT_EQ(thrown_text<DtypeError>([&] {
              (void)jvp(loss, {x}, {f32({1, 2}, {2})});
            }),
            "jvp: vector 0 is f32[2], its input f64[2]");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)hvp(loss, {i64({1}, {1})}, {i64({1}, {1})}); }),
            "hvp: input 0 is i64[1]; only floats have derivatives");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)hvp(loss, {x}, {Tensor()}); }),
            "hvp: vector 0 is an empty tensor");
  EXPECT_EQ(thrown_text<DtypeError>(
                [&] { (void)jvp([](const Tensors& in) { return argmax(in[0], 0); }, {x}, {x}); }),
            "jvp: the function must return a float tensor, not i64[]");
  EXPECT_EQ(thrown_text<ArgumentError>(
                [&] { (void)jacobian([](const Tensor&) { return Tensor(); }, x); }),
            "jacobian: the function returned an empty tensor");
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)jacobian(
                  [](const Tensor& in) {
                    return reshape(in, {1, 1, 1, 1, 2});
                  },
                  reshape(x, {1, 1, 1, 2}));
            }),
            "jacobian: the result would have the axes of the value f64[1, 1, 1, 1, 2] and of the "
            "input f64[1, 1, 1, 2], more than 8");
  std::int64_t calls = 0;
  EXPECT_EQ(thrown_text<ArgumentError>([&] {
              (void)jacobian(
                  [&](const Tensor& in) {
                    return slice(concat({in, in}, 0), 0, {.stop = 4 - calls++});
                  },
                  x);
            }),
            "jacobian: the function returned the shape [4] first, and [3] when it ran again");
}

}  // namespace
}  // namespace hearth
