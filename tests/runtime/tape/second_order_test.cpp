// Second and third derivatives of every kind that has a first one, against central differences of
// the derivative below, in f64 on devices with f64 kernels.
#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <hearth/runtime/derivatives.hpp>
#include <hearth/runtime/losses.hpp>
#include <hearth/runtime/math_ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "runtime/tape/vjp_table.hpp"
#include "second_order_cases.hpp"

#include "tests/runtime/reference_test.hpp"

namespace hearth {
namespace {

using testing::check_gradients;
using testing::HostRandom;
using testing::HostTensor;
using testing::SecondOrderCase;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;
using ::testing::ElementsAre;

/// A number that depends on all gradients of fn. Squares make the gradient that enters the sweep
/// depend on the inputs, too.
Function slopes_of(const Function& fn) {
  return [fn](const Tensors& in) {
    const Tensors gradients = grad(
        [&](const Tensors& tracked) {
          const Tensor value = fn(tracked);
          return sum(square(value)) + sum(value) * 0.7;
        },
        in);
    Tensor total;
    double weight = 0.6;
    for (const Tensor& gradient : gradients) {
      const Tensor part = sum(square(gradient) * 0.3 + gradient * weight);
      total = total.is_valid() ? total + part : part;
      weight += 0.5;
    }
    return total;
  };
}

class SecondOrderTest : public ::testing::TestWithParam<const char*> {
 protected:
  SecondOrderTest()
      : runtime_(RuntimeOptions{.devices = {{.name = GetParam() + std::string(":0")},
                                            {.name = GetParam() + std::string(":1")}}}) {}
  [[nodiscard]] Device device() const { return runtime_.device(GetParam() + std::string(":0")); }
  [[nodiscard]] Device other_device() const {
    return runtime_.device(GetParam() + std::string(":1"));
  }

  void check(const Function& fn, const std::vector<HostTensor>& inputs) const {
    check_gradients(device(), slopes_of(fn), inputs);
  }

