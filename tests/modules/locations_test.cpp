// Every failing public function of modules/ names the calling line of the program: at once or, if a
// device fails later, when the result is read.
#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/modules/activations.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/digits.hpp>
#include <hearth/modules/dropout.hpp>
#include <hearth/modules/flatten.hpp>
#include <hearth/modules/generator_scope.hpp>
#include <hearth/modules/idx.hpp>
#include <hearth/modules/image_dataset.hpp>
#include <hearth/modules/init.hpp>
#include <hearth/modules/layer_norm.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/metrics.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/pooling.hpp>
#include <hearth/modules/rms_norm.hpp>
#include <hearth/modules/safetensors.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/modules/state_updates.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/modules/weight_average.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/explanation.hpp>
#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::EndsWith;

struct Row {
  const char* call;
  std::uint32_t line;  ///< Line of the failing call, not of the row.
  std::function<void()> fails;
};

void expect_their_lines(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    try {
      row.fails();
      ADD_FAILURE() << row.call << " did not fail";
    } catch (const Exception& error) {
      EXPECT_THAT(error.error().location.file, EndsWith("locations_test.cpp"))
          << row.call << ": " << error.what();
      EXPECT_EQ(error.error().location.line, row.line) << row.call << ": " << error.what();
    }
  }
}

struct Weights {
  Tensor inner;
  HEARTH_MODULE(Weights, inner)
};

struct Renamed {
  Tensor outer;
  HEARTH_MODULE(Renamed, outer)
};

class Locations : public ::testing::Test {
 protected:
  static void read(const Tensor& tensor) { (void)tensor.read_bytes().get(); }

  TestRuntime test;
  TemporaryFolder folder;
  Generator generator{1};
  const std::filesystem::path missing = folder.path() / "none" / "x.safetensors";
};

TEST_F(Locations, AnEmptyTensorInAModuleIsNamedByItsPathAndTheCallersLine) {
  Weights empty;
  Weights whole{ones(test.cpu, {2})};
  Optimizer optimizer = Adam({});
  const std::vector<Row> rows{
      {"fork", __LINE__, [&] { (void)fork(empty, test.cpu); }},
      {"to_dtype", __LINE__, [&] { (void)to_dtype(empty, DType::f64); }},
      {"copy_values from", __LINE__, [&] { copy_values(empty, whole); }},
      {"copy_values to", __LINE__, [&] { copy_values(whole, empty); }},
      {"publish", __LINE__, [&] { publish(empty); }},
      {"adopt", __LINE__, [&] { adopt(empty); }},
      {"set_paths", __LINE__, [&] { set_paths(empty); }},
      {"parameter_count", __LINE__, [&] { (void)parameter_count(empty); }},
      {"save_weights", __LINE__, [&] { save_weights(empty, folder.path()); }},
      {"load_weights",
       __LINE__ + 3,
       [&] {
         save_weights(whole, folder.path());
         load_weights(empty, folder.path());
       }},
      {"Optimizer::prepare", __LINE__, [&] { optimizer.prepare(empty); }},
      {"save_training",
       __LINE__ + 1,
       [&] { save_training(empty, optimizer, {}, folder.path() / "a.safetensors"); }},
  };
  expect_their_lines(rows);
  for (const Row& row : rows) {
    try {
      row.fails();
    } catch (const Exception& error) {
      EXPECT_EQ(error.error().module_path, "inner") << row.call;
    }
  }
}

