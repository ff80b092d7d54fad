// Every layer's gradients against central differences, in f64 on the oracle.
#include <hearth/modules/activations.hpp>
#include <hearth/modules/batch_norm1d.hpp>
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/batch_norm3d.hpp>
#include <hearth/modules/conv1d.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/conv3d.hpp>
#include <hearth/modules/conv_transpose2d.hpp>
#include <hearth/modules/dropout.hpp>
#include <hearth/modules/embedding.hpp>
#include <hearth/modules/flatten.hpp>
#include <hearth/modules/group_norm.hpp>
#include <hearth/modules/gru.hpp>
#include <hearth/modules/identity.hpp>
#include <hearth/modules/instance_norm.hpp>
#include <hearth/modules/layer_norm.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/lora.hpp>
#include <hearth/modules/lstm.hpp>
#include <hearth/modules/multi_head_attention.hpp>
#include <hearth/modules/padding.hpp>
#include <hearth/modules/pooling.hpp>
#include <hearth/modules/rms_norm.hpp>
#include <hearth/modules/rnn.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/modules/transformer_decoder_layer.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>
#include <hearth/modules/upsample.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/autodiff.hpp>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

// The input is a parameter like the weights, so that its gradient is checked too.
template <class Layer>
struct Probe {
  Tensor x;
  Layer layer;
  HEARTH_MODULE(Probe, x, layer)
};
template <class Layer>
Probe(Tensor, Layer) -> Probe<Layer>;

struct Inputs {
  std::vector<Tensor> all;
  HEARTH_MODULE(Inputs, all)
};

// A loss that weighs every output differently.
Tensor weighted_sum(const Tensor& y) {
  const Tensor weights =
      arange(y.device(), 1, static_cast<double>(y.element_count()) + 1, 1, y.dtype());
  return sum(reshape(y, {-1}) * sin(weights));
}

template <class Model, class Loss>
void expect_right_gradients(const Model& model, Loss loss) {
  // A central difference is off by (third derivative)·h²/6 and by roundoff/h: about 1e-10 each.
  constexpr double kStep = 1e-5;
  constexpr double kTolerance = 1e-7;
  const Gradients gradients = value_and_grad(model, loss).gradients;
  const std::vector<NamedTensor> parameters = named_tensors(model);
  ASSERT_EQ(gradients.size(), parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<double> values = parameters[i].tensor.template to_vector<double>();
    const std::vector<double> got = gradients[i].template to_vector<double>();
    for (std::size_t at = 0; at < values.size(); ++at) {
      const auto loss_with = [&](double value) {
        std::vector<double> changed = values;
        changed[at] = value;
        Model other = model;
        other.visit("", [&](const std::string& path, Tensor& tensor) {
          if (path == parameters[i].name) {
            tensor = Tensor::from(tensor.device(), changed, tensor.shape());
          }
        });
        return loss(std::as_const(other)).template item<double>();
      };
      const double want =
          (loss_with(values[at] + kStep) - loss_with(values[at] - kStep)) / (2 * kStep);
      EXPECT_NEAR(got[at], want, kTolerance * (1 + std::fabs(want)))
          << parameters[i].name << " at " << at;
    }
  }
}

class LayerGradients : public ::testing::Test {
 protected:
  [[nodiscard]] Tensor input(const Shape& shape) {
    return random_normal(test.reference, shape, generator, 0, 1, DType::f64);
  }
  template <class Layer>
  void check(const Shape& shape, Layer layer) {
    expect_right_gradients(Probe{input(shape), std::move(layer)}, [](const auto& probe) {
      return weighted_sum(probe.layer.forward(probe.x));
    });
  }

  // Buffers are no parameters: they stay out of the probe.
  template <class Norm>
  void check_batch_norm(const Norm& norm, const Shape& shape) {
    for (const Mode mode : {Mode::train, Mode::eval}) {
      const std::vector<Tensor> inputs{input(shape), input({2}), input({2})};
      const auto loss = [&](const std::vector<Tensor>& in) {
        Norm layer = norm;
        layer.weight = in[1];
        layer.bias = in[2];
        StateUpdates updates;
        return weighted_sum(layer.forward(in[0], mode, updates));
      };
      expect_right_gradients(Inputs{inputs}, [&](const Inputs& in) { return loss(in.all); });
    }
  }

