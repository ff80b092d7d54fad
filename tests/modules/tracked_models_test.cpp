// A model inside the function that value_and_grad differentiates: operations that keep its tape,
// and those that would cut it and are refused by name.
#include <hearth/modules/adam.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/modules/weight_average.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TrackedModel : public ::testing::Test {
 public:
  /// The error of the loss function's mistake, with a line or without.
  [[nodiscard]] std::string refusal_of(const std::function<Tensor(const Linear&)>& loss) const {
    try {
      static_cast<void>(value_and_grad(layer, loss));
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  TestRuntime test;
  Generator generator{1};
  Linear layer{{.in = 4, .out = 2}, test.cpu, generator};
  Tensor x = random_uniform(test.cpu, {3, 4}, generator, -1, 1);
};

// Like module.to() on parameters in PyTorch: a cast, which has a gradient.
TEST_F(TrackedModel, InAnotherTypeHasGradientsInItsOwn) {
  const auto [loss, gradients] = value_and_grad(layer, [&](const Linear& tracked) {
    const Linear narrow = to_dtype(tracked, DType::bf16);
    EXPECT_EQ(narrow.weight.dtype(), DType::bf16);
    return sum(square(narrow.forward(x.to(DType::bf16)))).to(DType::f32);
  });
  const auto exact = value_and_grad(layer, [&](const Linear& tracked) {
                       return sum(square(tracked.forward(x)));
                     }).gradients;
  EXPECT_TRUE(gradients.has_gradient(0));
  EXPECT_EQ(gradients[0].dtype(), DType::f32);
  const std::vector<float> got = gradients[0].to_vector<float>();
  const std::vector<float> want = exact[0].to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 0.1);
  }
}

TEST_F(TrackedModel, MovedIntoACopyKeepsItsTape) {
  const auto result = value_and_grad(layer, [&](const Linear& tracked) {
    Linear copy = tracked;
    const Linear moved = std::move(copy);
    return sum(moved.forward(x));
  });
  EXPECT_TRUE(result.gradients.has_gradient(0));
}

TEST_F(TrackedModel, IsNotCutFromItsTapeWithoutAWord) {
  const TemporaryFolder folder;
  save_weights(layer, folder.path());
  Optimizer optimizer = Adam({});
  save_training(layer, optimizer, {.cursor = {}}, folder.path() / "state.safetensors");
  WeightAverage average(0.9);
  average.update(layer);
  const Linear other = fork(layer, test.cpu);
  struct Cut {
    std::string call;
    std::function<void(Linear&)> cut;
  };
  const std::vector<Cut> cuts{
      {"fork", [&](Linear& net) { net = fork(net, test.cpu); }},
      {"fork", [&](Linear& net) { net = fork(net, test.reference); }},
      {"copy_values", [&](Linear& net) { copy_values(other, net); }},
      {"load_weights", [&](Linear& net) { load_weights(net, folder.path()); }},
      {"load_training",
       [&](Linear& net) {
         static_cast<void>(load_training(net, optimizer, folder.path() / "state.safetensors"));
       }},
      {"WeightAverage", [&](Linear& net) { net = average.applied_to(net); }},
      {"Adam",
       [&](Linear& net) {
         Gradients gradients({"weight", "bias"}, {ones(test.cpu, {2, 4}), ones(test.cpu, {2})});
         static_cast<void>(optimizer.step(net, std::move(gradients)));
       }},
  };
  for (const Cut& each : cuts) {
    EXPECT_THAT(refusal_of([&](const Linear& tracked) {
                  Linear copy = tracked;
                  each.cut(copy);
                  return sum(copy.forward(x));
                }),
                AllOf(HasSubstr(each.call + ": 'weight' is tracked by value_and_grad"),
                      HasSubstr("call " + each.call + " outside of the function")))
        << each.call;
  }
}

