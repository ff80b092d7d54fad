#include <hearth/modules/adam.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/embedding.hpp>
#include <hearth/modules/flatten.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/sequential.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Embedding, GivesTheRowsOfItsWeight) {
  TestRuntime test;
  Generator generator(1);
  Embedding layer({.count = 3, .width = 2}, test.cpu, generator);
  layer.weight = Tensor::from(test.cpu, {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {3, 2});
  const Tensor index = Tensor::from<std::int64_t>(test.cpu, {2, 0}, {2, 1});
  const Tensor rows = layer.forward(index);
  EXPECT_EQ(rows.shape(), (Shape{2, 1, 2}));
  EXPECT_THAT(rows.to_vector<float>(), ElementsAre(5, 6, 1, 2));
}

TEST(Embedding, StartsWithAVarianceOfOne) {
  TestRuntime test;
  Generator generator(3);
  const Embedding layer({.count = 200, .width = 100}, test.cpu, generator);
  double sum = 0;
  double squares = 0;
  for (const float value : layer.weight.to_vector<float>()) {
    sum += double{value};
    squares += double{value} * double{value};
  }
  EXPECT_NEAR(sum / 20'000, 0, 0.03);
  EXPECT_NEAR(squares / 20'000, 1, 0.04);
}

TEST(Embedding, RefusesSizesAndNamesTheUsersLine) {
  TestRuntime test;
  Generator generator(1);
  EXPECT_THROW(Embedding({.count = 0, .width = 3}, test.cpu, generator), ArgumentError);
  EXPECT_THROW(Embedding({.count = 3}, test.cpu, generator), ArgumentError);
  const Embedding layer({.count = 3, .width = 2}, test.cpu, generator);
  std::uint32_t line = 0;
  try {
    line = __LINE__ + 1;
    static_cast<void>(layer.forward(ones(test.cpu, {5})));
    FAIL() << "floats are no index";
  } catch (const DtypeError& error) {
    EXPECT_EQ(error.error().location.line, line);
    EXPECT_THAT(error.error().text, HasSubstr("Embedding: the index must be i32 or i64"));
  }
}

TEST(Embedding, AnIndexBeyondItsRowsFailsWithThePathOfTheWeight) {
  TestRuntime test;
  Generator generator(1);
  const Embedding layer({.count = 3, .width = 2}, test.cpu, generator);
  const Tensor index = Tensor::from(test.cpu, {std::int32_t{3}}, {1});
  try {
    static_cast<void>(layer.forward(index).to_vector<float>());
    FAIL() << "row 3 of 3 was read";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_range);
    EXPECT_THAT(error.error().text, HasSubstr("index 3 at [0] is outside axis 0 of size 3"));
    EXPECT_EQ(error.error().module_path, "weight");
  }
}

TEST(Embedding, IsTheSameAfterSavingAndLoading) {
  TestRuntime test;
  const TemporaryFolder folder;
  Generator generator(1);
  const Embedding saved({.count = 5, .width = 3}, test.cpu, generator);
  Embedding loaded({.count = 5, .width = 3}, test.cpu, generator);
  save_weights(saved, folder.path() / "model");
  load_weights(loaded, folder.path() / "model");
  EXPECT_EQ(loaded.weight.to_vector<float>(), saved.weight.to_vector<float>());
}

TEST(Embedding, TheRowOfPaddingStaysZero) {
  TestRuntime test;
  Generator generator(1);
  for (const std::int64_t padding : {1, -3}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Embedding layer({.count = 4, .width = 2, .padding_idx = padding}, test.cpu, generator, dtype);
      EXPECT_EQ(layer.padding_idx, 1);
      const Tensor index = Tensor::from<std::int64_t>(test.cpu, {1, 3, 1, 0}, {2, 2});
      EXPECT_EQ(sum(abs(layer.forward(index)[{0, 0}])).item(), 0);
      EXPECT_GT(sum(abs(layer.forward(index)[{0, 1}])).item(), 0);
      Adam optimizer({.learning_rate = 0.1});
      for (int step = 0; step < 3; ++step) {
        auto [loss, gradients] = value_and_grad(
            layer, [&](const Embedding& m) { return sum(square(m.forward(index) - 1)); });
        static_cast<void>(loss);
        const std::vector<float> rows = gradients[0].to(DType::f32).to_vector<float>();
        EXPECT_THAT(std::vector<float>(rows.begin() + 2, rows.begin() + 4), ElementsAre(0, 0));
        EXPECT_NE(rows[6], 0);
        EXPECT_NE(rows[0], 0);
        static_cast<void>(optimizer.step(layer, std::move(gradients)));
      }
      EXPECT_EQ(sum(abs(layer.weight[1])).item(), 0);
    }
  }
}

