// ONNX models behind a ModelServer: inputs and results by their order in the file.
#include <hearth/parallel/model_server.hpp>

#include "training_support.hpp"

#include "tests/base/temporary_folder.hpp"

#include <hearth/modules/linear.hpp>
#include <hearth/modules/onnx_model.hpp>
#include <hearth/modules/onnx_save.hpp>
#include <hearth/runtime/ops.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hearth::testing {
namespace {

/// Two inputs, two results.
struct TwoInputs {
  Linear layer;

  TwoInputs(const Device& device, Generator& generator)
      : layer({.in = 4, .out = 3}, device, generator) {}
  HEARTH_MODULE(TwoInputs, layer)
};

class OnnxServing : public ::testing::Test {
 public:
  /// Writes the model with the first axis `rows`, or for one row if that is empty; loads the file.
  [[nodiscard]] OnnxModel file(const std::string& rows) const {
    const Device device = runtime.device();
    Generator generator(1);
    const std::filesystem::path path = folder.path() / "two_inputs.onnx";
    save_onnx(TwoInputs(device, generator),
              path,
              {{.name = "x", .example = ones(device, {1, 4}), .dims = {rows, ""}},
               {.name = "y", .example = ones(device, {1, 3}), .dims = {rows, ""}}},
              [&](const TwoInputs& net, std::span<const Tensor> in) {
                const Tensor x = rows.empty() ? relu(reshape(in[0] + 5, {4})) - 5 : in[0];
                const Tensor sum = net.layer.forward(reshape(x, in[0].shape())) + in[1];
                return std::vector<NamedTensor>{{"sum", sum}, {"positive", relu(sum)}};
              });
    return load_onnx(path, device);
  }
  [[nodiscard]] static std::vector<float> values(int number, std::size_t count) {
    std::vector<float> all(count);
    for (std::size_t i = 0; i < count; ++i) {
      all[i] = static_cast<float>((static_cast<int>(i) * 5 + number * 3) % 11) - 5;
    }
    return all;
  }
  /// Asks a server twenty times and compares each answer with a run of the model.
  void expect_answers(const Frozen<OnnxModel>& model) const {
    const Device device = runtime.device();
    ModelServer server(runtime, model);
    std::vector<Pending<Answer>> answers;
    answers.reserve(20);
    for (int i = 0; i < 20; ++i) {
      answers.push_back(server.ask({{values(i, 4), {1, 4}}, {values(i, 3), {1, 3}}}));
    }
    for (int i = 0; i < 20; ++i) {
      const OnnxValues expected = model->run({{"x", Tensor::from(device, values(i, 4), {1, 4})},
                                              {"y", Tensor::from(device, values(i, 3), {1, 3})}});
      const Answer answer = std::move(answers[static_cast<std::size_t>(i)]).get();
      ASSERT_EQ(answer.outputs.size(), 2U);
      EXPECT_THAT(answer.outputs[0].values<float>(),
                  ::testing::Pointwise(::testing::FloatNear(1e-5F),
                                       expected.at("sum").tensor().to_vector<float>()));
      EXPECT_THAT(answer.outputs[1].values<float>(),
                  ::testing::Pointwise(::testing::FloatNear(1e-5F),
                                       expected.at("positive").tensor().to_vector<float>()));
    }
    EXPECT_EQ(server.statistics().failed, 0U);
  }

  const Runtime runtime{cpu_devices(1)};
  const TemporaryFolder folder;
};

TEST_F(OnnxServing, AGraphOfAnyNumberOfRowsIsServedInBatches) {
  expect_answers(freeze(file("batch")));
}

TEST_F(OnnxServing, AGraphOfOneRowIsServedOneByOne) {
  expect_answers(freeze(file("")));
}

TEST_F(OnnxServing, AnotherNumberOfInputsIsAnError) {
  const Frozen<OnnxModel> model = freeze(file("batch"));
  const std::vector<Tensor> one{ones(runtime.device(), {1, 4})};
  EXPECT_THROW(static_cast<void>(model->forward(one)), ArgumentError);
  ModelServer server(runtime, model);
  EXPECT_EQ(server.ask({{values(1, 4), {1, 4}}}).wait().error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace hearth::testing