  TestRuntime test;
  Generator generator{11};
};

TEST_F(LayerGradients, OfLinear) {
  check({2, 3, 4}, Linear({.in = 4, .out = 3}, test.reference, generator, DType::f64));
}

TEST_F(LayerGradients, OfLinearWithoutBias) {
  check({2, 4}, Linear({.in = 4, .out = 3, .bias = false}, test.reference, generator, DType::f64));
}

TEST_F(LayerGradients, OfConv2d) {
  check({2, 2, 5, 4},
        Conv2d({.in = 2, .out = 2, .kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}},
               test.reference,
               generator,
               DType::f64));
}

TEST_F(LayerGradients, OfGroupedDilatedConv2d) {
  check({1, 4, 5, 5},
        Conv2d({.in = 4, .out = 2, .kernel = {2, 2}, .dilation = {2, 2}, .groups = 2},
               test.reference,
               generator,
               DType::f64));
}

TEST_F(LayerGradients, OfPooling) {
  check({2, 2, 5, 4}, MaxPool2d{{.kernel = {2, 2}}});
  check({2, 2, 5, 4}, AvgPool2d{{.kernel = {3, 2}, .padding = {1, 1}}});
}

TEST_F(LayerGradients, OfEmbedding) {
  const Tensor index = Tensor::from<std::int64_t>(test.reference, {3, 0, 3, 1}, {2, 2});
  expect_right_gradients(
      Embedding({.count = 4, .width = 3}, test.reference, generator, DType::f64),
      [&](const Embedding& layer) { return weighted_sum(layer.forward(index)); });
}

TEST_F(LayerGradients, OfActivations) {
  check({3, 4}, Relu{});
  check({3, 4}, LeakyRelu{.slope = 0.3});
  check({3, 4}, Gelu{});
  check({3, 4}, Gelu{.form = GeluForm::tanh});
  check({3, 4}, Silu{});
  check({3, 4}, Tanh{});
  check({3, 4}, Sigmoid{});
  check({3, 2, 2}, Flatten{});
  check({3, 4}, Identity{});
}

TEST_F(LayerGradients, OfNormalisation) {
  check({3, 4}, LayerNorm({.shape = {4}}, test.reference, DType::f64));
  check({2, 2, 3},
        LayerNorm({.shape = {2, 3}, .epsilon = 0.1, .bias = false}, test.reference, DType::f64));
  check({3, 4}, RmsNorm({.shape = {4}}, test.reference, DType::f64));
}

TEST_F(LayerGradients, OfNormalisationByChannel) {
  check({2, 4, 3}, GroupNorm({.groups = 2, .channels = 4}, test.reference, DType::f64));
  check({2, 4, 3},
        GroupNorm({.groups = 1, .channels = 4, .affine = false}, test.reference, DType::f64));
  check_batch_norm(BatchNorm1d({.channels = 2, .epsilon = 0.1}, test.reference, DType::f64),
                   {5, 2});
  check_batch_norm(BatchNorm1d({.channels = 2, .epsilon = 0.1}, test.reference, DType::f64),
                   {3, 2, 3});
  check_batch_norm(BatchNorm2d({.channels = 2, .epsilon = 0.1}, test.reference, DType::f64),
                   {3, 2, 2, 2});
  check_batch_norm(BatchNorm3d({.channels = 2, .epsilon = 0.1}, test.reference, DType::f64),
                   {2, 2, 1, 2, 3});
}

TEST_F(LayerGradients, OfConv1d) {
  check({2, 2, 6},
        Conv1d({.in = 2, .out = 4, .kernel = 3, .stride = 2, .padding = 1, .groups = 2},
               test.reference,
               generator,
               DType::f64));
}

