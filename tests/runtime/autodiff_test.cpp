// grad and value_and_grad: their results, the calls of the hook, and the tensors that the tape
// keeps alive.
#include <hearth/runtime/autodiff.hpp>

#include "gradient_check.hpp"
#include "reference_test.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <thread>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown_text;
using AutodiffTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

/// Two layers, as a module: visit() names the parameters.
struct TwoLayers {
  Tensor first;
  Tensor second;
  Tensor unused;

  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) {
    fn(prefix + "first", first);
    fn(prefix + "second", second);
    fn(prefix + "unused", unused);
  }
  [[nodiscard]] Tensor loss(const Tensor& x) const {
    return sum(tanh(matmul(matmul(x, first), second)));
  }
};

class TwoLayersTest : public AutodiffTest {
 protected:
  TwoLayers model{f64({1, 2, 3, 4}, {2, 2}), f64({0.5, -0.5}, {2, 1}), f64({7}, {1})};
  Tensor x = f64({0.1, 0.2}, {1, 2});
};

TEST_F(AutodiffTest, AChainOfOpsMatchesDifferences) {
  testing::HostRandom random(20);
  const auto fn = [](const Tensors& in) { return exp(matmul(in[0] + in[1], in[0])); };
  testing::check_gradients(
      device(), fn, {random.uniform({3, 3}, -0.5, 0.5), random.uniform({3, 3}, -0.5, 0.5)});
}