 private:
  Runtime runtime_;
};

INSTANTIATE_TEST_SUITE_P(Devices,
                         SecondOrderTest,
                         ::testing::Values("reference", "cpu"),
                         [](const auto& param) { return std::string(param.param); });

// cast alone is checked by ACastHasASecondDerivative, as differences of f32 are too coarse.
TEST(SecondOrderCases, CoverEveryKindWithARule) {
  const Runtime runtime(RuntimeOptions{.devices = {{.name = "reference:0"}}});
  const auto cases = testing::second_order_cases(runtime.device());
  const auto emitted = testing::emitted_kinds();
  for (const OpInfo& info : op_table()) {
    if (vjp_row(info.kind).emit != nullptr && info.kind != OpKind::cast) {
      const auto found = emitted.find(info.kind);
      EXPECT_TRUE(cases.contains(found != emitted.end() ? found->second : info.kind)) << info.name;
    }
  }
}

TEST_P(SecondOrderTest, EveryKindMatchesDifferencesOfItsGradient) {
  for (const auto& [kind, test] : testing::second_order_cases(other_device())) {
    SCOPED_TRACE(op_info(kind).name);
    check(test.fn, test.inputs);
  }
}

TEST_P(SecondOrderTest, EveryKindMatchesDifferencesOfItsSecondDerivative) {
  for (const auto& [kind, test] : testing::second_order_cases(other_device())) {
    SCOPED_TRACE(op_info(kind).name);
    const Function fn = test.fn;
    const Function scaled = [fn](const Tensors& in) { return fn(in) * 0.3; };
    check_gradients(device(), slopes_of(slopes_of(scaled)), test.inputs);
  }
}

TEST_P(SecondOrderTest, ACastHasASecondDerivative) {
  const auto cube = [](const Tensors& in) {
    const Tensor x = cast(in[0], DType::f32);
    return sum(cast(x * x * x, DType::f64));
  };
  const Tensor x = Tensor::from(device(), std::vector<double>{1, -2, 0.5}, {3});
  const Tensor second = grad([&](const Tensors& in) { return sum(grad(cube, in)[0]); }, {x})[0];
  EXPECT_EQ(second.dtype(), DType::f64);
  EXPECT_THAT(second.to_vector<double>(), ElementsAre(6, -12, 3));
}

TEST_P(SecondOrderTest, LossesMatchDifferences) {
  HostRandom random(41);
  const HostTensor x = random.signed_values({3, 4});
  const Tensor classes = Tensor::from(device(), std::vector<std::int32_t>{2, 0, 3}, {3});
  check([&](const Tensors& in) { return cross_entropy(in[0], classes); }, {x});
  check(
      [&](const Tensors& in) {
        return cross_entropy(in[0], classes, {.ignore_index = 0, .label_smoothing = 0.2});
      },
      {x});
  check([&](const Tensors& in) { return nll_loss(log_softmax(in[0]), classes); }, {x});
  const Tensor targets = random.uniform({3, 4}, 0.1, 0.9).on(device());
  check([&](const Tensors& in) { return binary_cross_entropy_with_logits(in[0], targets); }, {x});
  check([&](const Tensors& in) { return mse_loss(in[0], targets); }, {x});
}

TEST_P(SecondOrderTest, NormsAndActivationsMatchDifferences) {
  HostRandom random(42);
  const HostTensor x = random.signed_values({2, 4});
  check([](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); },
        {x, random.signed_values({4}), random.signed_values({4})});
  check([](const Tensors& in) { return rms_norm(in[0], in[1]); }, {x, random.signed_values({4})});
  check([](const Tensors& in) { return gelu(in[0]) * silu(in[0]) + softplus(in[0]); }, {x});
  check([](const Tensors& in) { return var(in[0], {0}) + logsumexp(in[0], {0}); }, {x});
}

TEST_P(SecondOrderTest, AttentionUnderEveryMaskMatchesDifferences) {
  HostRandom random(43);
  const std::vector<HostTensor> inputs{random.signed_values({1, 2, 2, 3}),
                                       random.signed_values({1, 1, 3, 3}),
                                       random.signed_values({1, 1, 3, 2})};
  const Tensor hidden = cast(
      Tensor::from(device(), std::vector<std::int32_t>{1, 0, 1, 0, 0, 0}, {2, 3}), DType::boolean);
  const Tensor added = random.signed_values({2, 3}).on(device());
  check([&](const Tensors& in) { return attention(in[0], in[1], in[2], hidden); }, inputs);
  check([&](const Tensors& in) { return attention(in[0], in[1], in[2], added); }, inputs);
  check([&](const Tensors& in) { return attention(in[0], in[1], in[2], {.scale = 0.5}); }, inputs);
}

TEST_P(SecondOrderTest, PlainAttentionEqualsTheKernel) {
  HostRandom random(44);
  const Tensors inputs{random.signed_values({2, 2, 3, 4}).on(device()),
                       random.signed_values({2, 1, 3, 4}).on(device()),
                       random.signed_values({2, 1, 3, 2}).on(device())};
  const auto loss = [](const Tensors& in) {
    return sum(square(attention(in[0], in[1], in[2], {.causal = true})));
  };
  const Tensors kernel = grad(loss, inputs);
  Tensors plain;
  (void)grad(
      [&](const Tensors& in) {
        plain = grad(loss, in);
        return sum(plain[0]);
      },
      inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<double> want = kernel[i].to_vector<double>();
    const std::vector<double> got = plain[i].to_vector<double>();
    for (std::size_t j = 0; j < want.size(); ++j) {
      EXPECT_NEAR(got[j], want[j], 1e-12) << "input " << i << ", element " << j;
    }
  }
}

TEST_P(SecondOrderTest, ProductsWithZerosMatchDifferences) {
  const HostTensor one_zero{{2, 3}, {0.5, 0, 2, 1.5, -1, 0.7}};
  const HostTensor two_zeros{{2, 3}, {0, 0, 2, 1.5, -1, 0}};
  for (const HostTensor& x : {one_zero, two_zeros}) {
    check([](const Tensors& in) { return prod(in[0], {1}); }, {x});
    check([](const Tensors& in) { return prod(in[0]); }, {x});
    check([](const Tensors& in) { return cumprod(in[0], 0) + cumprod(flip(in[0], {1}), 1); }, {x});
  }
}

TEST_P(SecondOrderTest, PowersOfZeroExponentsMatchDifferences) {
  check([](const Tensors& in) { return pow(in[0], in[1]); },
        {HostTensor{{3}, {0.5, 2, 1.5}}, HostTensor{{3}, {0, 0, 2}}});
}

TEST_P(SecondOrderTest, EmptyTensorsHaveEmptySecondDerivatives) {
  const Tensor none = zeros(device(), {0, 3}, DType::f64);
  Tensor (*const ops[])(const Tensor&) = {[](const Tensor& x) { return softmax(x); },
                                          [](const Tensor& x) { return prod(x, {1}); },
                                          [](const Tensor& x) { return cumprod(x, 0); },
                                          [](const Tensor& x) { return relu(x); },
                                          [](const Tensor& x) { return slice(x, 1, {.stop = 2}); }};
  for (const auto op : ops) {
    SCOPED_TRACE(&op - ops);
    const Tensor second = grad(
        [&](const Tensors& in) {
          return sum(grad([&](const Tensors& x) { return sum(square(op(x[0]))); }, in)[0]);
        },
        {none})[0];
    EXPECT_EQ(second.shape(), (Shape{0, 3}));
  }
}

TEST_P(SecondOrderTest, HalvesRoundLikeTheirGradients) {
  const auto second_in = [&](DType dtype) {
    const Tensor x =
        cast(Tensor::from(device(), std::vector<double>{0.5, -1, 0.25, 2}, {2, 2}), dtype);
    const Tensor result = grad(
        [&](const Tensors& in) {
          return sum(square(grad(
              [](const Tensors& each) {
                return sum(square(softmax(each[0]))) + sum(square(log_softmax(each[0])));
              },
              in)[0]));
        },
        {x})[0];
    EXPECT_EQ(result.dtype(), dtype);
    return cast(result, DType::f64).to_vector<double>();
  };
  const std::vector<double> exact = second_in(DType::f64);
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::f32, 1e-5), std::pair(DType::f16, 0.02), std::pair(DType::bf16, 0.15)}) {
    const std::vector<double> rounded = second_in(dtype);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      EXPECT_NEAR(rounded[i], exact[i], tolerance * (1 + std::abs(exact[i]))) << i;
    }
  }
}

}  // namespace
}  // namespace hearth
