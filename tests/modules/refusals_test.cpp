// Errors of modules: each one names the calling line and, if there is one, the parameter.
#include <hearth/modules/adam.hpp>
#include <hearth/modules/batch_norm1d.hpp>
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/conv1d.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/dropout.hpp>
#include <hearth/modules/group_norm.hpp>
#include <hearth/modules/gru.hpp>
#include <hearth/modules/layer_norm.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/lora.hpp>
#include <hearth/modules/lstm.hpp>
#include <hearth/modules/metrics.hpp>
#include <hearth/modules/multi_head_attention.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/rms_norm.hpp>
#include <hearth/modules/rnn.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/modules/transformer_decoder_layer.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>
#include <hearth/modules/weight_average.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class Fn>
Error refusal(const Fn& fn) {
  try {
    fn();
  } catch (const Exception& error) {
    EXPECT_THAT(error.error().location.file, EndsWith("refusals_test.cpp")) << error.what();
    return error.error();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

struct Block {
  Linear inner;
  Conv2d filter;
  HEARTH_MODULE(Block, inner, filter)
};

TEST(Refusals, ConfigurationsNameTheLineThatWroteThem) {
  TestRuntime test;
  Generator generator(1);
  const auto line_of = [](const auto& fn) { return refusal(fn).location.line; };
  std::uint32_t line = __LINE__ + 1;
  EXPECT_EQ(line_of([&] { const Linear refused({.in = 0, .out = 1}, test.cpu, generator); }), line);
  line = __LINE__ + 1;
  EXPECT_EQ(line_of([&] { const Conv2d refused({.in = 3}, test.cpu, generator); }), line);
  line = __LINE__ + 1;
  EXPECT_EQ(line_of([&] { const Dropout refused({.p = 2}); }), line);
  line = __LINE__ + 1;
  EXPECT_EQ(line_of([&] { const Sgd refused({.learning_rate = -1}); }), line);
  line = __LINE__ + 1;
  EXPECT_EQ(line_of([&] { const AdamW refused({.beta1 = 1}); }), line);
  Optimizer optimizer = Adam({});
  line = __LINE__ + 1;
  EXPECT_EQ(line_of([&] { optimizer.set_learning_rate(-1); }), line);
}

TEST(Refusals, AWrongInputNamesTheParameterThatItMet) {
  TestRuntime test;
  Generator generator(1);
  Block block{.inner = {{.in = 4, .out = 2}, test.cpu, generator},
              .filter = {{.in = 1, .out = 2}, test.cpu, generator}};
  set_paths(block, "encoder");
  const Error wide = refusal([&] { (void)block.inner.forward(zeros(test.cpu, {3, 5})); });
  EXPECT_EQ(wide.code, ErrorCode::shape_mismatch);
  EXPECT_EQ(wide.text, "Linear: needs [..., 4], got f32[3, 5]");
  EXPECT_EQ(wide.module_path, "encoder.inner");
  const Error deep = refusal([&] { (void)block.filter.forward(zeros(test.cpu, {1, 3, 8, 8})); });
  EXPECT_EQ(deep.text, "Conv2d: needs [n, 1, height, width], got f32[1, 3, 8, 8]");
  EXPECT_EQ(deep.module_path, "encoder.filter");
  const Error type = refusal([&] {
    (void)block.inner.forward(zeros(test.cpu, {3, 4}, DType::f64));
  });
  EXPECT_EQ(type.code, ErrorCode::dtype_mismatch);
  EXPECT_EQ(type.text, "Linear: needs f32 as its weights are, got f64[3, 4]");
  EXPECT_EQ(type.module_path, "encoder.inner");
  const Error away = refusal([&] { (void)block.inner.forward(zeros(test.reference, {3, 4})); });
  EXPECT_EQ(away.code, ErrorCode::device_mismatch);
  EXPECT_EQ(away.module_path, "encoder.inner.weight")
      << "the view of a parameter is called like it";
}

// Inputs of a wrong type, on another device, a number, an empty tensor: the error names Linear,
// which the program called, not matmul.
TEST(Refusals, ALayerIsCalledByItsNameWhateverOpsItIsMadeOf) {
  TestRuntime test;
  Generator generator(1);
  const Linear linear({.in = 4, .out = 2}, test.cpu, generator);
  const Conv1d conv1d({.in = 1, .out = 2}, test.cpu, generator);
  const Conv2d conv2d({.in = 1, .out = 2}, test.cpu, generator);
  const LayerNorm layer_norm({.shape = {4}}, test.cpu);
  const RmsNorm rms_norm({.shape = {4}}, test.cpu);
  const GroupNorm group_norm({.groups = 2, .channels = 4}, test.cpu);
  const BatchNorm2d batch_norm({.channels = 2}, test.cpu);
  const Lstm lstm({.in = 4, .hidden = 3}, test.cpu, generator);
  const Gru gru({.in = 4, .hidden = 3}, test.cpu, generator);
  const Rnn rnn({.in = 4, .hidden = 3}, test.cpu, generator);
  const BatchNorm1d flat_norm({.channels = 2}, test.cpu);
  const TransformerDecoderLayer decoder({.width = 4, .heads = 2}, test.cpu, generator);
  const Tensor memory = zeros(test.cpu, {2, 3, 4});
  const Lora lora(linear, {}, generator);
  const MultiHeadAttention attention({.width = 4, .heads = 2}, test.cpu, generator);
  const TransformerEncoderLayer encoder({.width = 4, .heads = 2}, test.cpu, generator);
  const auto expect_named = [&](const std::string& name, const Shape& shape, const auto& forward) {
    const Tensor right = zeros(test.cpu, shape);
    static_cast<void>(forward(right));
    EXPECT_THAT(refusal([&] { static_cast<void>(forward(2.0)); }).text, StartsWith(name + ": "));
    for (const Tensor& wrong : {right.to(DType::i64), right.to(test.reference), Tensor()}) {
      EXPECT_THAT(refusal([&] { static_cast<void>(forward(wrong)); }).text,
                  StartsWith(name + ": "));
    }
  };
  const auto of = [](const auto& layer) { return [&](const Arg& x) { return layer.forward(x); }; };
  expect_named("Linear", {2, 4}, of(linear));
  expect_named("Conv1d", {1, 1, 8}, of(conv1d));
  expect_named("Conv2d", {1, 1, 8, 8}, of(conv2d));
  expect_named("LayerNorm", {2, 4}, of(layer_norm));
  expect_named("RmsNorm", {2, 4}, of(rms_norm));
  expect_named("GroupNorm", {2, 4, 3}, of(group_norm));
  expect_named(
      "BatchNorm2d", {2, 2, 3, 3}, [&](const Arg& x) { return batch_norm.forward(x, Mode::eval); });
  expect_named(
      "BatchNorm1d", {2, 2, 3}, [&](const Arg& x) { return flat_norm.forward(x, Mode::eval); });
  expect_named("Lora", {2, 4}, [&](const Arg& x) { return lora.forward(x, Mode::eval); });
  expect_named("TransformerDecoderLayer", {2, 3, 4}, [&](const Arg& x) {
    return decoder.forward(x, memory, Mode::eval);
  });
  expect_named("Lstm", {2, 3, 4}, [&](const Arg& x) { return lstm.run(x).output; });
  expect_named("Gru", {2, 3, 4}, [&](const Arg& x) { return gru.run(x).output; });
  expect_named("Rnn", {2, 3, 4}, [&](const Arg& x) { return rnn.run(x).output; });
  expect_named("MultiHeadAttention", {2, 3, 4}, of(attention));
  expect_named("TransformerEncoderLayer", {2, 3, 4}, [&](const Arg& x) {
    return encoder.forward(x, Mode::eval);
  });
}

TEST(Refusals, ALossThatIsNoNumberIsNamedAsOne) {
  TestRuntime test;
  Generator generator(1);
  const Linear model({.in = 4, .out = 2}, test.cpu, generator);
  const auto step = [&](const auto& loss) {
    return refusal([&] {
      (void)value_and_grad(model, [&](const Linear& m) {
        return loss(m.forward(ones(test.cpu, {3, 4})));
      });
    });
  };
  const Error rows = step([](const Tensor& outputs) { return outputs; });
  EXPECT_EQ(rows.code, ErrorCode::shape_mismatch);
  EXPECT_EQ(
      rows.text,
      "value_and_grad: the loss must be one number, not f32[3, 2]: return its mean() or sum()");
  EXPECT_EQ(step([](const Tensor& outputs) { return argmax(outputs); }).text,
            "value_and_grad: the loss must be a float, not i64[]");
  EXPECT_EQ(step([](const Tensor& /*outputs*/) { return Tensor(); }).text,
            "value_and_grad: the loss is an empty tensor");
}

TEST(Refusals, AStepWithTheGradientsOfAnotherModelNamesItsLine) {
  TestRuntime test;
  Generator generator(1);
  Linear model({.in = 4, .out = 2}, test.cpu, generator);
  const Linear other({.in = 3, .out = 2}, test.cpu, generator);
  Adam adam({});
  auto swept = value_and_grad(other, [&](const Linear& m) {
    return sum(m.forward(ones(test.cpu, {1, 3})));
  });
  const std::uint32_t line = __LINE__ + 1;
  const Error error = refusal([&] { (void)adam.step(model, std::move(swept.gradients)); });
  EXPECT_EQ(error.location.line, line);
  EXPECT_EQ(error.module_path, "weight");
}

TEST(Refusals, InATrainingStepParametersHaveTheirPathsInTheWholeModel) {
  TestRuntime test;
  Generator generator(1);
  const Block block{.inner = {{.in = 4, .out = 2}, test.cpu, generator},
                    .filter = {{.in = 1, .out = 2}, test.cpu, generator}};
  const auto step = [&] {
    return value_and_grad(block, [&](const Block& b) {
      return sum(b.inner.forward(zeros(test.cpu, {3, 5})));
    });
  };
  EXPECT_EQ(refusal([&] { (void)step(); }).module_path, "inner");
}

TEST(Refusals, ALossOfAnotherModelIsRefused) {
  TestRuntime test;
  Generator generator(1);
  const Linear model({.in = 4, .out = 2}, test.cpu, generator);
  const std::uint32_t line = __LINE__ + 2;
  const Error error = refusal([&] {
    (void)value_and_grad(model, [&](const Linear& /*tracked*/) {
      return sum(model.forward(ones(test.cpu, {1, 4})));
    });
  });
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_THAT(error.text, ::testing::HasSubstr("comes from none of the model's parameters"));
  EXPECT_EQ(error.location.line, line);
}

TEST(Refusals, AGradientThatIsNoNumberNamesItsParameterAndStep) {
  TestRuntime test;
  Generator generator(1);
  const Sequential model(Linear({.in = 2, .out = 2}, test.cpu, generator),
                         Linear({.in = 2, .out = 1}, test.cpu, generator));
  const auto gradients_at = [&](float x) {
    return value_and_grad(model,
                          [&](const auto& m) {
                            return sum(m.forward(Tensor::from(test.cpu, {x, 1.0F}, {1, 2})));
                          })
        .gradients;
  };
  require_finite(gradients_at(1), 1);
  const Error error =
      refusal([&] { require_finite(gradients_at(std::numeric_limits<float>::infinity()), 7); });
  EXPECT_EQ(error.code, ErrorCode::non_finite);
  EXPECT_EQ(error.module_path, "0.weight");
  EXPECT_THAT(error.text, HasSubstr("gradient of '0.weight' in step 7 has 2 values of 4"));
}

TEST(Refusals, AModelThatLacksATensorNamesItsPathAndTheCall) {
  TestRuntime test;
  const TemporaryFolder folder;
  Generator generator(1);
  Block model{.inner = {{.in = 4, .out = 2}, test.cpu, generator},
              .filter = {{.in = 1, .out = 1, .kernel = 1}, test.cpu, generator}};
  WeightAverage average(0.9);
  average.update(model);
  const Block taken = std::move(model);
  const auto expect_named = [](const char* call, std::uint32_t line, const auto& fails) {
    const Error error = refusal(fails);
    EXPECT_EQ(error.text,
              std::string(call) +
                  ": the model's 'inner.weight' is empty: the model was moved "
                  "from, or the member was never set");
    EXPECT_EQ(error.op, call);
    EXPECT_EQ(error.module_path, "inner.weight");
    EXPECT_EQ(error.location.line, line) << call;
  };
  // NOLINTBEGIN(bugprone-use-after-move): what happens then is the subject
  const auto loss = [](const Block& m) { return sum(m.inner.weight); };
  expect_named("value_and_grad", __LINE__, [&] { (void)value_and_grad(model, loss); });
  const std::filesystem::path file = folder.path() / "weights.safetensors";
  expect_named("save_weights", __LINE__, [&] { save_weights(model, file); });
  EXPECT_FALSE(std::filesystem::exists(file));
  expect_named("load_weights", __LINE__, [&] { (void)load_weights(model, file); });
  Optimizer adam(Adam({}));
  expect_named("save_training", __LINE__, [&] { save_training(model, adam, {}, file); });
  expect_named("load_training", __LINE__, [&] { (void)load_training(model, adam, file); });
  expect_named("Adam", __LINE__, [&] { (void)adam.step(model, {}); });
  expect_named("WeightAverage", __LINE__, [&] { (void)average.applied_to(model); });
  expect_named("WeightAverage", __LINE__, [&] { average.update(model); });
  // NOLINTEND(bugprone-use-after-move)
}

}  // namespace
}  // namespace hearth