TEST_F(LayerGradients, OfConv3d) {
  check({1, 2, 3, 2, 4},
        Conv3d({.in = 2,
                .out = 4,
                .kernel = {2, 1, 3},
                .stride = {1, 1, 2},
                .padding = {1, 0, 1},
                .groups = 2},
               test.reference,
               generator,
               DType::f64));
}

TEST_F(LayerGradients, OfInstanceNorm) {
  check({2, 3, 4}, InstanceNorm({.channels = 3}, test.reference, DType::f64));
  check({2, 2, 3, 2}, InstanceNorm({.channels = 2, .affine = true}, test.reference, DType::f64));
}

TEST_F(LayerGradients, OfUpsampleAndOtherPools) {
  check({1, 2, 3, 2}, Upsample{{.scale = 2}});
  check({1, 2, 5}, Upsample{{.size = 8, .mode = InterpolateMode::linear}});
  check({1, 2, 6}, AvgPool1d{{.kernel = 3, .stride = 2, .padding = 1}});
  check({1, 1, 3, 4, 2}, AvgPool3d{{.kernel = {2, 2, 1}}});
  check({1, 2, 6}, MaxPool1d{{.kernel = 3, .stride = 2, .padding = 1}});
  check({1, 1, 3, 4, 2}, MaxPool3d{{.kernel = {2, 2, 1}}});
}

TEST_F(LayerGradients, OfSmoothActivations) {
  check({2, 3}, Elu{.alpha = 0.5});
  check({2, 3}, Selu());
  check({2, 3}, Celu{.alpha = 2});
  check({2, 3}, Softplus{.beta = 2});
  check({2, 3}, Mish());
  check({2, 3}, Hardsigmoid());
  check({2, 3}, Hardswish());
  check({2, 3}, Softsign());
}

TEST_F(LayerGradients, OfConvTranspose2d) {
  check({2, 4, 3, 2},
        ConvTranspose2d({.in = 4,
                         .out = 6,
                         .kernel = {2, 3},
                         .stride = {3, 2},
                         .padding = 1,
                         .output_padding = {1, 0},
                         .groups = 2},
                        test.reference,
                        generator,
                        DType::f64));
}

TEST_F(LayerGradients, OfPaddingAndAdaptivePooling) {
  check({1, 2, 3, 4}, Pad2d{.top = 1, .left = 2, .options = {.mode = PadMode::reflect}});
  check({2, 3}, Pad1d{.right = 2});
  check({1, 2, 5, 4}, AdaptiveAvgPool2d{{2, 3}});
}

TEST_F(LayerGradients, OfRecurrentLayers) {
  const RecurrentConfig config{.in = 2, .hidden = 3, .layers = 2, .bidirectional = true};
  check({2, 3, 2}, Lstm(config, test.reference, generator, DType::f64));
  check({2, 3, 2}, Gru(config, test.reference, generator, DType::f64));
  for (const Rnn::Activation activation : {Rnn::Activation::tanh, Rnn::Activation::relu}) {
    check({2, 3, 2},
          Rnn({.in = 2, .hidden = 3, .layers = 2, .bidirectional = true, .activation = activation},
              test.reference,
              generator,
              DType::f64));
  }
}

TEST_F(LayerGradients, OfRecurrentLayersOverLengthsWithDropout) {
  const RecurrentConfig config{
      .in = 2, .hidden = 3, .layers = 2, .bidirectional = true, .dropout = 0.3};
  const Tensor lengths = Tensor::from<std::int64_t>(test.reference, {3, 1});
  const auto check_run = [&](const auto& layer) {
    expect_right_gradients(Probe{input({2, 3, 2}), layer}, [&](const auto& probe) {
      Generator same(21);
      return weighted_sum(probe.layer.run(probe.x, Mode::train, same, {.lengths = lengths}).output);
    });
  };
  check_run(Lstm(config, test.reference, generator, DType::f64));
  check_run(Gru(config, test.reference, generator, DType::f64));
}

TEST_F(LayerGradients, OfAttention) {
  check({2, 3, 4},
        MultiHeadAttention(
            {.width = 4, .heads = 2, .key_heads = 1}, test.reference, generator, DType::f64));
  const Tensor context = input({2, 2, 4});
  const MultiHeadAttention layer({.width = 4, .heads = 2}, test.reference, generator, DType::f64);
  expect_right_gradients(Probe{input({2, 3, 4}), layer}, [&](const auto& probe) {
    return weighted_sum(probe.layer.attend(probe.x, context));
  });
}

