// rotary_embedding against plain loops, and MultiHeadAttention with it: positions, caches, groups.
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/multi_head_attention.hpp>
#include <hearth/modules/rotary_embedding.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/runtime/autodiff.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kFeatures = 10;

// Row n of `values`, [rows, features], has positions[n].
std::vector<double> by_loops(std::vector<double> values,
                             const std::vector<double>& positions,
                             std::int64_t features,
                             const RotaryOptions& options) {
  const std::int64_t width = options.width == 0 ? features : options.width;
  for (std::size_t row = 0; row < positions.size(); ++row) {
    double* const at = values.data() + row * static_cast<std::size_t>(features);
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const double turn =
          std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      const double angle =
          (positions[row] + static_cast<double>(options.offset)) / options.scale * turn;
      const bool is_half = options.layout == RotaryLayout::half;
      double& a = at[is_half ? i : 2 * i];
      double& b = at[is_half ? i + width / 2 : 2 * i + 1];
      const double before = a;
      a = before * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + before * std::sin(angle);
    }
  }
  return values;
}

class Rotary : public ::testing::Test {
 public:
  [[nodiscard]] Tensor normal(const Shape& shape, DType dtype = DType::f64) {
    return random_normal(test.cpu, shape, generator, 0, 1, dtype);
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
  Generator generator{17};
};

TEST_F(Rotary, TurnsPairsByTheAnglesOfTheirPositions) {
  const Tensor x = normal({kRows, kFeatures});
  for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
    for (const RotaryOptions& options :
         {RotaryOptions{.layout = layout},
          RotaryOptions{.layout = layout, .base = 500000, .offset = 1000},
          RotaryOptions{.layout = layout, .width = 6},
          RotaryOptions{.layout = layout, .offset = -3, .width = 2, .scale = 4}}) {
      const std::vector<double> want =
          by_loops(x.to_vector<double>(), {0, 1, 2, 3, 4}, kFeatures, options);
      EXPECT_THAT(rotary_embedding(x, options).to_vector<double>(),
                  Pointwise(DoubleNear(1e-11), want));
      const Tensor view = transpose(contiguous(transpose(x)));
      EXPECT_THAT(rotary_embedding(view, options).to_vector<double>(),
                  Pointwise(DoubleNear(1e-11), want));
    }
  }
}

TEST_F(Rotary, TakesPositionsOfTheProgram) {
  const Tensor x = normal({2, 3, kRows, kFeatures});
  const Tensor positions =
      Tensor::from<std::int64_t>(test.cpu, {7, 0, 3, 3, 1, 2, 4, 6, 8, 10}, {2, 1, kRows});
  const RotaryOptions options{.offset = 2};
  std::vector<double> expanded;
  for (const std::int64_t n : {0, 0, 0, 1, 1, 1}) {
    for (std::int64_t row = 0; row < kRows; ++row) {
      expanded.push_back(static_cast<double>(
          positions.to_vector<std::int64_t>()[static_cast<std::size_t>(n * kRows + row)]));
    }
  }
  const std::vector<double> want = by_loops(x.to_vector<double>(), expanded, kFeatures, options);
  EXPECT_THAT(rotary_embedding(x, positions, options).to_vector<double>(),
              Pointwise(DoubleNear(1e-11), want));
  EXPECT_THAT(rotary_embedding(x, positions.to(DType::i32), options).to_vector<double>(),
              Pointwise(DoubleNear(1e-11), want));
  const Tensor plain = Tensor::from<std::int64_t>(test.cpu, {0, 1, 2, 3, 4});
  EXPECT_TRUE(all_equal(rotary_embedding(x, plain), rotary_embedding(x)));
}

