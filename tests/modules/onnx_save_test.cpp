// save_onnx: each layer's file gives the layer's results at other batch sizes, and what cannot be
// written is refused as a whole.
#include <hearth/modules/onnx_save.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/modules/activations.hpp>
#include <hearth/modules/adam.hpp>
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
#include <hearth/modules/onnx_model.hpp>
#include <hearth/modules/padding.hpp>
#include <hearth/modules/pooling.hpp>
#include <hearth/modules/rms_norm.hpp>
#include <hearth/modules/rnn.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/modules/state_updates.hpp>
#include <hearth/modules/transformer_decoder_layer.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>
#include <hearth/modules/upsample.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recording.hpp>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using namespace hearth::testing;  // NOLINT: the helpers of tests
namespace fs = std::filesystem;

void expect_near(const Tensor& got, const Tensor& want, DType dtype, double length) {
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.dtype(), want.dtype());
  const std::vector<double> a = cast(got, DType::f64).to_vector<double>();
  const std::vector<double> b = cast(want, DType::f64).to_vector<double>();
  const Tolerance allowed = tolerance(testing::Precision::sum, dtype, length, 2);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(allowed.accepts(a[i], b[i])) << i << ": " << a[i] << ", not " << b[i];
  }
}

// A file of one layer, in all uses of it: files of the folder are replaced by each save.
class OnnxSave : public ::testing::Test {
 protected:
  [[nodiscard]] Tensor random(const Shape& shape, DType dtype = DType::f32) {
    return random_normal(devices.cpu, shape, generator, 0, 1, dtype);
  }
  [[nodiscard]] OnnxModel again() const {
    const OnnxReport report = check_onnx(file);
    EXPECT_TRUE(report.problems.empty()) << report.problem_table();
    EXPECT_TRUE(report.sync_points.empty()) << report.to_string();
    return load_onnx(file, devices.cpu);
  }
  template <class Model>
  static Tensor evaluate(const Model& model, const Tensor& x) {
    if constexpr (requires { model.forward(x, Mode::eval); }) {
      return model.forward(x, Mode::eval);
    } else {
      return model.forward(x);
    }
  }

  // Saves with `example`, and compares at batches of other sizes. `length`: terms of a sum.
  template <class Model>
  void round_trip(const Model& model, const Tensor& example, double length = 64) {
    save_onnx(model, file, example);
    const OnnxModel loaded = again();
    for (const std::int64_t batch : {1, 2, 5, 16}) {
      std::vector<std::int64_t> rows;
      for (std::int64_t row = 0; row < batch; ++row) {
        rows.push_back((row * 5 + 1) % example.shape()[0]);
      }
      const Tensor x = index_select(example, 0, Tensor::from(devices.cpu, rows));
      SCOPED_TRACE(batch);
      const Tensor want = evaluate(model, x);
      expect_near(loaded.forward(x), want, want.dtype(), length);
    }
  }
  // The table of problems of a save that fails, which leaves the old file.
  template <class Save>
  [[nodiscard]] std::vector<std::string> problems_of(const Save& save) const {
    std::ofstream(file, std::ios::binary) << "old";
    std::vector<std::string> reasons;
    try {
      save();
      ADD_FAILURE() << "nothing was refused";
    } catch (const OnnxError& error) {
      for (const OnnxProblem& problem : error.report().problems) {
        reasons.push_back(problem.op + ": " + problem.reason);
        EXPECT_FALSE(problem.help.empty()) << problem.reason;
        EXPECT_THAT(error.what(), HasSubstr(problem.reason));
      }
    }
    std::string text;
    std::ifstream(file) >> text;
    EXPECT_EQ(text, "old");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
    return reasons;
  }

  // NOLINTBEGIN(readability-identifier-naming): words of each test
  TemporaryFolder folder;
  fs::path file = folder.path() / "model.onnx";
  TestRuntime devices;
  Generator generator{7};
  // NOLINTEND(readability-identifier-naming)
};

