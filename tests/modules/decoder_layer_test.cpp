// TransformerDecoderLayer: its formula, masks, caches, dropout; swiglu in both Transformer layers.
#include <hearth/modules/adam.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/freeze_weights.hpp>
#include <hearth/modules/swiglu.hpp>
#include <hearth/modules/transformer_decoder_layer.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/runtime/autodiff.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Activation = FeedForwardActivation;

constexpr std::int64_t kWidth = 8;

class DecoderLayer : public ::testing::Test {
 protected:
  [[nodiscard]] Tensor normal(const Shape& shape, DType dtype = DType::f64) {
    return random_normal(test.cpu, shape, generator, 0, 1, dtype);
  }
  [[nodiscard]] TransformerDecoderLayer layer_of(TransformerConfig config) {
    config.width = kWidth;
    config.heads = 4;
    config.inner = 12;
    return {config, test.cpu, generator, DType::f64};
  }
  static double difference(const Tensor& a, const Tensor& b) {
    return max(abs(a - b)).item<double>();
  }
  static std::string text_of(const auto& fn) {
    try {
      fn();
    } catch (const ArgumentError& error) {
      return error.error().text;
    }
    return "nothing thrown";
  }

  TestRuntime test;
  Generator generator{23};
};

TEST_F(DecoderLayer, IsItsFormula) {
  const Tensor x = normal({2, 5, kWidth});
  const Tensor memory = normal({2, 7, kWidth});
  for (const bool norm_first : {false, true}) {
    for (const Activation activation : {Activation::relu, Activation::gelu, Activation::swiglu}) {
      const TransformerDecoderLayer layer =
          layer_of({.key_heads = 2, .activation = activation, .norm_first = norm_first});
      const auto attend = [&](const Tensor& in) {
        return layer.attention.forward(in, {.causal = true});
      };
      const auto look_up = [&](const Tensor& in) {
        return layer.cross_attention.attend(in, memory);
      };
      const auto feed = [&](const Tensor& in) {
        const Tensor inner = layer.linear1.forward(in);
        const Tensor middle = activation == Activation::relu ? relu(inner)
                              : activation == Activation::gelu
                                  ? gelu(inner)
                                  : silu(layer.gate->forward(in)) * inner;
        return layer.linear2.forward(middle);
      };
      Tensor want = x;
      if (norm_first) {
        want = want + attend(layer.norm1.forward(want));
        want = want + look_up(layer.norm2.forward(want));
        want = want + feed(layer.norm3.forward(want));
      } else {
        want = layer.norm1.forward(want + attend(want));
        want = layer.norm2.forward(want + look_up(want));
        want = layer.norm3.forward(want + feed(want));
      }
      EXPECT_LT(difference(layer.forward(x, memory, Mode::eval), want), 1e-12);
      EXPECT_LT(difference(layer.forward(x, memory, Mode::eval, generator), want), 1e-12);
    }
  }
}

TEST_F(DecoderLayer, MasksHidePositionsOfBothSequences) {
  const TransformerDecoderLayer layer = layer_of({});
  const Tensor x = normal({2, 6, kWidth});
  const Tensor memory = normal({2, 7, kWidth});
  const Tensor first = slice(x, 1, {.stop = 4});
  const Tensor heard = slice(memory, 1, {.stop = 3});
  const Tensor want = layer.forward(first, heard, Mode::eval, {.causal = false});
  const DecoderOptions masks{.causal = false,
                             .mask = less(arange(test.cpu, 0, 6), 4),
                             .memory_mask = less(arange(test.cpu, 0, 7), 3)};
  const Tensor got = layer.forward(x, memory, Mode::eval, masks);
  EXPECT_LT(difference(slice(got, 1, {.stop = 4}), want), 1e-12);
  const Tensor causal = layer.forward(x, memory, Mode::eval);
  EXPECT_LT(difference(slice(causal, 1, {.stop = 4}), layer.forward(first, memory, Mode::eval)),
            1e-12)
      << "causal is the default";
  EXPECT_GT(difference(causal, layer.forward(x, memory, Mode::eval, {.causal = false})), 1e-3);
}

