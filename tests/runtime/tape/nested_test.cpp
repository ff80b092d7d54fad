// Nested grad calls: depth, mixtures of both calls' tensors, tensors that leave a call, and what
// each part of the library does inside them.
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/custom_kernel.hpp>
#include <hearth/runtime/custom_op.hpp>
#include <hearth/runtime/recompute.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/update_group.hpp>

#include "runtime/tape/tape_context.hpp"

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::thrown_text;
using NestedTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

TEST_F(NestedTest, DerivativesReachAnyDepth) {
  std::function<Tensor(const Tensors&)> fn = [](const Tensors& in) { return sum(pow(in[0], 5)); };
  const Tensor x = f64({2, -1}, {2});
  const std::vector<double> want[] = {{80, 5}, {160, -20}, {240, 60}, {240, -120}, {120, 120}};
  for (const std::vector<double>& derivative : want) {
    EXPECT_EQ(reals(grad(fn, {x})[0]), derivative);
    fn = [fn](const Tensors& in) { return sum(grad(fn, in)[0]); };
  }
}

TEST_F(NestedTest, AMixtureOfBothCallsTensorsReachesBoth) {
  const auto fn = [](const Tensors& outer) {
    const Tensor slope = grad([&](const Tensors& in) { return sum(square(in[0]) * outer[0]); },
                              {outer[0].detach()})[0];
    return sum(slope * outer[0]);  // 2 z x · x with z = x, constant
  };
  EXPECT_THAT(reals(grad(fn, {f64({3}, {1})})[0]), ElementsAre(4 * 3 * 3));
}

TEST_F(NestedTest, AnInnerResultOfOuterTensorsAloneGivesZeros) {
  const auto fn = [](const Tensors& outer) {
    const Tensor none = grad([&](const Tensors&) { return sum(outer[0]); }, {outer[0].detach()})[0];
    return sum(none) + sum(square(outer[0]));
  };
  EXPECT_THAT(reals(grad(fn, {f64({3}, {1})})[0]), ElementsAre(6));
}

TEST_F(NestedTest, AnEmptyInputIsRefused) {
  const auto fn = [](const Tensors&) {
    return grad([](const Tensors& in) { return sum(in[0]); }, {Tensor()})[0];
  };
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)grad(fn, {f64({1}, {1})}); }),
            "grad: an input is an empty tensor");
}

TEST_F(NestedTest, DetachMakesConstantsOfAllCalls) {
  const auto fn = [](const Tensors& outer) {
    return grad([](const Tensors& in) { return sum(in[0] * in[0].detach()); }, outer)[0];
  };
  EXPECT_THAT(reals(grad(fn, {f64({3}, {1})})[0]), ElementsAre(0));
}

TEST_F(NestedTest, ATensorThatLeavesAnInnerCallStaysTracked) {
  const auto fn = [](const Tensors& outer) {
    Tensor escaped;
    (void)grad(
        [&](const Tensors& in) {
          escaped = square(in[0]);
          return sum(escaped);
        },
        outer);
    EXPECT_TRUE(escaped.is_tracked());
    return sum(escaped * outer[0]);
  };
  EXPECT_THAT(reals(grad(fn, {f64({3}, {1})})[0]), ElementsAre(27));
}

TEST_F(NestedTest, AnEscapedTensorMayBeTheResult) {
  const auto fn = [](const Tensors& outer) {
    Tensor escaped;
    (void)grad(
        [&](const Tensors& in) {
          escaped = sum(square(in[0]));
          return escaped;
        },
        outer);
    return escaped;
  };
  EXPECT_THAT(reals(grad(fn, {f64({3}, {1})})[0]), ElementsAre(6));
}

/// A module of one matrix.
struct Net {
  Tensor weight;

  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) {
    fn(prefix + "weight", weight);
  }
  [[nodiscard]] Tensor loss(const Tensor& x, const Tensor& y) const {
    return mean(square(tanh(matmul(x, weight)) - y));
  }
};

