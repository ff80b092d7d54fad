// Layers of each kind, written to a file and read into others of the same sizes.
#include <hearth/modules/batch_norm1d.hpp>
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/batch_norm3d.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/conv1d.hpp>
#include <hearth/modules/group_norm.hpp>
#include <hearth/modules/gru.hpp>
#include <hearth/modules/identity.hpp>
#include <hearth/modules/lstm.hpp>
#include <hearth/modules/padding.hpp>
#include <hearth/modules/pooling.hpp>
#include <hearth/modules/rnn.hpp>
#include <hearth/modules/sequential.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LayerFiles : public ::testing::Test {
 protected:
  /// Expects equal outputs of both layers after one was read from the other's file.
  template <class Layer, class Forward>
  void expect_kept(const Layer& from, Layer to, const Forward& forward) {
    const TemporaryFolder folder;
    ASSERT_FALSE(all_equal(forward(from), forward(to)));
    save_weights(from, folder.path() / "layer.safetensors");
    load_weights(to, folder.path() / "layer.safetensors");
    EXPECT_TRUE(all_equal(forward(from), forward(to)));
  }
  template <class Layer>
  void expect_kept(const Layer& from, Layer to, const Shape& shape) {
    const Tensor x = random_normal(test.cpu, shape, generator);
    expect_kept(from, std::move(to), [&](const Layer& layer) { return layer.forward(x); });
  }

  TestRuntime test;
  Generator generator{2};
};

TEST_F(LayerFiles, KeepConvolutions) {
  const Conv1d::Config config{.in = 2, .out = 3};
  expect_kept(Conv1d(config, test.cpu, generator), Conv1d(config, test.cpu, generator), {1, 2, 5});
}

TEST_F(LayerFiles, KeepRecurrentLayers) {
  const RecurrentConfig config{.in = 2, .hidden = 3, .layers = 2, .bidirectional = true};
  expect_kept(Lstm(config, test.cpu, generator), Lstm(config, test.cpu, generator), {1, 4, 2});
  expect_kept(Gru(config, test.cpu, generator), Gru(config, test.cpu, generator), {1, 4, 2});
  const Rnn::Config plain{.in = 2, .hidden = 3, .layers = 2, .bidirectional = true};
  expect_kept(Rnn(plain, test.cpu, generator), Rnn(plain, test.cpu, generator), {1, 4, 2});
}

TEST_F(LayerFiles, KeepWeightsAndRunningStatisticsOfNorms) {
  const auto check = [&]<class Norm>(const Norm& fresh, const Shape& shape) {
    Norm trained = fresh;
    const Tensor x = random_normal(test.cpu, shape, generator, 3, 2);
    StateUpdates updates;
    (void)trained.forward(x, Mode::train, updates);
    updates.commit(trained).get();
    trained.weight = *trained.weight * 2;
    expect_kept(trained, fork(fresh, test.cpu), [&](const Norm& layer) {
      return layer.forward(x, Mode::eval);
    });
  };
  check(BatchNorm1d({.channels = 2}, test.cpu), {4, 2});
  check(BatchNorm2d({.channels = 2}, test.cpu), {4, 2, 3, 3});
  check(BatchNorm3d({.channels = 2}, test.cpu), {4, 2, 3, 1, 2});
  GroupNorm norm({.groups = 2, .channels = 4}, test.cpu);
  norm.bias = *norm.bias + 1;
  expect_kept(norm, GroupNorm({.groups = 2, .channels = 4}, test.cpu), {2, 4, 3});
}

TEST_F(LayerFiles, NameTheirTensors) {
  const auto names = [](const auto& layer) {
    std::vector<std::string> all;
    for (const NamedTensor& tensor : named_tensors(layer)) {
      all.push_back(tensor.name);
    }
    return all;
  };
  EXPECT_THAT(names(BatchNorm2d({.channels = 1}, test.cpu)),
              ElementsAre("weight", "bias", "running_mean", "running_variance"));
  EXPECT_THAT(names(BatchNorm2d({.channels = 1, .affine = false}, test.cpu)),
              ElementsAre("running_mean", "running_variance"));
  EXPECT_THAT(names(BatchNorm1d({.channels = 1}, test.cpu)),
              ElementsAre("weight", "bias", "running_mean", "running_variance"));
  EXPECT_TRUE(names(Identity{}).empty());
  EXPECT_THAT(names(Rnn({.in = 1, .hidden = 1, .bias = false}, test.cpu, generator)),
              ElementsAre("layers.0.input_weight", "layers.0.hidden_weight"));
  EXPECT_THAT(names(Gru({.in = 1, .hidden = 1}, test.cpu, generator)),
              ElementsAre("layers.0.input_weight",
                          "layers.0.hidden_weight",
                          "layers.0.input_bias",
                          "layers.0.hidden_bias"));
  EXPECT_EQ(parameter_count(BatchNorm2d({.channels = 5}, test.cpu)), 10);
}

TEST_F(LayerFiles, AnIdentityReturnsItsInput) {
  const Tensor x = random_normal(test.cpu, {2, 3}, generator);
  EXPECT_TRUE(all_equal(Identity{}.forward(x), x));
  const Tensor index = zeros(test.cpu, {4}, DType::i64);
  EXPECT_EQ(Identity{}.forward(index).dtype(), DType::i64);
  EXPECT_TRUE(all_equal(Sequential(Identity{}, Identity{}).forward(x), x));
  EXPECT_THROW((void)Identity{}.forward(1.0), ArgumentError);
}

TEST_F(LayerFiles, AreOfSizesThatFit) {
  const auto text = [](const auto& fn) {
    try {
      fn();
    } catch (const ArgumentError& error) {
      return error.error().text;
    }
    return std::string("nothing thrown");
  };
  EXPECT_EQ(text([&] { (void)GroupNorm({.groups = 3, .channels = 4}, test.cpu); }),
            "GroupNorm: groups must divide channels, and epsilon be 0 or more, got groups 3, "
            "channels 4, epsilon 1e-05");
  EXPECT_THAT(
      text([&] { (void)Conv1d({.in = 3, .out = 4, .groups = 2}, test.cpu, generator); }),
      HasSubstr("Conv1d: sizes are 1 or more and groups divides both channel counts, got in "
                "3, out 4, groups 2"));
  EXPECT_EQ((AdaptiveAvgPool2d{{2, 2}}.forward(ones(test.cpu, {1, 3, 5, 5})).shape()),
            (Shape{1, 3, 2, 2}));
  EXPECT_EQ((Pad2d{.top = 1, .right = 2}.forward(ones(test.cpu, {3, 3})).shape()), (Shape{4, 5}));
}

}  // namespace
}  // namespace hearth