TEST_F(LayerGradients, OfATransformerEncoderLayer) {
  for (const bool norm_first : {false, true}) {
    const TransformerEncoderLayer layer({.width = 4,
                                         .heads = 2,
                                         .inner = 3,
                                         .activation = TransformerEncoderLayer::Activation::gelu,
                                         .norm_first = norm_first},
                                        test.reference,
                                        generator,
                                        DType::f64);
    expect_right_gradients(Probe{input({3, 4}), layer}, [](const auto& probe) {
      return weighted_sum(probe.layer.forward(probe.x, Mode::eval, {.causal = true}));
    });
  }
}

TEST_F(LayerGradients, OfRotaryAttention) {
  for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
    check({2, 3, 8},
          MultiHeadAttention({.width = 8,
                              .heads = 2,
                              .key_heads = 1,
                              .rotary = RotaryOptions{.layout = layout, .width = 2, .scale = 2}},
                             test.reference,
                             generator,
                             DType::f64));
  }
}

TEST_F(LayerGradients, OfATransformerDecoderLayer) {
  for (const bool norm_first : {false, true}) {
    const TransformerDecoderLayer layer({.width = 4,
                                         .heads = 2,
                                         .inner = 3,
                                         .activation = FeedForwardActivation::swiglu,
                                         .norm_first = norm_first},
                                        test.reference,
                                        generator,
                                        DType::f64);
    const Tensor memory = input({2, 4});
    expect_right_gradients(Probe{input({3, 4}), layer}, [&](const auto& probe) {
      return weighted_sum(probe.layer.forward(probe.x, memory + sum(probe.x), Mode::eval));
    });
  }
}

TEST_F(LayerGradients, OfAdapters) {
  Lora layer(Linear({.in = 4, .out = 3}, test.reference, generator, DType::f64),
             {.rank = 2, .dropout = 0.4},
             generator);
  const std::vector<Tensor> inputs{input({2, 4}), input({2, 4}), input({3, 2})};
  expect_right_gradients(Inputs{inputs}, [&](const Inputs& in) {
    Lora changed = layer;
    changed.lora_a = in.all[1];
    changed.lora_b = in.all[2];
    Generator same(21);
    return weighted_sum(changed.forward(in.all[0], Mode::train, same));
  });
}

TEST_F(LayerGradients, OfDropoutForOneMask) {
  expect_right_gradients(Probe{input({3, 4}), Dropout({.p = 0.4})}, [](const auto& probe) {
    Generator same(21);
    return weighted_sum(probe.layer.forward(probe.x, Mode::train, same));
  });
}

TEST_F(LayerGradients, OfSequential) {
  check({2, 3},
        Sequential(Linear({.in = 3, .out = 4}, test.reference, generator, DType::f64),
                   Tanh{},
                   Linear({.in = 4, .out = 2}, test.reference, generator, DType::f64)));
}

struct PositionWiseFeedForward {
  Linear inner, outer;
  Dropout dropout;
  [[nodiscard]] Tensor forward(const Tensor& x, Mode mode) const {
    return outer.forward(dropout.forward(gelu(inner.forward(x)), mode));
  }
  HEARTH_MODULE(PositionWiseFeedForward, inner, outer, dropout)
};

TEST_F(LayerGradients, OfAModuleThatAUserWrites) {
  PositionWiseFeedForward block{
      .inner = Linear({.in = 3, .out = 5}, test.reference, generator, DType::f64),
      .outer = Linear({.in = 5, .out = 3}, test.reference, generator, DType::f64),
      .dropout = Dropout({.p = 0.1})};
  expect_right_gradients(Probe{input({2, 2, 3}), block}, [](const auto& probe) {
    return weighted_sum(probe.layer.forward(probe.x, Mode::eval));
  });
}

}  // namespace
}  // namespace hearth