// The loss after one step of descent, as in MAML.
TEST_F(NestedTest, AStepInsideTheLossMatchesDifferences) {
  HostRandom random(51);
  const Tensor x = random.signed_values({5, 2}).on(device());
  const Tensor y = random.signed_values({5, 2}).on(device());
  const auto after_a_step = [&](const Tensors& in) {
    const Net net{in[0]};
    const auto result = value_and_grad(net, [&](const Net& m) { return m.loss(x, y); });
    EXPECT_EQ(result.value.is_tracked(), in[0].is_tracked());
    const Net moved{net.weight - result.gradients[0] * 0.3};
    return moved.loss(y, x) + result.value;
  };
  check_gradients(device(), after_a_step, {random.signed_values({2, 2})});
}

TEST_F(NestedTest, ValueAndGradNestsInItself) {
  HostRandom random(52);
  const Tensor x = random.signed_values({4, 2}).on(device());
  const Tensor y = random.signed_values({4, 2}).on(device());
  const Net net{random.signed_values({2, 2}).on(device())};
  const auto penalty = [&](const Net& m) {
    auto [value, gradients] = value_and_grad(m, [&](const Net& inner) {
      const Tensor loss = inner.loss(x, y);
      return std::pair(loss, loss * 2);
    });
    EXPECT_TRUE(value.second.is_tracked());
    return std::get<1>(value) + sum(square(gradients[0]));
  };
  const auto result = value_and_grad(net, penalty);
  EXPECT_FALSE(result.value.is_tracked());
  EXPECT_FALSE(result.gradients[0].is_tracked());
  const Tensor want = grad([&](const Tensors& in) { return penalty(Net{in[0]}); }, {net.weight})[0];
  EXPECT_EQ(reals(result.gradients[0]), reals(want));
}

TEST_F(NestedTest, CheckpointsInsideAndAroundGiveTheSameGradients) {
  HostRandom random(53);
  const Tensors inputs{random.signed_values({3, 3}).on(device())};
  const auto layer = [](const Tensor& x) { return tanh(matmul(x, x)) * x; };
  const auto plain = [&](const Tensors& in) {
    return sum(square(grad([&](const Tensors& t) { return sum(exp(layer(t[0]))); }, in)[0]));
  };
  const auto inside = [&](const Tensors& in) {
    return sum(
        square(grad([&](const Tensors& t) { return sum(exp(checkpoint(layer, t[0]))); }, in)[0]));
  };
  const auto around = [&](const Tensors& in) {
    return checkpoint(
        [](const Tensor& x) {
          const auto inner = [](const Tensors& t) {
            return sum(exp(tanh(matmul(t[0], t[0])) * t[0]));
          };
          return sum(square(grad(inner, {x})[0]));
        },
        in[0]);
  };
  const std::vector<double> want = reals(grad(plain, inputs)[0]);
  EXPECT_EQ(reals(grad(inside, inputs)[0]), want);
  EXPECT_EQ(reals(grad(around, inputs)[0]), want);
}

TEST_F(NestedTest, ARecomputeScopeChangesNoBit) {
  HostRandom random(54);
  const Tensors inputs{random.signed_values({4, 4}).on(device())};
  const auto fn = [](const Tensors& in) {
    const auto inner = [](const Tensors& t) {
      return sum(sigmoid(tanh(exp(t[0] * 0.3)) * t[0]) * square(t[0]));
    };
    return sum(tanh(exp(grad(inner, in)[0] * 0.2)));
  };
  const std::vector<double> want = reals(grad(fn, inputs)[0]);
  const RecomputeScope scope({.kept_bytes = 0});
  EXPECT_EQ(reals(grad(fn, inputs)[0]), want);
  EXPECT_GT(scope.report().dropped_bytes, 0);
}