// 2,000 positions of 128 features, as in a language model, in f32: angles are rounded once.
TEST_F(Rotary, StaysExactAtFarPositionsAndRoundsOnceInNarrowTypes) {
  const Tensor x = normal({2000, 128}, DType::f32);
  std::vector<double> positions;
  for (int i = 0; i < 2000; ++i) {
    positions.push_back(i);
  }
  const std::vector<double> want =
      by_loops(cast(x, DType::f64).to_vector<double>(), positions, 128, {});
  EXPECT_THAT(cast(rotary_embedding(x), DType::f64).to_vector<double>(),
              Pointwise(DoubleNear(1e-3), want));
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor narrow = normal({kRows, kFeatures}, dtype);
    const Tensor got = rotary_embedding(narrow);
    EXPECT_EQ(got.dtype(), dtype);
    EXPECT_TRUE(all_equal(got, cast(rotary_embedding(cast(narrow, DType::f32)), dtype)));
  }
  EXPECT_EQ(rotary_embedding(zeros(test.cpu, {2, 0, 4})).shape(), (Shape{2, 0, 4}));
}

TEST_F(Rotary, RefusesWhatHasNoPairsOrPositions) {
  const Tensor x = normal({kRows, kFeatures}, DType::f32);
  EXPECT_EQ(text_of([&] { (void)rotary_embedding(x, {.width = 12}); }),
            "rotary_embedding: the width that rotates is even and at most the 10 features, got 12");
  EXPECT_THAT(text_of([&] { (void)rotary_embedding(x, {.width = 3}); }), HasSubstr("got 3"));
  EXPECT_THAT(text_of([&] { (void)rotary_embedding(x, {.width = -2}); }), HasSubstr("got -2"));
  EXPECT_THAT(text_of([&] { (void)rotary_embedding(ones(test.cpu, {2, 3})); }), HasSubstr("got 3"));
  EXPECT_EQ(text_of([&] { (void)rotary_embedding(x, {.base = 0}); }),
            "rotary_embedding: base and scale are finite and above 0, got 0 and 1");
  EXPECT_THAT(text_of([&] { (void)rotary_embedding(x, {.scale = -1}); }), HasSubstr("and -1"));
  EXPECT_EQ(text_of([&] { (void)rotary_embedding(ones(test.cpu, {4})); }),
            "rotary_embedding: needs rows of features, [..., n, features], got f32[4]");
  EXPECT_THROW((void)rotary_embedding(x.to(DType::i64)), DtypeError);
  EXPECT_THAT(text_of([&] { (void)rotary_embedding(1.0); }), HasSubstr("rotary_embedding: "));
  EXPECT_THAT(text_of([&] { (void)rotary_embedding(Tensor()); }), HasSubstr("rotary_embedding"));
  EXPECT_EQ(text_of([&] { (void)rotary_embedding(x, ones(test.cpu, {kRows})); }),
            "rotary_embedding: positions are i32 or i64, got f32[5]");
  EXPECT_EQ(text_of([&] { (void)rotary_embedding(x, zeros(test.cpu, {4}, DType::i64)); }),
            "rotary_embedding: positions [4] do not broadcast to the rows of [5, 10]");
}

// ---- MultiHeadAttention ----

MultiHeadAttention attention_with(const RotaryOptions& rotary,
                                  std::int64_t key_heads,
                                  const Device& device,
                                  Generator& generator) {
  return {{.width = 24, .heads = 4, .key_heads = key_heads, .rotary = rotary},
          device,
          generator,
          DType::f64};
}

// Attention by its formula, with queries and keys that were turned head by head.
Tensor by_heads(const MultiHeadAttention& layer, const Tensor& x, const RotaryOptions& rotary) {
  const std::int64_t width = layer.projection.weight.size(0) / (layer.heads + 2 * layer.key_heads);
  const auto head = [&](std::int64_t number) {
    const Range rows{.start = number * width, .stop = (number + 1) * width};
    return matmul(x, transpose(slice(layer.projection.weight, 0, rows))) +
           slice(*layer.projection.bias, 0, rows);
  };
  std::vector<Tensor> heads;
  for (std::int64_t number = 0; number < layer.heads; ++number) {
    const std::int64_t group = number / (layer.heads / layer.key_heads);
    const Tensor queries = rotary_embedding(head(number), rotary);
    const Tensor keys = rotary_embedding(head(layer.heads + group), rotary);
    heads.push_back(
        attention(queries, keys, head(layer.heads + layer.key_heads + group), {.causal = true}));
  }
  return layer.out.forward(concat(heads, -1));
}