TEST_F(OnnxSave, WritesAChainOfLayers) {
  const Sequential model(Linear({.in = 5, .out = 7}, devices.cpu, generator),
                         Relu(),
                         Dropout({.p = 0.5}),
                         Linear({.in = 7, .out = 3, .bias = false}, devices.cpu, generator));
  round_trip(model, random({4, 5}));
  const OnnxReport report = check_onnx(file);
  EXPECT_EQ(report.producer, "hearth");
  EXPECT_EQ(report.opsets, (std::map<std::string, std::int64_t>{{"", 18}}));
  EXPECT_EQ(report.inputs.at(0).name, "input");
  EXPECT_THAT(report.inputs.at(0).dims, ElementsAre("batch", "5"));
  EXPECT_EQ(report.outputs.at(0).name, "output");
  EXPECT_THAT(report.outputs.at(0).dims, ElementsAre("batch", "3"));
  EXPECT_EQ(report.ops,
            (std::map<std::string, std::int64_t>{
                {"Gemm", 1}, {"MatMul", 1}, {"Relu", 1}, {"Transpose", 1}}));
}

TEST_F(OnnxSave, KeepsNamesAndBitsOfWeights) {
  const Sequential model(Linear({.in = 5, .out = 7}, devices.cpu, generator),
                         Linear({.in = 7, .out = 3}, devices.cpu, generator));
  save_onnx(model, file, random({4, 5}));
  const OnnxModel loaded = again();
  std::map<std::string, Tensor> written;
  for (const NamedTensor& each : named_parameters(loaded)) {
    written.emplace(each.name, each.tensor);
  }
  ASSERT_EQ(written.size(), 4U);
  for (const NamedTensor& each : named_parameters(model)) {
    EXPECT_TRUE(all_equal(written.at(each.name), each.tensor)) << each.name;
  }
}

TEST_F(OnnxSave, WritesConvolutionsAndPools) {
  round_trip(Conv2d({.in = 4,
                     .out = 6,
                     .kernel = {3, 2},
                     .stride = {2, 1},
                     .padding = {1, 0},
                     .dilation = {1, 2},
                     .groups = 2},
                    devices.cpu,
                    generator),
             random({3, 4, 9, 11}));
  round_trip(Conv2d({.in = 3, .out = 2, .kernel = 1, .bias = false}, devices.cpu, generator),
             random({2, 3, 5, 7}));
  round_trip(
      Conv1d({.in = 3, .out = 4, .kernel = 5, .stride = 2, .padding = 2}, devices.cpu, generator),
      random({2, 3, 13}));
  round_trip(MaxPool2d{{.kernel = {3, 2}, .stride = 2, .padding = {1, 0}}}, random({3, 2, 7, 9}));
  round_trip(AvgPool2d{{.kernel = 3, .stride = Size2d{1, 2}, .padding = 1}}, random({3, 2, 7, 9}));
  round_trip(AdaptiveAvgPool2d{{2, 3}}, random({2, 3, 8, 9}));
}

TEST_F(OnnxSave, WritesTransposedConvolutions) {
  round_trip(ConvTranspose2d({.in = 4,
                              .out = 6,
                              .kernel = {3, 2},
                              .stride = {2, 3},
                              .padding = {1, 0},
                              .output_padding = {1, 2},
                              .groups = 2},
                             devices.cpu,
                             generator),
             random({3, 4, 5, 3}));
  round_trip(
      ConvTranspose2d(
          {.in = 2, .out = 3, .kernel = 2, .dilation = 2, .bias = false}, devices.cpu, generator),
      random({2, 2, 3, 4}));
}

TEST_F(OnnxSave, WritesVolumesAndRows) {
  round_trip(Conv3d({.in = 4,
                     .out = 6,
                     .kernel = {3, 2, 1},
                     .stride = {1, 2, 1},
                     .padding = {1, 0, 0},
                     .groups = 2},
                    devices.cpu,
                    generator),
             random({2, 4, 3, 5, 4}));
  round_trip(MaxPool3d{{.kernel = {2, 3, 1}, .stride = 2, .padding = {1, 1, 0}}},
             random({2, 2, 4, 5, 3}));
  round_trip(AvgPool3d{{.kernel = 2}}, random({2, 2, 4, 5, 3}));
  round_trip(MaxPool1d{{.kernel = 3, .stride = 2, .padding = 1}}, random({3, 2, 9}));
  round_trip(AvgPool1d{{.kernel = 3}}, random({3, 2, 9}));
}