// Operations that only read a tracked model accept it.
TEST_F(TrackedModel, IsSavedAndReadAsAnyOther) {
  const TemporaryFolder folder;
  Linear into = fork(layer, test.reference);
  const auto result = value_and_grad(layer, [&](const Linear& tracked) {
    save_weights(tracked, folder.path());
    copy_values(tracked, into);
    return sum(tracked.forward(x));
  });
  load_weights(into, folder.path());
  EXPECT_EQ(into.weight.to_vector<float>(), layer.weight.to_vector<float>());
}

// A penalty on gradients: detach() would make it a constant, so the error must not suggest it.
// Beside the inner gradients as formulas: 2·y·W by the input, and 2·yᵀ·x by the weight.
TEST_F(TrackedModel, AGradInsideOfItIsDifferentiatedAgain) {
  const auto expect_same = [this](const auto& by_grad, const auto& by_formula) {
    const Gradients got = value_and_grad(layer, by_grad).gradients;
    const Gradients want = value_and_grad(layer, by_formula).gradients;
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::vector<float> values = got[i].to_vector<float>();
      const std::vector<float> exact = want[i].to_vector<float>();
      for (std::size_t k = 0; k < values.size(); ++k) {
        EXPECT_NEAR(values[k], exact[k], 1e-4 * (1 + std::abs(exact[k])));
      }
    }
  };
  expect_same(
      [&](const Linear& tracked) {
        const auto slopes =
            grad([&](const std::vector<Tensor>& in) { return sum(square(tracked.forward(in[0]))); },
                 {x});
        return sum(square(slopes[0]));
      },
      [&](const Linear& tracked) {
        return sum(square(2 * matmul(tracked.forward(x), tracked.weight)));
      });
  expect_same(
      [&](const Linear& tracked) {
        const auto inner =
            value_and_grad(tracked, [&](const Linear& net) { return sum(square(net.forward(x))); });
        return sum(square(inner.gradients[0]));
      },
      [&](const Linear& tracked) {
        return sum(square(2 * matmul(transpose(tracked.forward(x)), x)));
      });
}

// ---- values that were moved from ----

TEST_F(TrackedModel, GradientsAreUsedOnce) {
  Adam adam({});
  auto result = value_and_grad(layer, [&](const Linear& net) { return sum(net.forward(x)); });
  adam.step(layer, std::move(result.gradients)).get();
  const auto text_of = [](const auto& fn) -> std::string {
    try {
      fn();
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  // NOLINTBEGIN(bugprone-use-after-move): what it throws
  EXPECT_THAT(text_of([&] { adam.step(layer, std::move(result.gradients)).get(); }),
              HasSubstr("Adam: the gradients were used already: a step, or a std::move"));
  EXPECT_TRUE(result.gradients.is_used());
  // NOLINTEND(bugprone-use-after-move)
}

TEST_F(TrackedModel, AnOptimizerAndAnAverageThatWereMovedAwaySaySo) {
  const auto text_of = [](const auto& fn) -> std::string {
    try {
      fn();
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const auto gradients = [&] {
    return value_and_grad(layer, [&](const Linear& net) { return sum(net.forward(x)); }).gradients;
  };
  Adam adam({});
  adam.step(layer, gradients()).get();
  Adam next = std::move(adam);
  WeightAverage average(0.5);
  average.update(layer);
  const WeightAverage moved = std::move(average);
  // NOLINTBEGIN(bugprone-use-after-move): what it throws
  EXPECT_THAT(text_of([&] { adam.step(layer, gradients()).get(); }),
              HasSubstr("optimizer: it was moved from"));
  EXPECT_THAT(text_of([&] { static_cast<void>(adam.step_count()); }),
              HasSubstr("optimizer: it was moved from"));
  EXPECT_THAT(text_of([&] { average.update(layer); }),
              HasSubstr("WeightAverage: it was moved from"));
  EXPECT_THAT(text_of([&] { static_cast<void>(average.applied_to(layer)); }),
              HasSubstr("WeightAverage: it was moved from"));
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(next.step(layer, gradients()).get().step, 2);
  EXPECT_EQ(moved.update_count(), 1);
}

}  // namespace
}  // namespace hearth