TEST_F(Locations, WhatALayerRefusesIsRefusedAtTheCallersLine) {
  const Tensor wrong = zeros(test.cpu, {2, 3, 4, 5, 6});
  const Tensor whole = zeros(test.cpu, {2, 4}, DType::i64);
  const Linear linear({.in = 4, .out = 2}, test.cpu, generator);
  const Conv2d conv({.in = 1, .out = 2}, test.cpu, generator);
  const LayerNorm norm({.shape = {4}}, test.cpu);
  const Sequential layers(Linear({.in = 4, .out = 2}, test.cpu, generator), Relu());
  const Dropout dropout({.p = 0.5});
  const Sequential random(Dropout({.p = 0.5}));
  expect_their_lines({
      {"Linear", __LINE__, [&] { (void)linear.forward(wrong); }},
      {"Conv2d", __LINE__, [&] { (void)conv.forward(wrong); }},
      {"Sequential", __LINE__, [&] { (void)layers.forward(wrong); }},
      {"MaxPool2d", __LINE__, [&] { (void)MaxPool2d{}.forward(wrong); }},
      {"AvgPool2d", __LINE__, [&] { (void)AvgPool2d{}.forward(wrong); }},
      {"Flatten", __LINE__, [&] { (void)Flatten{.first = 9}.forward(wrong); }},
      {"gelu", __LINE__, [&] { (void)gelu(whole); }},
      {"Gelu", __LINE__, [&] { (void)Gelu{}.forward(1.0); }},
      {"Tanh", __LINE__, [&] { (void)Tanh{}.forward(whole); }},
      {"Sigmoid", __LINE__, [&] { (void)Sigmoid{}.forward(whole); }},
      {"Relu", __LINE__, [&] { (void)Relu{}.forward(Tensor()); }},
      {"LayerNorm", __LINE__, [&] { (void)norm.forward(wrong); }},
      {"RmsNorm made of nothing", __LINE__, [&] { (void)RmsNorm({.shape = {}}, test.cpu); }},
      {"Dropout", __LINE__, [&] { (void)dropout.forward(wrong, Mode::train); }},
      {"Dropout with a generator",
       __LINE__ + 1,
       [&] { (void)dropout.forward(whole, Mode::train, generator); }},
      {"Sequential with a mode", __LINE__, [&] { (void)random.forward(wrong, Mode::train); }},
      {"current_generator", __LINE__, [&] { (void)current_generator("test"); }},
      {"correct_count", __LINE__, [&] { (void)correct_count(wrong, wrong); }},
      {"accuracy", __LINE__, [&] { (void)accuracy(wrong, wrong); }},
      {"accuracy of nothing", __LINE__, [&] { (void)accuracy(Tensor(), wrong); }},
      {"accuracy with labels that are nothing", __LINE__, [&] { (void)accuracy(whole, Tensor()); }},
      {"kaiming_uniform", __LINE__, [&] { (void)kaiming_uniform(test.cpu, {3}, generator); }},
      {"kaiming_normal", __LINE__, [&] { (void)kaiming_normal(test.cpu, {3}, generator); }},
      {"xavier_uniform", __LINE__, [&] { (void)xavier_uniform(test.cpu, {3}, generator); }},
      {"copy_values",
       __LINE__ + 3,
       [&] {
         Renamed other{ones(test.cpu, {2})};
         copy_values(Weights{ones(test.cpu, {2})}, other);
       }},
      {"copy_values with another shape",
       __LINE__ + 3,
       [&] {
         Weights other{ones(test.cpu, {3})};
         copy_values(Weights{ones(test.cpu, {2})}, other);
       }},
  });
}

TEST_F(Locations, WhatAFileOrADataSetRefusesIsRefusedAtTheCallersLine) {
  Weights weights{ones(test.cpu, {2})};
  Optimizer optimizer = Adam({});
  save_weights(weights, folder.path());
  const std::filesystem::path good = folder.path() / "model.safetensors";
  const SafetensorsFile file = SafetensorsFile::read(good);
  const std::vector<NamedTensor> others{{"other", ones(test.cpu, {2})}};
  const std::filesystem::path below_a_file = good / "x" / "y.safetensors";
  HostArray array(DType::f32, {2});
  expect_their_lines({
      {"write_safetensors", __LINE__, [&] { write_safetensors(missing, others); }},
      {"SafetensorsFile::read", __LINE__, [&] { (void)SafetensorsFile::read(missing); }},
      {"SafetensorsFile::at", __LINE__, [&] { (void)file.at("other"); }},
      {"SafetensorsFile::tensor", __LINE__, [&] { (void)file.tensor("other", test.cpu); }},
      {"SafetensorsFile::require_exactly", __LINE__, [&] { file.require_exactly(others); }},
      {"a name that is no text",
       __LINE__ + 2,
       [&] {
         write_safetensors(good, std::vector<NamedTensor>{{"\xff", ones(test.cpu, {1})}});
       }},
      {"save_weights", __LINE__, [&] { save_weights(weights, good / "folder"); }},
      {"load_weights", __LINE__, [&] { load_weights(weights, missing); }},
      {"save_training", __LINE__, [&] { save_training(weights, optimizer, {}, below_a_file); }},
      {"load_training", __LINE__, [&] { (void)load_training(weights, optimizer, missing); }},
      {"load_training of weights",
       __LINE__ + 1,
       [&] { (void)load_training(weights, optimizer, good); }},
      {"read_idx", __LINE__, [&] { (void)read_idx(missing); }},
      {"read_labelled_images", __LINE__, [&] { (void)read_labelled_images(missing, missing); }},
      {"find_mnist", __LINE__, [&] { (void)find_mnist(folder.path()); }},
      {"make_digits", __LINE__, [&] { (void)make_digits({.count = -1}); }},
      {"make_digits of too many",
       __LINE__ + 1,
       [&] { (void)make_digits({.count = std::int64_t{1} << 50}); }},
      {"ImageDataset",
       __LINE__ + 1,
       [&] { const ImageDataset refused({.count = 3, .pixels = {}, .labels = {}}); }},
      {"HostArray",
       __LINE__ + 1,
       [&] { const HostArray refused(DType::f32, {std::int64_t{1} << 50}); }},
      {"HostArray::values", __LINE__, [&] { (void)array.values<double>(); }},
  });
}