TEST_F(DecoderLayer, StepsWithACacheGiveWhatTheWholeGives) {
  const Tensor x = normal({2, 9, kWidth});
  const Tensor memory = normal({2, 5, kWidth});
  const Tensor mask = less(arange(test.cpu, 0, 5), 4);
  for (const bool is_rotary : {false, true}) {
    const TransformerDecoderLayer layer =
        layer_of({.key_heads = 2,
                  .activation = Activation::swiglu,
                  .norm_first = true,
                  .rotary = is_rotary ? std::optional(RotaryOptions{}) : std::nullopt});
    const Tensor all = layer.forward(x, memory, Mode::eval, {.memory_mask = mask});
    DecoderCache cache = layer.start(memory, mask);
    EXPECT_EQ(cache.memory.keys->shape(), (Shape{2, 2, 5, 2}));
    std::int64_t begin = 0;
    for (const std::int64_t count : {4, 1, 1, 3}) {
      const Range range{.start = begin, .stop = begin + count};
      EXPECT_LT(difference(layer.step(slice(x, 1, range), cache), slice(all, 1, range)), 1e-12);
      begin += count;
      EXPECT_EQ(cache.positions.length(), begin);
    }
    EXPECT_THROW((void)layer.step(normal({3, 1, kWidth}), cache), ShapeError);
    EXPECT_EQ(cache.positions.length(), 9);
  }
}

TEST_F(DecoderLayer, AStepThatFailsInItsMemoryLeavesTheCache) {
  const TransformerDecoderLayer layer = layer_of({});
  DecoderCache cache = layer.start(normal({2, 5, kWidth}), ones(test.cpu, {4}, DType::boolean));
  EXPECT_THROW((void)layer.step(normal({2, 1, kWidth}), cache), ShapeError);
  EXPECT_EQ(cache.positions.length(), 0);
}

TEST_F(DecoderLayer, DropoutDrawsInTrainingOnly) {
  const TransformerDecoderLayer layer = layer_of({.dropout = 0.5});
  const Tensor x = normal({2, 5, kWidth});
  const Tensor memory = normal({2, 3, kWidth});
  Generator first(3);
  Generator second(3);
  const Tensor a = layer.forward(x, memory, Mode::train, first);
  EXPECT_TRUE(all_equal(a, layer.forward(x, memory, Mode::train, second)));
  EXPECT_FALSE(all_equal(a, layer.forward(x, memory, Mode::train, first)));
  EXPECT_THROW((void)layer.forward(x, memory, Mode::train), ArgumentError);
}

TEST_F(DecoderLayer, HasThePathsOfItsPartsInFiles) {
  const TransformerDecoderLayer layer = layer_of({.activation = Activation::swiglu});
  std::vector<std::string> paths;
  for (const NamedTensor& each : named_tensors(layer)) {
    if (each.name.ends_with("weight")) {
      paths.push_back(each.name);
    }
  }
  EXPECT_THAT(paths,
              ElementsAre("attention.projection.weight",
                          "attention.out.weight",
                          "norm1.weight",
                          "cross_attention.projection.weight",
                          "cross_attention.out.weight",
                          "norm2.weight",
                          "linear1.weight",
                          "linear2.weight",
                          "gate.weight",
                          "norm3.weight"));
  const TemporaryFolder folder;
  TransformerDecoderLayer other = layer_of({.activation = Activation::swiglu});
  save_weights(layer, folder.path() / "decoder.safetensors");
  load_weights(other, folder.path() / "decoder.safetensors");
  const Tensor x = normal({4, kWidth});
  EXPECT_TRUE(all_equal(layer.forward(x, x, Mode::eval), other.forward(x, x, Mode::eval)));
}

TEST_F(DecoderLayer, ErrorsNameTheLayer) {
  const TransformerDecoderLayer layer = layer_of({});
  const Tensor x = normal({2, 3, kWidth});
  EXPECT_THAT(text_of([&] {
                (void)layer.forward(x, normal({2, 3, 5}), Mode::eval);
              }),
              HasSubstr("TransformerDecoderLayer: "));
  EXPECT_THAT(text_of([&] { (void)layer.forward(2.0, x, Mode::eval); }),
              HasSubstr("TransformerDecoderLayer: "));
  EXPECT_THAT(text_of([&] { (void)layer.start(normal({kWidth})); }),
              HasSubstr("TransformerDecoderLayer: needs positions of features"));
  DecoderCache empty;
  EXPECT_EQ(text_of([&] { (void)layer.step(x, empty); }),
            "TransformerDecoderLayer: step() needs a cache with a memory, which start(memory) "
            "makes");
  EXPECT_THAT(text_of([&] { (void)layer.cross_attention.attend(x, KeyValueCache{}); }),
              HasSubstr("got an empty KeyValueCache"));
  EXPECT_THAT(text_of([&] {
                (void)TransformerDecoderLayer({.width = 6, .heads = 4}, test.cpu, generator);
              }),
              HasSubstr("heads must divide the width"));
}