TEST_F(AutodiffTest, TheGradientOfAnUnusedInputIsZeros) {
  const Tensors gradients = grad([](const Tensors& in) { return sum(in[0] * 2); },
                                 {f64({1}, {1}), counting({2, 3}), i32({1}, {1})});
  EXPECT_THAT(reals(gradients[0]), ElementsAre(2));
  EXPECT_THAT(reals(gradients[1]), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_EQ(gradients[1].dtype(), DType::f64);
  EXPECT_EQ(gradients[2].dtype(), DType::i32);
}

TEST_F(AutodiffTest, AConstantOutputHasZeroGradients) {
  const Tensor constant = f64({3}, {1});
  EXPECT_THAT(reals(grad([&](const Tensors&) { return constant; }, {f64({1, 2}, {2})})[0]),
              ElementsAre(0, 0));
}

TEST_F(AutodiffTest, AnInputThatIsTheOutputHasGradientOne) {
  EXPECT_THAT(reals(grad([](const Tensors& in) { return in[0]; }, {f64({5}, {1, 1})})[0]),
              ElementsAre(1));
}

TEST_F(AutodiffTest, DetachCutsThePath) {
  const Tensor gradient =
      grad([](const Tensors& in) { return sum(in[0] * in[0].detach()); }, {f64({3}, {1})})[0];
  EXPECT_THAT(reals(gradient), ElementsAre(3));
}

TEST_F(AutodiffTest, PositionsAndComparisonsAreNotTracked) {
  const auto fn = [](const Tensors& in) {
    EXPECT_FALSE(argmax(in[0], 0).is_tracked());
    EXPECT_FALSE((in[0] > 0).is_tracked());
    EXPECT_TRUE((in[0] + 1).is_tracked());
    return sum(in[0]);
  };
  EXPECT_THAT(reals(grad(fn, {f64({3, 4}, {2})})[0]), ElementsAre(1, 1));
}

TEST_F(AutodiffTest, TheOutputMustBeOneFloat) {
  const Tensor x = counting({2});
  EXPECT_EQ(thrown_text<ShapeError>(
                [&] { (void)grad([](const Tensors& in) { return in[0] * 2; }, {x}); }),
            "grad: the function must return one element, not f64[2]");
  EXPECT_EQ(thrown_text<DtypeError>(
                [&] { (void)grad([](const Tensors& in) { return argmax(in[0], 0); }, {x}); }),
            "grad: the function must return a float tensor, not i64[]");
  EXPECT_THAT(
      thrown_text<ArgumentError>([&] { (void)grad([](const Tensors&) { return Tensor(); }, {x}); }),
      HasSubstr("empty tensor"));
}

TEST_F(AutodiffTest, GradientsOfGradientsAreGradients) {
  const auto nested = [](const Tensors& outer) {
    return grad([](const Tensors& in) { return sum(square(in[0]) * in[0]); }, outer)[0];
  };
  EXPECT_THAT(reals(grad(nested, {f64({2}, {1})})[0]), ElementsAre(12));
}

TEST_F(AutodiffTest, GradInsideGradOfConstantsWorks) {
  const Tensor x = f64({2}, {1});
  const auto fn = [](const Tensors& outer) {
    const Tensor slope =
        grad([](const Tensors& in) { return sum(square(in[0])); }, {outer[0].detach()})[0];
    return sum(outer[0] * slope);
  };
  EXPECT_THAT(reals(grad(fn, {x})[0]), ElementsAre(4));
}

TEST_F(AutodiffTest, ATrackedTensorThatEscapesIsAPlainOneAfterwards) {
  Tensor escaped;
  const auto fn = [&](const Tensors& in) {
    escaped = in[0] * 3;
    EXPECT_TRUE(escaped.is_tracked());
    return sum(escaped);
  };
  (void)grad(fn, {f64({2}, {1})});
  EXPECT_FALSE(escaped.is_tracked());
  EXPECT_THAT(reals(escaped + 1), ElementsAre(7));
  EXPECT_THAT(
      reals(grad([&](const Tensors& in) { return sum(in[0] * escaped); }, {f64({1}, {1})})[0]),
      ElementsAre(6));
}

TEST_F(AutodiffTest, ATrackedTensorIsRefusedOnAnotherThread) {
  std::string text;
  const auto fn = [&](const Tensors& in) {
    std::thread([&] { text = thrown_text<ArgumentError>([&] { (void)(in[0] + 1); }); }).join();
    return sum(in[0]);
  };
  (void)grad(fn, {f64({2}, {1})});
  EXPECT_EQ(text, "add: an operand is tracked by a grad call of another thread: detach() it first");
}

TEST_F(AutodiffTest, AFailedOpInsideLeavesTheRestOfTheTapeGood) {
  const auto fn = [&](const Tensors& in) {
    const Tensor good = in[0] * 5;
    EXPECT_THROW((void)(good + in[0].to(other_device())), DeviceMismatch);
    EXPECT_THROW((void)(good + counting({3})), ShapeError);
    return sum(good + 1);
  };
  EXPECT_THAT(reals(grad(fn, {f64({1, 2}, {2})})[0]), ElementsAre(5, 5));
}

TEST_F(AutodiffTest, AFailureInForwardPoisonsTheGradientsThatNeedIt) {
  const Tensor targets = i64({9}, {1});
  const Tensors gradients =
      grad([&](const Tensors& in) { return cross_entropy(in[0], targets) + sum(in[1]); },
           {counting({1, 3}), f64({1}, {1})});
  EXPECT_THROW((void)gradients[0].to_vector<double>(), DeviceError);
  EXPECT_THAT(reals(gradients[1]), ElementsAre(1));
}

TEST_F(TwoLayersTest, ValueAndGradReturnsTheLossAndPathsInVisitOrder) {
  const auto result = value_and_grad(model, [&](const TwoLayers& m) { return m.loss(x); });
  EXPECT_FALSE(result.value.is_tracked());
  EXPECT_EQ(result.value.item(), model.loss(x).item());
  ASSERT_EQ(result.gradients.size(), 3U);
  EXPECT_EQ(result.gradients.path(0), "first");
  EXPECT_EQ(result.gradients.path(2), "unused");
  EXPECT_EQ(result.gradients[0].shape(), (Shape{2, 2}));
  EXPECT_THAT(reals(result.gradients.at("unused")), ElementsAre(0));
  EXPECT_FALSE(result.gradients.has_gradient(2));
  EXPECT_TRUE(result.gradients.has_gradient(0) && result.gradients.has_gradient(1));
  EXPECT_FALSE(model.first.is_tracked());
}

TEST_F(TwoLayersTest, ValueAndGradPassesASecondValueOn) {
  const auto result = value_and_grad(model, [&](const TwoLayers& m) {
    const Tensor output = matmul(x, m.first);
    return std::pair(sum(output), output);
  });
  EXPECT_FALSE(result.value.second.is_tracked());
  EXPECT_EQ(result.value.second.shape(), (Shape{1, 2}));
  EXPECT_THAT(reals(result.gradients[0]), ElementsAre(0.1, 0.1, 0.2, 0.2));
}

TEST_F(TwoLayersTest, TheHookHearsOfLastLayersFirst) {
  std::vector<std::size_t> order;
  (void)value_and_grad(
      model,
      [&](const TwoLayers& m) { return m.loss(x); },
      [&](std::size_t index, Tensor&) { order.push_back(index); });
  EXPECT_THAT(order, ElementsAre(1, 0, 2));
}

TEST_F(TwoLayersTest, TheHookHearsOfAParameterUsedTwiceOnlyWhenItIsFinal) {
  std::vector<std::size_t> order;
  std::vector<double> heard;
  (void)value_and_grad(
      model,
      [&](const TwoLayers& m) {
        const Tensor early = sum(m.unused);
        const Tensor middle = early + sum(matmul(x, m.first));
        const Tensor late = middle + sum(m.second);
        return late + sum(m.unused * m.unused);
      },
      [&](std::size_t index, Tensor& gradient) {
        order.push_back(index);
        if (index == 2) {
          heard = reals(gradient);
        }
      });
  EXPECT_THAT(order, ElementsAre(1, 0, 2));
  EXPECT_THAT(heard, ElementsAre(15));
}

TEST_F(TwoLayersTest, TheHookMayReplaceTheGradient) {
  const auto result = value_and_grad(
      model,
      [&](const TwoLayers& m) { return m.loss(x); },
      [](std::size_t index, Tensor& gradient) {
        if (index == 1) {
          gradient = ones_like(gradient);
        }
      });
  EXPECT_THAT(reals(result.gradients[1]), ElementsAre(1, 1));
}

TEST_F(AutodiffTest, SavedTensorsGoWhileTheSweepWalksBack) {
  const std::int64_t before = [&] {
    device().sync();
    return device().memory().live_tensor_count;
  }();
  {
    constexpr int kLayers = 6;
    Tensors weights;
    for (int i = 0; i < kLayers; ++i) {
      weights.push_back(counting({3, 3}) * 0.01);
    }
    std::vector<std::int64_t> live;
    detail::TapeScope scope;
    Tensors tracked;
    for (const Tensor& weight : weights) {
      tracked.push_back(scope.track(weight));
    }
    Tensor h = counting({2, 3});
    for (const Tensor& weight : tracked) {
      h = tanh(matmul(h, weight));
    }
    const Tensor loss = sum(std::move(h));
    tracked.clear();
    const Tensors gradients = scope.sweep(
        loss,
        [&](std::size_t, Tensor& gradient) {
          gradient = Tensor();
          device().sync();
          live.push_back(device().memory().live_tensor_count);
        },
        SourceLoc::current());
    EXPECT_EQ(live.size(), static_cast<std::size_t>(kLayers));
    EXPECT_TRUE(std::ranges::is_sorted(live, std::greater<>())) << ::testing::PrintToString(live);
    EXPECT_LT(live.back(), live.front());
  }
  device().sync();
  EXPECT_EQ(device().memory().live_tensor_count, before);
}

TEST_F(TwoLayersTest, NothingIsLeftBehindAfterwards) {
  (void)model.loss(x).item();
  device().sync();
  const std::int64_t before = device().memory().live_tensor_count;
  (void)value_and_grad(model, [&](const TwoLayers& m) { return m.loss(x); });
  device().sync();
  EXPECT_EQ(device().memory().live_tensor_count, before);
}

TEST_F(TwoLayersTest, AFunctionThatThrowsLeavesNothingBehind) {
  device().sync();
  const std::int64_t before = device().memory().live_tensor_count;
  const auto fn = [&](const TwoLayers& m) {
    const Tensor loss = m.loss(x);
    return sum(matmul(loss, loss));
  };
  EXPECT_THROW((void)value_and_grad(model, fn), ShapeError);
  device().sync();
  EXPECT_EQ(device().memory().live_tensor_count, before);
}

TEST_F(AutodiffTest, OnlyWhatTheGradientNeedsIsSaved) {
  const Tensor w = counting({4, 4});
  const Tensor x = counting({4, 4});
  device().sync();
  const std::int64_t before = device().memory().live_tensor_count;
  detail::TapeScope scope;
  const Tensor tracked = scope.track(w);
  const Tensor y = relu((tracked + x) * 2 - 1);
  device().sync();
  EXPECT_EQ(device().memory().live_tensor_count - before,
            1);  // only y: sums and scalings save nothing
}

TEST_F(AutodiffTest, GradientsDoNotHoldTheTape) {
  Tensor gradient = grad([](const Tensors& in) { return sum(square(in[0])); }, {counting({3})})[0];
  EXPECT_FALSE(gradient.is_tracked());
  EXPECT_EQ(detail::TensorAccess::tape(gradient), nullptr);
  const Tensor doubled = std::move(gradient) * 2;
  EXPECT_FALSE(gradient.is_valid());  // NOLINT(bugprone-use-after-move): it was owned, so it moved
  EXPECT_THAT(reals(doubled), ElementsAre(0, 4, 8));
}

}  // namespace
}  // namespace hearth