TEST_F(Locations, WhatAnOptimizerRefusesIsRefusedAtTheCallersLine) {
  Weights weights{ones(test.cpu, {2})};
  Sgd sgd({.learning_rate = 0.1});
  Adam adam({});
  Optimizer either = AdamW({});
  expect_their_lines({
      {"Sgd", __LINE__, [&] { const Sgd refused({.learning_rate = -1}); }},
      {"Adam", __LINE__, [&] { const Adam refused({.beta1 = 2}); }},
      {"AdamW", __LINE__, [&] { const AdamW refused({.beta2 = 2}); }},
      {"Sgd::step", __LINE__, [&] { (void)sgd.step(weights, Gradients()); }},
      {"Adam::step", __LINE__, [&] { (void)adam.step(weights, Gradients()); }},
      {"Optimizer::step", __LINE__, [&] { (void)either.step(weights, Gradients()); }},
      {"Sgd::set_learning_rate", __LINE__, [&] { sgd.set_learning_rate(-1); }},
      {"Optimizer::set_learning_rate", __LINE__, [&] { either.set_learning_rate(-1); }},
      {"Adam::set_step_count", __LINE__, [&] { adam.set_step_count(-1); }},
      {"Optimizer::set_step_count", __LINE__, [&] { either.set_step_count(-1); }},
      {"require_finite", __LINE__, [&] { require_finite(0.0 / 0.0, 1); }},
  });
}

// A device with room for one copy of the weights, but not for two.
TEST_F(Locations, WhatFindsNoMemoryLaterNamesTheCallersLine) {
  const Runtime runtime(
      {.devices = {{.name = "cpu:0"}, {.name = "cpu:1", .memory_budget_bytes = 4 << 20}}});
  const Device large = runtime.device("cpu:0");
  const Device small = runtime.device("cpu:1");
  constexpr std::int64_t kCount = 3 << 18;  // 3 MiB
  const Weights away{ones(large, {kCount})};
  Weights held{ones(small, {kCount})};
  Weights other{ones(large, {kCount})};
  save_weights(away, folder.path());
  const SafetensorsFile file = SafetensorsFile::read(folder.path() / "model.safetensors");
  Optimizer optimizer = Adam({});
  optimizer.prepare(other);
  save_training(other, optimizer, {}, folder.path() / "run.safetensors");
  expect_their_lines({
      {"fork to another device", __LINE__, [&] { read(fork(away, small).inner); }},
      {"fork on the same device", __LINE__, [&] { read(fork(held, small).inner); }},
      {"to_dtype", __LINE__, [&] { read(to_dtype(held, DType::f64).inner); }},
      {"SafetensorsFile::tensor", __LINE__, [&] { read(file.tensor("inner", small)); }},
      {"HostArray::to", __LINE__, [&] { read(HostArray(DType::f32, {kCount}).to(small)); }},
      {"Linear",
       __LINE__ + 1,
       [&] { read(Linear({.in = 1 << 10, .out = 1 << 10}, small, generator).weight); }},
      {"Conv2d",
       __LINE__ + 1,
       [&] { read(Conv2d({.in = 1 << 9, .out = 1 << 9}, small, generator).weight); }},
      {"kaiming_normal",
       __LINE__ + 2,
       [&] {
         read(kaiming_normal(small, {1 << 10, 1 << 10}, generator));
       }},
      {"Optimizer::prepare",
       __LINE__ + 3,
       [&] {
         Optimizer made = Adam({});
         made.prepare(held);
         read(named_tensors(made).front().tensor);
       }},
      {"gelu", __LINE__, [&] { read(gelu(held.inner)); }},
      {"Relu", __LINE__, [&] { read(Relu{}.forward(held.inner)); }},
      {"copy_values",
       __LINE__ + 3,
       [&] {
         Weights copy = held;
         copy_values(away, copy);
         read(copy.inner);
       }},
      {"load_weights",
       __LINE__ + 3,
       [&] {
         Weights copy = held;
         load_weights(copy, folder.path());
         read(copy.inner);
       }},
  });
  EXPECT_EQ(mean(held.inner).item(), 1) << "what had memory is as it was";
}

// Ops that the library runs for a call carry the line of that call.
TEST_F(Locations, WhatRunsLaterIsAtTheCallersLine) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::off});
  const Device device = runtime.device("cpu:0");
  Weights weights{ones(device, {3})};
  const Buffer buffer(ones(device, {3}));
  const std::vector<TensorRef> buffers{{.path = "mean", .tensor = const_cast<Buffer*>(&buffer)}};
  const Tensor value = zeros(device, {3});
  WeightAverage average(0.5);
  average.update(weights);
  StateUpdates updates;
  updates.blend(buffer, value, 0.5);
  struct Program {
    std::uint32_t line;
    std::size_t op_count;
    std::function<void()> run;
  };
  std::vector<Tensor> moves;
  for (const Program& program : std::vector<Program>{
           {__LINE__, 3, [&] { average.update(weights); }},
           {__LINE__, 3, [&] { updates.blend(buffer, value, 0.5); }},
           {__LINE__, 2, [&] { moves = updates.take_moves(buffers, 1); }},
       }) {
    const Explanation explanation = explain(device, program.run);
    EXPECT_EQ(explanation.kernels.size(), program.op_count) << "line " << program.line;
    for (const ExplainedKernel& kernel : explanation.kernels) {
      EXPECT_THAT(kernel.location.file, EndsWith("locations_test.cpp")) << kernel.name;
      EXPECT_EQ(kernel.location.line, program.line) << kernel.name;
    }
  }
}

}  // namespace
}  // namespace hearth