TEST_F(DecoderLayer, RunsInNarrowTypesAndTrainsBesideAFrozenPart) {
  TransformerDecoderLayer layer({.width = kWidth, .heads = 2, .dropout = 0}, test.cpu, generator);
  const Tensor x = normal({2, 4, kWidth}, DType::f32);
  const Tensor memory = normal({2, 3, kWidth}, DType::f32);
  const TransformerDecoderLayer narrow = to_dtype(layer, DType::bf16);
  const Tensor got =
      narrow.forward(x.to(DType::bf16), memory.to(DType::bf16), Mode::eval).to(DType::f32);
  EXPECT_LT(max(abs(got - layer.forward(x, memory, Mode::eval))).item(), 0.1);
  freeze_weights(layer.cross_attention);
  const Tensor before = layer.cross_attention.out.weight * 1;
  Adam optimizer({.learning_rate = 1e-2});
  std::vector<double> losses;
  for (int step = 0; step < 30; ++step) {
    auto [loss, gradients] = value_and_grad(layer, [&](const TransformerDecoderLayer& model) {
      return mean(square(model.forward(x, memory, Mode::train) - 1));
    });
    losses.push_back(loss.item());
    optimizer.step(layer, std::move(gradients)).get();
  }
  EXPECT_LT(losses.back(), 0.7 * losses.front());
  EXPECT_TRUE(all_equal(before, layer.cross_attention.out.weight));
}

// ---- swiglu ----

TEST_F(DecoderLayer, SwigluIsAGatedSilu) {
  const Tensor gate = normal({3, 4});
  const Tensor value = normal({3, 4});
  const std::vector<double> g = gate.to_vector<double>();
  const std::vector<double> v = value.to_vector<double>();
  const std::vector<double> got = swiglu(gate, value).to_vector<double>();
  for (std::size_t i = 0; i < g.size(); ++i) {
    EXPECT_NEAR(got[i], g[i] / (1 + std::exp(-g[i])) * v[i], 1e-14);
  }
  EXPECT_EQ(swiglu(gate.to(DType::bf16), value.to(DType::bf16)).dtype(), DType::bf16);
  EXPECT_EQ(swiglu(zeros(test.cpu, {0, 2}), zeros(test.cpu, {0, 2})).shape(), (Shape{0, 2}));
  EXPECT_THAT(text_of([&] { (void)swiglu(gate, normal({3, 5})); }), HasSubstr("swiglu: "));
  EXPECT_THAT(text_of([&] { (void)swiglu(gate.to(DType::i64), value); }), HasSubstr("swiglu: "));
}

TEST_F(DecoderLayer, AnEncoderLayerHasSwigluToo) {
  const TransformerEncoderLayer layer({.width = kWidth,
                                       .heads = 2,
                                       .inner = 12,
                                       .activation = Activation::swiglu,
                                       .norm_first = true,
                                       .bias = false},
                                      test.cpu,
                                      generator,
                                      DType::f64);
  ASSERT_TRUE(layer.gate.has_value());
  const Tensor x = normal({5, kWidth});
  Tensor want = x + layer.attention.forward(layer.norm1.forward(x));
  const Tensor in = layer.norm2.forward(want);
  want = want + layer.linear2.forward(swiglu(layer.gate->forward(in), layer.linear1.forward(in)));
  EXPECT_LT(difference(layer.forward(x, Mode::eval), want), 1e-12);
  const TransformerEncoderLayer plain({.width = kWidth}, test.cpu, generator);
  EXPECT_FALSE(plain.gate.has_value());
}

}  // namespace
}  // namespace hearth
