// Nine image networks of the ONNX project with tiny files: their weights are constants that the
// graph makes. Needs HEARTH_DATA_DIR, as all tests with real data.
#include <hearth/modules/onnx_model.hpp>

#include "test_runtime.hpp"
#include "tests/support/onnx_tolerance.hpp"

#include <hearth/runtime/ops.hpp>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

namespace fs = std::filesystem;

fs::path light_folder() {
  const char* const data = std::getenv("HEARTH_DATA_DIR");
  return data == nullptr ? fs::path() : fs::path(data) / "onnx" / "light";
}

// The runner of the ONNX project gives the numbers 0 to 1 in even steps.
Tensor even_steps(const Device& device, const OnnxPort& port) {
  Shape shape;
  for (const std::string& size : port.dims) {
    shape.push_back(size == "?" || std::isalpha(static_cast<unsigned char>(size[0])) != 0
                        ? 1
                        : std::stoll(size));
  }
  const auto count = static_cast<double>(shape.element_count());
  return reshape(div(arange(device, 0, count), count), shape);
}

class LightZoo : public ::testing::TestWithParam<const char*> {};

TEST_P(LightZoo, AgreesWithTheStoredResult) {
  const fs::path folder = light_folder();
  if (!fs::is_directory(folder)) {
    GTEST_SKIP() << "HEARTH_DATA_DIR has no onnx/light";
  }
  TestRuntime devices;
  const std::string name = std::string("light_") + GetParam();
  const OnnxModel model = load_onnx(folder / (name + ".onnx"), devices.cpu);
  ASSERT_EQ(model.report().inputs.size(), 1U);
  const Tensor got = model.forward(even_steps(devices.cpu, model.report().inputs[0]));
  const OnnxValue want = read_onnx_value(folder / (name + "_output_0.pb"));
  ASSERT_EQ(got.shape(), want.shape());
  const std::vector<float> values = got.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(testing::kOnnxZooTolerance.accepts(values[i], want.host().reals()[i]))
        << name << ", element " << i << ": " << values[i] << " instead of "
        << want.host().reals()[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Networks,
                         LightZoo,
                         ::testing::Values("bvlc_alexnet",
                                           "densenet121",
                                           "inception_v1",
                                           "inception_v2",
                                           "resnet50",
                                           "shufflenet",
                                           "squeezenet",
                                           "vgg19",
                                           "zfnet512"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace hearth