TEST_F(Rotary, AttentionTurnsQueriesAndKeysOfGroups) {
  const Tensor x = normal({7, 24});
  for (const std::int64_t key_heads : {4, 2, 1}) {
    const RotaryOptions rotary{.layout = RotaryLayout::interleaved, .offset = 3, .width = 4};
    const MultiHeadAttention layer = attention_with(rotary, key_heads, test.cpu, generator);
    const Tensor got = layer.forward(x, {.causal = true});
    EXPECT_LT(max(abs(got - by_heads(layer, x, rotary))).item<double>(), 1e-12);
    const MultiHeadAttention still(
        {.width = 24, .heads = 4, .key_heads = key_heads}, test.cpu, generator, DType::f64);
    MultiHeadAttention without = still;
    without.projection = layer.projection;
    without.out = layer.out;
    EXPECT_GT(max(abs(got - without.forward(x, {.causal = true}))).item<double>(), 1e-3);
  }
}

// Scores depend on distances: a common offset changes no result.
TEST_F(Rotary, AttentionSeesDistancesOnly) {
  const Tensor x = normal({2, 6, 24});
  MultiHeadAttention layer = attention_with({}, 2, test.cpu, generator);
  const Tensor near = layer.forward(x);
  layer.rotary->offset = 100;
  EXPECT_LT(max(abs(layer.forward(x) - near)).item<double>(), 1e-10);
  layer.rotary->scale = 2;
  EXPECT_GT(max(abs(layer.forward(x) - near)).item<double>(), 1e-4);
}

TEST_F(Rotary, StepsContinueThePositions) {
  const Tensor x = normal({2, 9, 24});
  for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
    const TransformerEncoderLayer layer(
        {.width = 24, .heads = 4, .key_heads = 2, .rotary = RotaryOptions{.layout = layout}},
        test.cpu,
        generator,
        DType::f64);
    const Tensor all = layer.forward(x, Mode::eval, {.causal = true});
    KeyValueCache cache;
    std::int64_t begin = 0;
    for (const std::int64_t count : {4, 1, 1, 3}) {
      const Range range{.start = begin, .stop = begin + count};
      const Tensor part = layer.step(slice(x, 1, range), cache);
      EXPECT_LT(max(abs(part - slice(all, 1, range))).item<double>(), 1e-12) << "at " << begin;
      begin += count;
    }
  }
}

TEST_F(Rotary, AttentionRefusesARotationThatDoesNotFit) {
  EXPECT_EQ(text_of([&] { (void)attention_with({.width = 8}, 2, test.cpu, generator); }),
            "MultiHeadAttention: the width that rotates is even and at most the 6 features, got 8");
  const MultiHeadAttention layer = attention_with({}, 2, test.cpu, generator);
  const Tensor x = normal({2, 3, 24});
  EXPECT_EQ(text_of([&] { (void)layer.attend(x, x); }),
            "MultiHeadAttention: attend() has no positions to rotate by; create the layer without "
            ".rotary");
}

TEST_F(Rotary, AttentionKeepsItsNamesInFiles) {
  const TemporaryFolder folder;
  const MultiHeadAttention from = attention_with({}, 2, test.cpu, generator);
  MultiHeadAttention to = attention_with({}, 2, test.cpu, generator);
  EXPECT_EQ(named_tensors(from).size(), 4U) << "angles are no weights";
  save_weights(from, folder.path() / "attention.safetensors");
  load_weights(to, folder.path() / "attention.safetensors");
  const Tensor x = normal({4, 24});
  EXPECT_TRUE(all_equal(from.forward(x), to.forward(x)));
}

}  // namespace
}  // namespace hearth