TEST_F(OnnxSave, WritesUpsample) {
  const Tensor x = random({3, 2, 5, 4});
  round_trip(Upsample{{.scale = 2}}, x);
  round_trip(Upsample{{.size = {7, 3}, .mode = InterpolateMode::nearest_exact}}, x);
  round_trip(Upsample{{.scale = {1.5, 2}, .mode = InterpolateMode::linear}}, x);
  round_trip(Upsample{{.size = {9, 7}, .mode = InterpolateMode::cubic, .align_corners = true}}, x);
  round_trip(Upsample{{.size = {2, 2}, .mode = InterpolateMode::linear, .antialias = true}},
             random({2, 1, 12, 20}));
}

TEST_F(OnnxSave, WritesNorms) {
  using Ops = std::map<std::string, std::int64_t>;
  round_trip(LayerNorm({.shape = {7}}, devices.cpu), random({3, 5, 7}));
  EXPECT_EQ(check_onnx(file).ops, (Ops{{"LayerNormalization", 1}}));
  round_trip(LayerNorm({.shape = {5, 7}}, devices.cpu), random({3, 5, 7}));
  round_trip(RmsNorm({.shape = {7}}, devices.cpu), random({3, 7}));
  round_trip(GroupNorm({.groups = 3, .channels = 6}, devices.cpu), random({3, 6, 5, 4}), 128);
  round_trip(InstanceNorm({.channels = 6, .affine = true}, devices.cpu), random({3, 6, 5, 4}), 64);
}

TEST_F(OnnxSave, WritesTheStatisticsOfABatchNormThatTrained) {
  BatchNorm2d norm({.channels = 3}, devices.cpu);
  for (int step = 0; step < 3; ++step) {
    StateUpdates updates;
    static_cast<void>(norm.forward(add(random({8, 3, 4, 4}), 2.0), Mode::train, updates));
    updates.commit(norm).get();
  }
  const Tensor x = random({4, 3, 5, 3});
  round_trip(norm, x);
  EXPECT_LT(mean(again().forward(x)).item<float>(), -0.3F) << "the running mean is above 0";
  EXPECT_EQ(check_onnx(file).ops, (std::map<std::string, std::int64_t>{{"BatchNormalization", 1}}));
  std::vector<std::string> names;
  for (const NamedTensor& each : named_parameters(again())) {
    names.push_back(each.name);
  }
  EXPECT_THAT(names, UnorderedElementsAre("weight", "bias")) << "statistics are not trained";
  round_trip(BatchNorm2d({.channels = 3, .affine = false}, devices.cpu), x);
  EXPECT_EQ(check_onnx(file).ops.count("BatchNormalization"), 1U);
}

TEST_F(OnnxSave, WritesABatchNormOfEachRankAsOneNode) {
  const auto check = [&](auto norm, const Tensor& x) {
    StateUpdates updates;
    static_cast<void>(norm.forward(add(x, 2.0), Mode::train, updates));
    updates.commit(norm).get();
    round_trip(norm, x);
    EXPECT_EQ(check_onnx(file).ops,
              (std::map<std::string, std::int64_t>{{"BatchNormalization", 1}}));
  };
  check(BatchNorm1d({.channels = 3}, devices.cpu), random({8, 3}));
  check(BatchNorm1d({.channels = 3, .affine = false}, devices.cpu), random({8, 3}));
  check(BatchNorm1d({.channels = 3}, devices.cpu), random({8, 3, 5}));
  check(BatchNorm3d({.channels = 3}, devices.cpu), random({8, 3, 2, 4, 5}));
}

