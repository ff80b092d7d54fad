// MultiHeadAttention and TransformerEncoderLayer: values, caches, masks, training.
#include <hearth/modules/adam.hpp>
#include <hearth/modules/multi_head_attention.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/autodiff.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AttentionLayers : public ::testing::Test {
 protected:
  TestRuntime devices_;
  Device device_ = devices_.cpu;
  Generator generator_{11};

  [[nodiscard]] Tensor normal(const Shape& shape, DType dtype = DType::f64) {
    return random_normal(device_, shape, generator_, 0, 1, dtype);
  }
  [[nodiscard]] MultiHeadAttention attention_layer(std::int64_t heads, std::int64_t key_heads) {
    return {{.width = 12, .heads = heads, .key_heads = key_heads}, device_, generator_, DType::f64};
  }
  static std::vector<double> values(const Tensor& x) {
    return cast(x, DType::f64).to_vector<double>();
  }
  static void expect_equal(const Tensor& got, const Tensor& want, double limit = 1e-12) {
    ASSERT_EQ(got.shape(), want.shape());
    const std::vector<double> a = values(got);
    const std::vector<double> b = values(want);
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], limit) << "element " << i;
    }
  }
};

// The layer computed head by head.
Tensor by_heads(const MultiHeadAttention& layer, const Tensor& x, const Tensor& context) {
  const std::int64_t width =
      layer.projection.weight.shape()[0] / (layer.heads + 2 * layer.key_heads);
  const auto projected = [&](const Tensor& in, std::int64_t part) {
    const Range rows{.start = part * width, .stop = (part + 1) * width};
    return matmul(in, transpose(slice(layer.projection.weight, 0, rows))) +
           slice(*layer.projection.bias, 0, rows);
  };
  std::vector<Tensor> heads;
  for (std::int64_t head = 0; head < layer.heads; ++head) {
    const std::int64_t group = head / (layer.heads / layer.key_heads);
    const Tensor scores =
        matmul(projected(x, head), transpose(projected(context, layer.heads + group))) /
        std::sqrt(static_cast<double>(width));
    heads.push_back(
        matmul(softmax(scores), projected(context, layer.heads + layer.key_heads + group)));
  }
  return layer.out.forward(concat(heads, -1));
}

TEST_F(AttentionLayers, AttentionIsThatOfEachHeadProjectedTogether) {
  const Tensor x = normal({2, 5, 12});
  const Tensor context = normal({2, 7, 12});
  for (const std::int64_t key_heads : {4, 2, 1}) {
    const MultiHeadAttention layer = attention_layer(4, key_heads);
    expect_equal(layer.forward(x), by_heads(layer, x, x));
    expect_equal(layer.attend(x, context), by_heads(layer, x, context));
  }
  const MultiHeadAttention layer = attention_layer(3, 3);
  const Tensor one = normal({5, 12});
  expect_equal(layer.forward(one), by_heads(layer, one, one));
}

TEST_F(AttentionLayers, AMaskHidesPositions) {
  const MultiHeadAttention layer = attention_layer(4, 2);
  const Tensor x = normal({2, 6, 12});
  const Tensor first = slice(x, 1, {.stop = 4});
  const Tensor sees = less(arange(device_, 0, 6), 4);
  expect_equal(slice(layer.forward(x, sees), 1, {.stop = 4}), layer.forward(first));
  expect_equal(layer.attend(first, x, sees), layer.forward(first));
}

TEST_F(AttentionLayers, StepsWithACacheGiveWhatTheWholeGives) {
  const MultiHeadAttention layer = attention_layer(4, 2);
  const Tensor x = normal({2, 9, 12});
  const Tensor all = layer.forward(x, {.causal = true});
  KeyValueCache cache;
  EXPECT_EQ(cache.length(), 0);
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t count : {4, 1, 1, 3}) {
    parts.push_back(layer.step(slice(x, 1, {.start = begin, .stop = begin + count}), cache));
    begin += count;
    EXPECT_EQ(cache.length(), begin);
  }
  expect_equal(concat(parts, 1), all);
  EXPECT_EQ(cache.keys->shape(), (Shape{2, 2, 9, 3}));
}

// Widths and types of a small language model; single positions use other loops.
TEST_F(AttentionLayers, StepsGiveWhatTheWholeGivesInF32) {
  for (const std::int64_t key_heads : {4, 1}) {
    const TransformerEncoderLayer layer(
        {.width = 48, .heads = 4, .key_heads = key_heads, .norm_first = true}, device_, generator_);
    const Tensor x = normal({1, 30, 48}, DType::f32);
    const Tensor all = layer.forward(x, Mode::eval, {.causal = true});
    KeyValueCache cache;
    std::int64_t begin = 0;
    for (const std::int64_t count : {20, 1, 1, 3, 1, 4}) {
      const Range range{.start = begin, .stop = begin + count};
      expect_equal(layer.step(slice(x, 1, range), cache), slice(all, 1, range), 2e-5);
      begin += count;
    }
  }
}

TEST_F(AttentionLayers, AStepThatFailsLeavesTheCache) {
  const MultiHeadAttention layer = attention_layer(4, 2);
  KeyValueCache cache;
  static_cast<void>(layer.step(normal({2, 3, 12}), cache));
  EXPECT_THROW(static_cast<void>(layer.step(normal({1, 1, 12}), cache)), ShapeError);
  EXPECT_EQ(cache.length(), 3);
}