// Look-ups return what the row holds, tracked or not: a file may have other values in it.
TEST(Embedding, ReadsTheRowOfPaddingThatAFileGave) {
  TestRuntime test;
  Generator generator(1);
  Embedding layer({.count = 3, .width = 2, .padding_idx = 0}, test.cpu, generator);
  layer.weight = Tensor::from(test.cpu, {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {3, 2});
  const Tensor index = Tensor::from<std::int64_t>(test.cpu, {0, 2});
  EXPECT_THAT(layer.forward(index).to_vector<float>(), ElementsAre(1, 2, 5, 6));
  const auto [loss, gradients] =
      value_and_grad(layer, [&](const Embedding& m) { return sum(m.forward(index)); });
  EXPECT_EQ(loss.item(), 14);
  EXPECT_THAT(gradients[0].to_vector<float>(), ElementsAre(0, 0, 0, 0, 1, 1));
  const Embedding plain({.count = 3, .width = 2}, test.cpu, generator);
  EXPECT_FALSE(plain.padding_idx.has_value());
}

TEST(Embedding, RefusesAPaddingThatIsNoRow) {
  TestRuntime test;
  Generator generator(1);
  for (const std::int64_t padding : {4, -5}) {
    try {
      (void)Embedding({.count = 4, .width = 2, .padding_idx = padding}, test.cpu, generator);
      FAIL();
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.error().text, HasSubstr("Embedding: padding_idx"));
      EXPECT_THAT(error.error().text, HasSubstr("is no row of 4"));
    }
  }
}

// Predicts the next word of a text: the rows that embed words also score them.
struct NextWord {
  Embedding words;
  Linear inner, head;

  [[nodiscard]] Tensor forward(const Tensor& index) const {
    return head.forward(tanh(inner.forward(flatten(words.forward(index), 1))));
  }
  HEARTH_MODULE(NextWord, words, inner, head)
};

NextWord next_word(const Device& device, std::int64_t count, Generator& generator) {
  constexpr std::int64_t kWidth = 16;
  NextWord model{.words = Embedding({.count = count, .width = kWidth}, device, generator),
                 .inner = Linear({.in = 2 * kWidth, .out = kWidth}, device, generator),
                 .head = Linear({.in = kWidth, .out = count, .bias = false}, device, generator)};
  model.head.weight = model.words.weight;
  return model;
}

TEST(Embedding, TiedToAHeadIsOneParameterWithBothGradients) {
  TestRuntime test;
  Generator generator(5);
  const NextWord model = next_word(test.cpu, 7, generator);
  EXPECT_EQ(named_parameters(model).size(), 3U);
  const Tensor index = Tensor::from<std::int64_t>(test.cpu, {1, 2}, {1, 2});
  const Tensor target = Tensor::from<std::int64_t>(test.cpu, {4}, {1});
  const Gradients tied = value_and_grad(model, [&](const NextWord& m) {
                           return cross_entropy(m.forward(index), target);
                         }).gradients;
  NextWord apart = model;
  apart.head.weight = model.words.weight * 1.0;
  const Gradients each = value_and_grad(apart, [&](const NextWord& m) {
                           return cross_entropy(m.forward(index), target);
                         }).gradients;
  ASSERT_EQ(tied.size(), 3U);
  ASSERT_EQ(each.size(), 4U);
  const std::vector<float> both = (each[0] + each[3]).to_vector<float>();
  const std::vector<float> one = tied[0].to_vector<float>();
  for (std::size_t i = 0; i < both.size(); ++i) {
    EXPECT_NEAR(one[i], both[i], 1e-6) << i;
  }
}

TEST(Embedding, LearnsWhatComesNext) {
  TestRuntime test;
  Generator generator(7);
  constexpr std::int64_t kWords = 11;
  // w follows u and v if w = u + 2v modulo 11: each pair of words once.
  std::vector<std::int64_t> pairs;
  std::vector<std::int64_t> next;
  for (std::int64_t u = 0; u < kWords; ++u) {
    for (std::int64_t v = 0; v < kWords; ++v) {
      pairs.insert(pairs.end(), {u, v});
      next.push_back((u + 2 * v) % kWords);
    }
  }
  const Tensor index = Tensor::from(test.cpu, pairs, {kWords * kWords, 2});
  const Tensor targets = Tensor::from(test.cpu, next, {kWords * kWords});
  NextWord model = next_word(test.cpu, kWords, generator);
  Adam optimizer({.learning_rate = 2e-2});
  const double before = cross_entropy(model.forward(index), targets).item();
  for (int step = 0; step < 300; ++step) {
    auto [loss, gradients] = value_and_grad(
        model, [&](const NextWord& m) { return cross_entropy(m.forward(index), targets); });
    static_cast<void>(optimizer.step(model, std::move(gradients)));
  }
  EXPECT_GT(before, 1.5);
  EXPECT_LT(cross_entropy(model.forward(index), targets).item(), 0.1);
  const Tensor hits = equal(argmax(model.forward(index), 1), targets);
  EXPECT_GT(sum(cast(hits, DType::f32)).item(), 115) << "of 121";
  EXPECT_EQ(detail::TensorAccess::impl(model.words.weight),
            detail::TensorAccess::impl(model.head.weight));
}

TEST(Embedding, StartsASequential) {
  TestRuntime test;
  Generator generator(1);
  const Sequential model(Embedding({.count = 5, .width = 4}, test.cpu, generator),
                         Flatten{},
                         Linear({.in = 8, .out = 3}, test.cpu, generator));
  EXPECT_EQ(model.forward(zeros(test.cpu, {6, 2}, DType::i64)).shape(), (Shape{6, 3}));
}

}  // namespace
}  // namespace hearth