TEST_F(OnnxSave, WritesFunctionsOfElements) {
  const Tensor x = random({4, 3, 5});
  round_trip(Relu(), x);
  round_trip(LeakyRelu{.slope = 0.2}, x);
  round_trip(Gelu(), x);
  round_trip(Gelu{GeluForm::tanh}, x);
  round_trip(Silu(), x);
  round_trip(Tanh(), x);
  round_trip(Sigmoid(), x);
  round_trip(Elu{.alpha = 0.5}, x);
  round_trip(Selu(), x);
  round_trip(Celu{.alpha = 2}, x);
  round_trip(Softplus{.beta = 2}, x);
  round_trip(Mish(), x);
  round_trip(Hardsigmoid(), x);
  round_trip(Hardswish(), x);
  round_trip(Softsign(), x);
}

TEST_F(OnnxSave, WritesLayersThatOnlyMoveElements) {
  const Tensor x = random({4, 3, 5});
  round_trip(Flatten(), x);
  round_trip(Flatten{2}, random({4, 3, 5, 2}));
  round_trip(Pad1d{.left = 2, .right = 1}, x);
  round_trip(Pad2d{1, 0, 2, 3, {.mode = PadMode::reflect}}, random({4, 2, 5, 7}));
  round_trip(Dropout({.p = 0.3}), x);
}

TEST_F(OnnxSave, WritesEmbeddings) {
  const Tensor places =
      Tensor::from(devices.cpu, std::vector<std::int64_t>{0, 3, 8, 1, 4, 4}, {3, 2});
  round_trip(Embedding({.count = 9, .width = 5}, devices.cpu, generator), places);
  EXPECT_EQ(check_onnx(file).inputs.at(0).type, OnnxType::i64);
  round_trip(Embedding({.count = 9, .width = 5, .padding_idx = 0}, devices.cpu, generator), places);
}

TEST_F(OnnxSave, WritesAttentionAndTransformerLayers) {
  round_trip(MultiHeadAttention({.width = 8, .heads = 4}, devices.cpu, generator),
             random({3, 5, 8}));
  round_trip(MultiHeadAttention({.width = 8, .heads = 4, .key_heads = 2}, devices.cpu, generator),
             random({3, 5, 8}));
  for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
    round_trip(MultiHeadAttention({.width = 8,
                                   .heads = 2,
                                   .key_heads = 1,
                                   .rotary = RotaryOptions{.layout = layout, .width = 2}},
                                  devices.cpu,
                                  generator),
               random({3, 5, 8}));
  }
  round_trip(
      TransformerEncoderLayer({.width = 8, .heads = 2, .activation = FeedForwardActivation::swiglu},
                              devices.cpu,
                              generator),
      random({3, 5, 8}),
      256);
  round_trip(
      TransformerEncoderLayer({.width = 8, .heads = 2, .norm_first = true}, devices.cpu, generator),
      random({3, 5, 8}),
      256);
}

TEST_F(OnnxSave, WritesRecurrentLayersForTheLengthOfTheExample) {
  round_trip(Lstm({.in = 3, .hidden = 4}, devices.cpu, generator), random({3, 6, 3}));
  round_trip(
      Gru({.in = 3, .hidden = 4, .layers = 2, .bidirectional = true}, devices.cpu, generator),
      random({3, 6, 3}));
  round_trip(Rnn({.in = 3, .hidden = 4}, devices.cpu, generator), random({3, 6, 3}));
  EXPECT_THAT(check_onnx(file).inputs.at(0).dims, ElementsAre("batch", "6", "3"));
}

struct TextDecoder {
  TransformerDecoderLayer layer;
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return layer.forward(x, x * 0.5, Mode::eval);
  }
  HEARTH_MODULE(TextDecoder, layer)
};

TEST_F(OnnxSave, WritesADecoderLayerAndAdapters) {
  round_trip(TextDecoder{TransformerDecoderLayer(
                 {.width = 8, .heads = 2, .norm_first = true}, devices.cpu, generator)},
             random({3, 5, 8}),
             256);
  Lora lora(Linear({.in = 6, .out = 4}, devices.cpu, generator), {.rank = 2}, generator);
  lora.lora_b = random({4, 2});
  round_trip(lora, random({3, 6}));
  round_trip(Sequential(Identity{}, Linear({.in = 6, .out = 4}, devices.cpu, generator)),
             random({3, 6}));
}

