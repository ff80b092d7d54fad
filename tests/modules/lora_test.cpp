// Lora: its formula, what it trains and saves, and the Linear that it merges to.
#include <hearth/modules/activations.hpp>
#include <hearth/modules/adam.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/freeze_weights.hpp>
#include <hearth/modules/lora.hpp>
#include <hearth/modules/sequential.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/runtime/autodiff.hpp>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Network {
  Lora inner;
  Linear outer;
  [[nodiscard]] Tensor forward(const Tensor& x, Mode mode) const {
    return outer.forward(relu(inner.forward(x, mode)));
  }
  HEARTH_MODULE(Network, inner, outer)
};

class LoraLayer : public ::testing::Test {
 protected:
  [[nodiscard]] Lora layer_of(const Lora::Config& config = {.rank = 2, .alpha = 3},
                              DType dtype = DType::f64) {
    Lora layer(Linear({.in = 5, .out = 4}, test.cpu, generator, dtype), config, generator);
    layer.lora_b = random_normal(test.cpu, {4, config.rank}, generator, 0, 1, dtype);
    return layer;
  }
  [[nodiscard]] Network network() {
    return {layer_of({.rank = 2}, DType::f32), Linear({.in = 4, .out = 3}, test.cpu, generator)};
  }
  [[nodiscard]] Tensor normal(const Shape& shape, DType dtype = DType::f64) {
    return random_normal(test.cpu, shape, generator, 0, 1, dtype);
  }
  static std::vector<std::string> names(const auto& module) {
    std::vector<std::string> all;
    for (const NamedTensor& each : named_tensors(module)) {
      all.push_back(each.name);
    }
    return all;
  }
  static std::string text_of(const auto& fn) {
    try {
      fn();
    } catch (const Exception& error) {
      return error.error().text;
    }
    return "nothing thrown";
  }

  TestRuntime test;
  Generator generator{29};
};

TEST_F(LoraLayer, AddsALowRankChange) {
  const Lora layer = layer_of();
  const Tensor x = normal({3, 2, 5});
  const Tensor weight = layer.base.weight + 1.5 * matmul(layer.lora_b, layer.lora_a);
  const Tensor want = matmul(x, transpose(weight)) + *layer.base.bias;
  EXPECT_LT(max(abs(layer.forward(x, Mode::eval) - want)).item<double>(), 1e-13);
  EXPECT_EQ(layer.lora_a.shape(), (Shape{2, 5}));
  EXPECT_THAT(names(layer), ElementsAre("base.weight", "base.bias", "lora_a", "lora_b"));
}

TEST_F(LoraLayer, StartsAsItsBase) {
  const Linear base({.in = 5, .out = 4, .bias = false}, test.cpu, generator);
  const Lora layer(base, {}, generator);
  const Tensor x = normal({3, 5}, DType::f32);
  EXPECT_TRUE(all_equal(layer.forward(x, Mode::train, generator), base.forward(x)));
  EXPECT_EQ(layer.lora_a.shape(), (Shape{8, 5}));
  EXPECT_GT(max(abs(layer.lora_a)).item(), 0);
}

TEST_F(LoraLayer, DropoutActsOnTheAdaptersAlone) {
  const Lora layer = layer_of({.rank = 2, .alpha = 2, .dropout = 0.5});
  const Tensor x = normal({3, 5});
  Generator first(3);
  Generator second(3);
  const Tensor dropped = dropout(x, 0.5, first);
  const Tensor change = matmul(matmul(dropped, transpose(layer.lora_a)), transpose(layer.lora_b));
  const Tensor got = layer.forward(x, Mode::train, second);
  EXPECT_LT(max(abs(got - layer.base.forward(x) - change)).item<double>(), 1e-13);
  EXPECT_THROW((void)layer.forward(x, Mode::train), ArgumentError);
}

TEST_F(LoraLayer, TrainsItsAdaptersOnly) {
  Network model = network();
  freeze_weights(model.outer);
  EXPECT_EQ(parameter_count(model), 2 * 5 + 4 * 2);
  const Tensor x = normal({16, 5}, DType::f32);
  const Tensor base = model.inner.base.weight * 1;
  Adam optimizer({.learning_rate = 1e-2});
  std::vector<double> losses;
  for (int step = 0; step < 60; ++step) {
    auto [loss, gradients] = value_and_grad(model, [&](const Network& tracked) {
      return mean(square(tracked.forward(x, Mode::train) - 1));
    });
    losses.push_back(loss.item());
    optimizer.step(model, std::move(gradients)).get();
  }
  EXPECT_LT(losses.back(), 0.8 * losses.front());
  EXPECT_TRUE(all_equal(base, model.inner.base.weight));
  const Network copy = fork(model, test.cpu);
  EXPECT_EQ(parameter_count(copy), 18) << "a copy stays frozen";
}