TEST_F(NestedTest, ValuesThatAreFasterToRecomputeChangeNoBit) {
  HostRandom random(55);
  const Tensors inputs{random.signed_values({8, 8}).on(device())};
  const auto fn = [](const Tensors& in) {
    const auto inner = [](const Tensors& t) { return sum(gelu(t[0]) * silu(t[0])); };
    return sum(gelu(grad(inner, in)[0]));
  };
  const std::vector<double> want = reals(grad(fn, inputs)[0]);
  const detail::TrafficLimits before = detail::exchange_traffic_limits(
      {.least_host_bytes = 1, .least_device_bytes = 1, .additions_per_byte = 1e6F});
  const std::vector<double> got = reals(grad(fn, inputs)[0]);
  detail::exchange_traffic_limits(before);
  EXPECT_EQ(got, want);
}

TEST_F(NestedTest, AnotherStreamMayRunTheInnerCall) {
  const auto fn = [&](const Tensors& outer) {
    const Tensor shared = outer[0] * 1;
    shared.publish();
    Stream stream(device());
    const StreamScope scope(stream);
    const Tensor slope = grad([](const Tensors& in) { return sum(exp(in[0])); }, {shared})[0];
    slope.publish();
    return sum(slope);
  };
  EXPECT_NEAR(reals(grad(fn, {f64({1}, {1})})[0])[0], std::exp(1), 1e-12);
}

TEST_F(NestedTest, AFailedOpInsideLeavesBothTapesGood) {
  const auto fn = [&](const Tensors& outer) {
    return grad(
        [&](const Tensors& in) {
          const Tensor good = square(in[0]) * in[0];
          EXPECT_THROW((void)(good + in[0].to(other_device())), DeviceMismatch);
          EXPECT_THROW((void)(good + counting({3})), ShapeError);
          return sum(good + argmax(in[0], 0));
        },
        outer)[0];
  };
  EXPECT_THAT(reals(grad([&](const Tensors& in) { return sum(fn(in)); }, {f64({1, 2}, {2})})[0]),
              ElementsAre(6, 12));
}

TEST_F(NestedTest, AnotherThreadsTensorIsRefused) {
  std::string operand;
  std::string input;
  const auto fn = [&](const Tensors& outer) {
    std::thread([&] {
      const auto mixed = [&](const Tensors& in) { return sum(in[0] * outer[0]); };
      operand = thrown_text<ArgumentError>([&] { (void)grad(mixed, {outer[0].detach()}); });
      input = thrown_text<ArgumentError>([&] { (void)grad(mixed, outer); });
    }).join();
    return sum(outer[0]);
  };
  (void)grad(fn, {f64({2}, {1})});
  EXPECT_EQ(operand,
            "mul: an operand is tracked by a grad call of another thread: detach() it first");
  EXPECT_EQ(input, "grad: an input is tracked by a grad call of another thread: detach() it first");
}

TEST_F(NestedTest, NothingIsLeftBehindAfterwards) {
  const Tensor x = f64({1, 2}, {2});
  device().sync();
  const std::int64_t before = device().memory().live_tensor_count;
  const auto fn = [](const Tensors& in) {
    return sum(square(grad([](const Tensors& t) { return sum(exp(t[0]) * t[0]); }, in)[0]));
  };
  (void)grad(fn, {x});
  const auto throws = [&](const Tensors& in) { return matmul(fn(in), in[0]); };
  EXPECT_THROW((void)grad(throws, {x}), ShapeError);
  device().sync();
  EXPECT_EQ(device().memory().live_tensor_count, before);
}

TEST_F(NestedTest, GradientsAreUntrackedAfterTheOuterCall) {
  Tensor inner;
  const Tensor second = grad(
      [&](const Tensors& in) {
        inner = grad([](const Tensors& t) { return sum(exp(t[0])); }, in)[0];
        EXPECT_TRUE(inner.is_tracked());
        return sum(inner);
      },
      {f64({1}, {1})})[0];
  EXPECT_FALSE(inner.is_tracked());
  EXPECT_FALSE(second.is_tracked());
}