TEST_F(OnnxSave, WritesTheLengthsOfSequencesAsAnInput) {
  const Gru model({.in = 3, .hidden = 4, .bidirectional = true}, devices.cpu, generator);
  const Tensor x = random({3, 6, 3});
  const Tensor lengths = Tensor::from<std::int64_t>(devices.cpu, {6, 2, 4});
  const auto forward = [](const Gru& gru, std::span<const Tensor> in) {
    return gru.run(in[0], Mode::eval, {.lengths = in[1]}).output;
  };
  save_onnx(
      model, file, {{.name = "x", .example = x}, {.name = "ends", .example = lengths}}, forward);
  const Tensor others = Tensor::from<std::int64_t>(devices.cpu, {1, 5, 3});
  const Tensor got = again().run({{"x", x}, {"ends", others}}).at("output").tensor();
  expect_near(got, forward(model, std::vector{x, others}), DType::f32, 64);
}

TEST_F(OnnxSave, WritesSixteenBitModels) {
  const Sequential network(Conv2d({.in = 2, .out = 4, .padding = 1}, devices.cpu, generator),
                           Relu(),
                           MaxPool2d(),
                           Flatten(),
                           LayerNorm({.shape = {24}}, devices.cpu),
                           Linear({.in = 24, .out = 3}, devices.cpu, generator));
  for (const DType dtype : {DType::f16, DType::bf16}) {
    SCOPED_TRACE(name(dtype));
    const auto narrow = to_dtype(network, dtype);
    const Tensor example = random({3, 2, 4, 6}, dtype);
    save_onnx(narrow, file, example);
    const OnnxModel loaded = again();
    EXPECT_EQ(named_parameters(loaded).front().tensor.dtype(), dtype);
    const Tensor x = random({5, 2, 4, 6}, dtype);
    // Each of five layers rounds once, perhaps the other way.
    const Tensor got = cast(loaded.forward(x), DType::f32);
    const Tensor want = cast(narrow.forward(x, Mode::eval), DType::f32);
    EXPECT_LT(max(abs(sub(got, want))).item<double>(), 16 * unit_roundoff(dtype));
  }
}

struct Residual {
  Linear inner;
  LayerNorm norm;
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    const Tensor y = add(x, inner.forward(norm.forward(x)));
    const std::int64_t rows = y.shape()[0];
    return reshape(concat({y, y * 2.0}, -1), {rows * 2, -1});
  }
  HEARTH_MODULE(Residual, inner, norm)
};

TEST_F(OnnxSave, WritesAForwardPassOfAProgram) {
  const Residual model{Linear({.in = 6, .out = 6}, devices.cpu, generator),
                       LayerNorm({.shape = {6}}, devices.cpu)};
  round_trip(model, random({3, 6}));
}

// Its ops are those of a LayerNorm, but for the weight or the axis.
struct AlmostNorm {
  Tensor weight;
  int axis = -1;
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    const Tensor distance = sub(x, mean(x, {axis}, {.keep_dims = true}));
    const Tensor squares = mean(square(distance), {axis}, {.keep_dims = true});
    return mul(mul(distance, rsqrt(add(squares, 1e-5))), weight);
  }
  HEARTH_MODULE(AlmostNorm, weight)
};

TEST_F(OnnxSave, WritesNormsOfOtherAxesAsTheirOps) {
  const Tensor x = random({3, 5, 7});
  const auto count = [&] { return check_onnx(file).ops.count("LayerNormalization"); };
  round_trip(AlmostNorm{random({7})}, x);
  EXPECT_EQ(count(), 1U);
  round_trip(AlmostNorm{random({5, 7})}, x);
  EXPECT_EQ(count(), 0U);
  round_trip(AlmostNorm{random({1})}, x);
  EXPECT_EQ(count(), 0U);
  round_trip(AlmostNorm{random({7}), 1}, x);
  EXPECT_EQ(count(), 0U);
}

struct TwoHeads {
  Linear left, right;
  HEARTH_MODULE(TwoHeads, left, right)
};