TEST_F(LoraLayer, MergesToALinear) {
  const Lora layer = layer_of();
  const Linear merged = layer.merged();
  const Tensor x = normal({3, 5});
  EXPECT_LT(max(abs(merged.forward(x) - layer.forward(x, Mode::eval))).item<double>(), 1e-13);
  EXPECT_EQ(parameter_count(merged), 24) << "it is not frozen";
  EXPECT_THAT(names(merged), ElementsAre("weight", "bias"));
  Sequential both(layer, merged);
  EXPECT_EQ(named_tensors(both).size(), 6U) << "nothing is tied";
  const Lora plain(Linear({.in = 5, .out = 4, .bias = false}, test.cpu, generator), {}, generator);
  EXPECT_FALSE(plain.merged().bias.has_value());
}

TEST_F(LoraLayer, MergesNarrowWeightsWithOneRounding) {
  const Lora layer = layer_of({.rank = 2, .alpha = 3}, DType::bf16);
  const auto wide = [](const Tensor& x) { return x.to(DType::f32); };
  const Tensor want =
      (wide(layer.base.weight) + 1.5 * matmul(wide(layer.lora_b), wide(layer.lora_a)))
          .to(DType::bf16);
  EXPECT_TRUE(all_equal(layer.merged().weight, want));
  EXPECT_EQ(layer.forward(normal({2, 5}, DType::bf16), Mode::eval).dtype(), DType::bf16);
}

TEST_F(LoraLayer, AdaptersAreSavedAndLoadedAlone) {
  const TemporaryFolder folder;
  Network model = network();
  LoraWeights adapters(model);
  EXPECT_THAT(names(adapters), ElementsAre("inner.lora_a", "inner.lora_b"));
  save_weights(adapters, folder.path() / "adapters.safetensors");
  Network other = fork(model, test.cpu);
  other.inner.lora_a = normal({2, 5}, DType::f32);
  other.inner.lora_b = normal({4, 2}, DType::f32);
  const Tensor x = normal({3, 5}, DType::f32);
  ASSERT_FALSE(all_equal(model.forward(x, Mode::eval), other.forward(x, Mode::eval)));
  LoraWeights others(other);
  load_weights(others, folder.path() / "adapters.safetensors");
  EXPECT_TRUE(all_equal(model.forward(x, Mode::eval), other.forward(x, Mode::eval)));
  EXPECT_THAT(text_of([&] { load_weights(other, folder.path() / "adapters.safetensors"); }),
              HasSubstr("inner.base.weight"));
  save_weights(model, folder.path() / "all.safetensors");
  load_weights(other, folder.path() / "all.safetensors");
  EXPECT_EQ(parameter_count(other), 18 + 15) << "a loaded base stays frozen";
}

TEST_F(LoraLayer, TheViewSelectsWhatIsTrained) {
  Network model = network();
  freeze_weights(model);
  EXPECT_EQ(parameter_count(model), 0);
  LoraWeights adapters(model);
  unfreeze_weights(adapters);
  EXPECT_EQ(parameter_count(model), 18);
  Linear none({.in = 1, .out = 1}, test.cpu, generator);
  EXPECT_EQ(text_of([&] { const LoraWeights view(none); }),
            "LoraWeights: Linear has no Lora layer");
  static_assert(!std::is_copy_constructible_v<LoraWeights<Network>>);
}

TEST_F(LoraLayer, RunsInASequential) {
  const Sequential chain(layer_of(), Relu{});
  EXPECT_EQ(chain.forward(normal({2, 5}), Mode::train).shape(), (Shape{2, 4}));
  EXPECT_THAT(names(chain), ElementsAre("0.base.weight", "0.base.bias", "0.lora_a", "0.lora_b"));
}

TEST_F(LoraLayer, RefusesSizesAndNamesItself) {
  const Linear base({.in = 5, .out = 4}, test.cpu, generator);
  EXPECT_EQ(text_of([&] { (void)Lora(base, {.rank = 0}, generator); }),
            "Lora: needs a rank of 1 or more and a finite alpha, got rank 0, alpha 16");
  EXPECT_THAT(text_of([&] { (void)Lora(base, {.dropout = 2}, generator); }), HasSubstr("Dropout"));
  const Lora layer = layer_of();
  EXPECT_THAT(text_of([&] {
                (void)layer.forward(normal({2, 4}), Mode::eval);
              }),
              HasSubstr("Lora: "));
  EXPECT_THAT(text_of([&] { (void)layer.forward(2.0, Mode::eval); }), HasSubstr("Lora: "));
}

}  // namespace
}  // namespace hearth