TEST_F(AttentionLayers, ErrorsNameTheLayerAndTheValues) {
  const auto text = [&](const MultiHeadAttention::Config& config) -> std::string {
    try {
      const MultiHeadAttention layer(config, device_, generator_);
    } catch (const ArgumentError& error) {
      return error.error().text;
    }
    return "";
  };
  EXPECT_EQ(text({.width = 10, .heads = 4}),
            "MultiHeadAttention: heads must divide the width, and key_heads the heads, got width "
            "10, heads 4, key_heads 4, head_width 0");
  EXPECT_THAT(text({.width = 12, .heads = 4, .key_heads = 3}), HasSubstr("key_heads 3"));
  EXPECT_EQ(text({.width = 10, .heads = 4, .head_width = 3}), "");
  EXPECT_THAT(text({.width = 12, .heads = 0}), HasSubstr("heads 0"));
  try {
    static_cast<void>(attention_layer(4, 4).forward(normal({12})));
    FAIL() << "nothing was thrown";
  } catch (const ShapeError& error) {
    EXPECT_EQ(error.error().text,
              "MultiHeadAttention: needs positions of features, [..., n, width], got f64[12]");
  }
}

TEST_F(AttentionLayers, AnEncoderLayerIsItsFormula) {
  const Tensor x = normal({2, 5, 8});
  for (const bool norm_first : {false, true}) {
    const TransformerEncoderLayer layer({.width = 8,
                                         .heads = 2,
                                         .inner = 20,
                                         .dropout = 0.5,
                                         .activation = TransformerEncoderLayer::Activation::gelu,
                                         .norm_first = norm_first},
                                        device_,
                                        generator_,
                                        DType::f64);
    const auto feed = [&](const Tensor& in) {
      return layer.linear2.forward(gelu(layer.linear1.forward(in)));
    };
    Tensor want = x;
    if (norm_first) {
      want = want + layer.attention.forward(layer.norm1.forward(want));
      want = want + feed(layer.norm2.forward(want));
    } else {
      want = layer.norm1.forward(want + layer.attention.forward(want));
      want = layer.norm2.forward(want + feed(want));
    }
    expect_equal(layer.forward(x, Mode::eval), want);
    expect_equal(layer.forward(x, Mode::eval, generator_), want);
    KeyValueCache cache;
    const Tensor causal = layer.forward(x, Mode::eval, {.causal = true});
    const Tensor first = layer.step(slice(x, 1, {.stop = 2}), cache);
    expect_equal(concat({first, layer.step(slice(x, 1, {.start = 2}), cache)}, 1), causal);
  }
}

TEST_F(AttentionLayers, DropoutDrawsInTrainingOnly) {
  const TransformerEncoderLayer layer(
      {.width = 8, .heads = 2, .dropout = 0.5}, device_, generator_, DType::f64);
  const Tensor x = normal({2, 5, 8});
  Generator first(3);
  Generator second(3);
  const Tensor a = layer.forward(x, Mode::train, first);
  const Tensor b = layer.forward(x, Mode::train, second);
  EXPECT_TRUE(all_equal(a, b));
  EXPECT_FALSE(all_equal(a, layer.forward(x, Mode::train, first)));
  EXPECT_THROW(static_cast<void>(layer.forward(x, Mode::train)), ArgumentError);
}

TEST_F(AttentionLayers, HasThePathsOfItsParts) {
  const TransformerEncoderLayer layer({.width = 8, .heads = 2}, device_, generator_);
  std::vector<std::string> paths;
  for (const NamedTensor& each : named_tensors(layer)) {
    paths.push_back(each.name);
  }
  EXPECT_THAT(paths,
              ElementsAre("attention.projection.weight",
                          "attention.projection.bias",
                          "attention.out.weight",
                          "attention.out.bias",
                          "norm1.weight",
                          "norm1.bias",
                          "linear1.weight",
                          "linear1.bias",
                          "linear2.weight",
                          "linear2.bias",
                          "norm2.weight",
                          "norm2.bias"));
}

// The answer at each position is the sign of the number at the previous place, which only attention
// can move there.
TEST_F(AttentionLayers, TrainsWhatNeedsOtherPositions) {
  constexpr std::int64_t kLength = 6;
  TransformerEncoderLayer layer(
      {.width = 16, .heads = 4, .key_heads = 2, .dropout = 0, .norm_first = true},
      device_,
      generator_);
  const Tensor places = random_normal(device_, {kLength, 16}, generator_);
  const Tensor direction = random_normal(device_, {16}, generator_);
  Adam optimizer({.learning_rate = 1e-2});
  double loss = 0;
  for (int step = 0; step < 150; ++step) {
    const Tensor coins = random_bernoulli(device_, {16, kLength, 1}, generator_, 0.5);
    const Tensor signs = coins * 2 - 1;
    const Tensor x = places + signs * direction;
    const Tensor want = slice(signs, 1, {.stop = kLength - 1});
    auto [value, gradients] = value_and_grad(layer, [&](const TransformerEncoderLayer& model) {
      const Tensor y = model.forward(x, Mode::eval, {.causal = true});
      return mse_loss(slice(slice(y, 1, {.start = 1}), 2, {.stop = 1}), want);
    });
    loss = value.item<float>();
    static_cast<void>(optimizer.step(layer, std::move(gradients)));
  }
  EXPECT_LT(loss, 0.5) << "guessing gives 1 or more";
}

}  // namespace
}  // namespace hearth