TEST_F(OnnxSave, WritesSeveralInputsAndResultsByName) {
  const TwoHeads model{Linear({.in = 4, .out = 2}, devices.cpu, generator),
                       Linear({.in = 4, .out = 3}, devices.cpu, generator)};
  const Tensor a = random({5, 4});
  const Tensor b = random({5, 4});
  save_onnx(model,
            file,
            {{.name = "a", .example = a}, {.name = "b", .example = b}},
            [](const TwoHeads& net, std::span<const Tensor> x) {
              return std::vector<NamedTensor>{
                  {"left", net.left.forward(x[0])},
                  {"both", concat({net.left.forward(x[0]), net.right.forward(x[1])}, 1)},
                  {"copy", x[1]},
                  {"weight", net.left.weight}};
            });
  const OnnxModel loaded = again();
  OnnxValues results = loaded.run({{"a", a}, {"b", b}});
  ASSERT_EQ(results.size(), 4U);
  expect_near(results.at("left").tensor(), model.left.forward(a), DType::f32, 4);
  EXPECT_EQ(results.at("both").tensor().shape(), (Shape{5, 5}));
  EXPECT_TRUE(all_equal(results.at("copy").tensor(), b));
  EXPECT_TRUE(all_equal(results.at("weight").tensor(), model.left.weight));
}

TEST_F(OnnxSave, TellsInputsWithOneExampleApart) {
  const TwoHeads model{Linear({.in = 4, .out = 2}, devices.cpu, generator),
                       Linear({.in = 4, .out = 2}, devices.cpu, generator)};
  const Tensor a = random({5, 4});
  const Tensor b = random({5, 4});
  const auto forward = [](const TwoHeads& net, std::span<const Tensor> x) {
    return sub(net.left.forward(x[0]), net.right.forward(x[1]));
  };
  save_onnx(model,
            file,
            {{.name = "a", .example = a, .dims = {}}, {.name = "b", .example = a, .dims = {}}},
            forward);
  const Tensor got = again().run({{"a", a}, {"b", b}}).at("output").tensor();
  expect_near(got, forward(model, std::vector{a, b}), DType::f32, 8);
}

TEST_F(OnnxSave, WritesTiedWeightsOnce) {
  TwoHeads model{Linear({.in = 4, .out = 4}, devices.cpu, generator),
                 Linear({.in = 4, .out = 4}, devices.cpu, generator)};
  model.right = model.left;
  const Tensor x = random({3, 4});
  const auto forward = [](const TwoHeads& net, std::span<const Tensor> in) {
    return net.right.forward(net.left.forward(in[0]));
  };
  save_onnx(model, file, {{.example = x}}, forward);
  EXPECT_EQ(parameter_count(again()), 20);
  expect_near(again().forward(x), forward(model, std::vector{x}), DType::f32, 8);
}

TEST_F(OnnxSave, WritesNamedAxesOfAnySize) {
  const TransformerEncoderLayer model(
      {.width = 8, .heads = 2, .rotary = RotaryOptions{}}, devices.cpu, generator);
  const auto forward = [](const TransformerEncoderLayer& net, std::span<const Tensor> x) {
    return net.forward(x[0], Mode::eval, {.causal = true});
  };
  save_onnx(model, file, {{.example = random({2, 5, 8}), .dims = {"batch", "length"}}}, forward);
  const OnnxModel loaded = again();
  EXPECT_THAT(loaded.report().outputs.at(0).dims, ElementsAre("batch", "length", "8"));
  for (const Shape& shape : {Shape{1, 1, 8}, Shape{3, 17, 8}, Shape{5, 2, 8}}) {
    const Tensor x = random(shape);
    expect_near(loaded.forward(x), forward(model, std::vector{x}), DType::f32, 256);
  }
}