TEST_F(NestedTest, AHookReceivesTrackedGradients) {
  const auto fn = [](const Tensors& in) {
    std::size_t calls = 0;
    auto result = value_and_grad(
        Net{in[0]},
        [](const Net& net) { return sum(exp(net.weight)); },
        [&](std::size_t, Tensor& gradient) {
          EXPECT_TRUE(gradient.is_tracked());
          gradient = gradient * 2;
          ++calls;
        });
    EXPECT_EQ(calls, 1U);
    return sum(result.gradients[0]);
  };
  EXPECT_NEAR(reals(grad(fn, {f64({1}, {1})})[0])[0], 2 * std::exp(1), 1e-12);
}

TEST_F(NestedTest, ACustomOpInsideACustomOpHasASecondDerivative) {
  const CustomOp cube = custom_op("own_cube", [](const Tensor& x) { return x * x * x; });
  const CustomOp both = custom_op("own_both", [cube](const Tensor& x) { return cube(x) * x; });
  const auto fn = [&](const Tensors& in) { return both(in[0]); };
  HostRandom random(56);
  check_gradients(
      device(),
      [&](const Tensors& in) { return grad([&](const Tensors& t) { return sum(fn(t)); }, in)[0]; },
      {random.signed_values({5})});
}

TEST_F(NestedTest, AKernelWithAFurtherRealResultIsRefused) {
  CustomKernelConfig config{.name = "halves", .inputs = {{"x"}}, .outputs = {"y", "rest"}};
  config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> {
    return {in[0], in[0]};
  };
  config.host = [](const HostKernelCall& call) {
    for (std::size_t i = 0; i < call.input<double>(0).size(); ++i) {
      call.output<double>(0)[i] = call.input<double>(0)[i] * call.input<double>(0)[i];
      call.output<double>(1)[i] = call.input<double>(0)[i] / 2;
    }
  };
  config.vjp = [](const CustomGradient& call) {
    return Tensors{call.gradient * call.outputs[1] * 4};
  };
  const CustomKernel kernel(std::move(config));
  const auto fn = [&](const Tensors& in) { return sum(kernel.all({&in[0], 1})[0]); };
  const Tensor x = f64({3}, {1});
  EXPECT_THAT(reals(grad(fn, {x})[0]), ElementsAre(6));
  EXPECT_EQ(thrown_text<ArgumentError>(
                [&] { (void)grad([&](const Tensors& in) { return sum(grad(fn, in)[0]); }, {x}); }),
            "halves: result 'rest' has no gradient, so the kernel has no gradient of its gradient: "
            "compute 'rest' by another kernel");
}

TEST_F(NestedTest, AnOptimizersStepOfATrackedGradientIsRefused) {
  const auto fn = [&](const Tensors& in) {
    Tensor parameter = f64({1}, {1});
    Tensor none;
    UpdateGroup group(device());
    EXPECT_THAT(thrown_text<ArgumentError>(
                    [&] { group.sgd(parameter, in[0] * 2, none, {.learning_rate = 0.1}); }),
                HasSubstr("an optimizer's step has no gradient: write the step of plain ops"));
    return sum(in[0]);
  };
  EXPECT_THAT(reals(grad(fn, {f64({3}, {1})})[0]), ElementsAre(1));
}

TEST_F(NestedTest, FloorAndComparisonsStayConstant) {
  const auto fn = [](const Tensors& in) {
    return grad(
        [](const Tensors& t) { return sum(where(t[0] > 1, square(t[0]), floor(t[0]) * t[0])); },
        in)[0];
  };
  EXPECT_THAT(reals(grad([&](const Tensors& in) { return sum(fn(in)); }, {f64({0.5, 2}, {2})})[0]),
              ElementsAre(0, 2));
}

}  // namespace
}  // namespace hearth