TEST_F(OnnxSave, HidesMaskedKeysAndZeroesQueriesWithoutAny) {
  const MultiHeadAttention model({.width = 4, .heads = 2}, devices.cpu, generator);
  const std::vector<bool> bits{true, false, true, false, false, false, true, true, true};
  std::vector<float> numbers;
  numbers.reserve(bits.size());
  for (const bool bit : bits) {
    numbers.push_back(bit ? 0.5F : -std::numeric_limits<float>::infinity());
  }
  const Tensor floats = Tensor::from(devices.cpu, numbers, {3, 3});
  const Tensor x = random({2, 3, 4});
  const auto forward = [](const MultiHeadAttention& net, std::span<const Tensor> in) {
    return net.forward(in[0], in[1]);
  };
  for (const Tensor& mask : {floats, greater(floats, 0.0)}) {
    save_onnx(
        model, file, {{.example = x}, {.name = "mask", .example = mask, .dims = {}}}, forward);
    const Tensor got = again().run({{"input", x}, {"mask", mask}}).at("output").tensor();
    expect_near(got, forward(model, std::vector{x, mask}), DType::f32, 16);
  }
}

TEST_F(OnnxSave, WritesAModelThatRunsLikeAnyOther) {
  const Sequential model(Linear({.in = 3, .out = 4}, devices.cpu, generator),
                         Tanh(),
                         Linear({.in = 4, .out = 1}, devices.cpu, generator));
  const Tensor x = random({16, 3});
  save_onnx(model, file, x);
  OnnxModel loaded = again();
  Adam optimizer({.learning_rate = 0.05});
  std::vector<float> losses;
  for (int step = 0; step < 60; ++step) {
    auto [loss, gradients] = value_and_grad(loaded, [&](const OnnxModel& tracked) {
      return mean(square(sub(tracked.forward(x, Mode::train), 1.0)));
    });
    losses.push_back(loss.item<float>());
    optimizer.step(loaded, std::move(gradients)).get();
  }
  EXPECT_LT(losses.back(), losses.front() / 10);
  save_onnx(loaded, file, x);  // an imported model is a module too
  expect_near(again().forward(x), loaded.forward(x), DType::f32, 16);
}

struct Refusing {
  Linear inner;
  HEARTH_MODULE(Refusing, inner)
};

TEST_F(OnnxSave, ListsAllProblemsAndKeepsTheOldFile) {
  const Refusing model{Linear({.in = 2, .out = 2}, devices.cpu, generator)};
  const std::vector<std::string> problems = problems_of([&] {
    save_onnx(model,
              file,
              {{.example = random({4, 2})}},
              [&](const Refusing& net, std::span<const Tensor> x) {
                Tensor y = net.inner.forward(x[0]);
                y = add(y, random_normal(devices.cpu, {2}, generator));
                y = mul(y, 1.0 / static_cast<double>(x[0].shape()[0]));
                const std::int64_t rows = x[0].shape()[0];
                const std::vector<float> numbers(static_cast<std::size_t>(rows));
                y = add(y, Tensor::from(devices.cpu, numbers, {rows, 1}));
                return y.to_vector<float>().empty() ? x[0] : y;
              });
  });
  EXPECT_THAT(problems,
              UnorderedElementsAre(HasSubstr("random_normal: the op draws random numbers"),
                                   HasSubstr("mul: a number in the forward pass depends"),
                                   HasSubstr("makes from numbers of the host depends on the size"),
                                   HasSubstr("reads a value that depends on an input")));
}

TEST_F(OnnxSave, RefusesOpsThatDependOnASize) {
  const Refusing model{Linear({.in = 2, .out = 2}, devices.cpu, generator)};
  const auto save = [&](const auto& forward) {
    return problems_of([&] { save_onnx(model, file, {{.example = random({4, 2})}}, forward); });
  };
  EXPECT_THAT(save([](const Refusing& net, std::span<const Tensor> x) {
                return x[0].shape()[0] == 3 ? net.inner.forward(x[0]) : relu(x[0]);
              }),
              ElementsAre(HasSubstr("for one size, and")));
  EXPECT_THAT(save([](const Refusing&, std::span<const Tensor> x) {
                return slice(x[0], 0, {.start = 0, .stop = (x[0].shape()[0] + 1) / 2});
              }),
              ElementsAre(HasSubstr("slice: the part that a slice takes depends")));
  EXPECT_THAT(save([&](const Refusing& net, std::span<const Tensor> x) {
                const std::vector<float> share{1.0F / static_cast<float>(x[0].shape()[0])};
                return mul(net.inner.forward(x[0]), Tensor::from(devices.cpu, share));
              }),
              ElementsAre(HasSubstr("makes from numbers of the host depends on the size")));
}

TEST_F(OnnxSave, NamesTheSizesOfAForwardPassThatFails) {
  const Refusing model{Linear({.in = 2, .out = 2}, devices.cpu, generator)};
  const auto forward = [](const Refusing& net, std::span<const Tensor> x) {
    return reshape(net.inner.forward(x[0]), {4, 2});
  };
  try {
    save_onnx(model, file, {{.example = random({4, 2})}}, forward);
    FAIL() << "a fixed batch was resized";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the forward pass with sizes 'batch' 2 failed"));
  }
  save_onnx(model, file, {{.example = random({4, 2}), .dims = {}}}, forward);
  EXPECT_THAT(again().report().inputs.at(0).dims, ElementsAre("4", "2"));
}

TEST_F(OnnxSave, RefusesBadCallsBeforeAPass) {
  const Refusing model{Linear({.in = 2, .out = 2}, devices.cpu, generator)};
  int passes = 0;
  const auto forward = [&](const Refusing& net, std::span<const Tensor> x) {
    ++passes;
    return net.inner.forward(x[0]);
  };
  const Tensor x = random({4, 2});
  EXPECT_THROW(save_onnx(model, file, {}, forward), ArgumentError);
  EXPECT_THROW(save_onnx(model.inner, file, Tensor()), ArgumentError);
  EXPECT_THROW(save_onnx(model.inner, file, zeros(devices.cpu, {0, 2})), ArgumentError);
  EXPECT_THROW(save_onnx(model, file, {{.example = x, .dims = {"a", "b", "c"}}}, forward),
               ArgumentError);
  EXPECT_THROW(save_onnx(model, file, {{.example = x, .dims = {"n", "n"}}}, forward),
               ArgumentError);
  EXPECT_EQ(passes, 0);
  EXPECT_THROW(save_onnx(model, file, {{.name = "inner.weight", .example = x}}, forward),
               ArgumentError);
  EXPECT_THROW(save_onnx(model, file, {{.name = "output", .example = x}}, forward), ArgumentError);
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(OnnxSave, ReportsAPathThatCannotBeWritten) {
  const Linear model({.in = 2, .out = 2}, devices.cpu, generator);
  EXPECT_THROW(save_onnx(model, folder.path() / "none" / "m.onnx", random({1, 2})), FileError);
  EXPECT_THROW(save_onnx(model, folder.path(), random({1, 2})), FileError);
}

TEST_F(OnnxSave, LeavesOutWhatOtherThreadsDo) {
  const Sequential model(Linear({.in = 3, .out = 4}, devices.cpu, generator),
                         Tanh(),
                         Linear({.in = 4, .out = 2}, devices.cpu, generator));
  const Tensor x = random({6, 3});
  std::atomic<bool> has_begun = false;
  std::atomic<bool> is_done = false;
  std::thread other([&] {
    while (!is_done) {
      const Tensor noise = add(Tensor::from(devices.cpu, std::vector<float>{1, 2, 3}), 1.0);
      EXPECT_EQ(mul(noise, noise).to_vector<float>().at(2), 16.0F);
      has_begun = true;
    }
  });
  while (!has_begun) {
    std::this_thread::yield();
  }
  for (int turn = 0; turn < 5; ++turn) {
    round_trip(model, x);
    EXPECT_EQ(check_onnx(file).node_count, 3);
  }
  is_done = true;
  other.join();
}

TEST_F(OnnxSave, NeedsTheRecordingOfTheRuntime) {
  const Linear model({.in = 2, .out = 2}, devices.cpu, generator);
  const RecordScope recording(devices.runtime);
  EXPECT_THROW(save_onnx(model, file, random({1, 2})), ArgumentError);
  EXPECT_FALSE(fs::exists(file));
}

}  // namespace
}  // namespace hearth
