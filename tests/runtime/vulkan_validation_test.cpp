// Vulkan's validation layer checks a training and ops of all families, with validation of
// synchronisation: any message fails the test. The loader finds the layer, so it must be requested
// before the process makes its first instance: this program has no other test.
#include <hearth/modules/activations.hpp>
#include <hearth/modules/adam.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/custom_kernel.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/trace_scope.hpp>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"

namespace hearth {
namespace {

struct Net {
  Conv2d conv;
  Linear inner, outer;
  Net(const Device& device, Generator& generator)
      : conv({.in = 1, .out = 4, .kernel = 3, .padding = 1}, device, generator),
        inner({.in = 4 * 16, .out = 16}, device, generator),
        outer({.in = 16, .out = 3}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    const Tensor y = max_pool2d(relu(conv.forward(x)), {.kernel = 2});
    return outer.forward(gelu(inner.forward(flatten(y, 1))));
  }
  HEARTH_MODULE(Net, conv, inner, outer)
};

void train(const Device& device) {
  Generator generator(3);
  Net net(device, generator);
  Adam adam({.learning_rate = 0.02});
  const Tensor x = random_normal(device, {6, 1, 8, 8}, generator);
  const Tensor y = Tensor::from(device, std::vector<std::int64_t>{0, 1, 2, 0, 1, 2}, {6});
  for (int step = 0; step < 3; ++step) {
    auto [loss, gradients] = value_and_grad(
        net, [&](const Net& tracked) { return cross_entropy(tracked.forward(x), y); });
    adam.step(net, std::move(gradients)).get();
    EXPECT_TRUE(std::isfinite(loss.item()));
  }
}

// A spread of the op table: each way in which kernels are encoded.
void run_ops(const Device& device) {
  Generator generator(5);
  const Tensor x = random_normal(device, {24, 40}, generator);
  const Tensor index = Tensor::from(device, std::vector<std::int64_t>{3, 1, 1, 0}, {4});
  std::vector<Tensor> results{softmax(x, 1),
                              sum(x, {0}),
                              mean(x),
                              max(x, {1}),
                              cast(argmax(x, 0), DType::f32),
                              cumsum(x, 1),
                              topk(x, 5).values,
                              index_select(x, 0, index),
                              index_add(x, 0, index, index_select(x, 0, index)),
                              concat({x, transpose(transpose(x, 0, 1) * 2, 0, 1)}, 0),
                              matmul(x, transpose(x, 0, 1)),
                              cast(cast(x, DType::f16) + 1, DType::f32),
                              dropout(x, 0.5, generator),
                              pad(x, {{.axis = 0, .before = 2}})};
  const Tensor q = random_normal(device, {1, 2, 9, 8}, generator);
  const Tensor attended = attention(q, q, q);
  results.push_back(attended);
  const CustomKernel twice = custom_op(
      {.name = "twice",
       .inputs = {{"x"}},
       .rule = [](std::span<const TensorForm> in) { return std::vector<TensorForm>{in[0]}; },
       .glsl = {.text = "void kernel() { set_y(ID, 2.0 * x(ID)); }"}});
  results.push_back(twice({transpose(x, 0, 1)}));
  for (const Tensor& result : results) {
    EXPECT_FALSE(result.to_vector<float>().empty());
  }
}

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(VulkanValidation, HasNothingToSay) {
  const std::filesystem::path layer =
      "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json";
  if (!std::filesystem::exists(layer)) {
    GTEST_SKIP() << "there is no validation layer: Debian has it in vulkan-validationlayers";
  }
  const TemporaryFolder folder;
  const std::filesystem::path said = folder.path() / "said.txt";
  std::ofstream(folder.path() / "vk_layer_settings.txt")
      << "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n"
      << "khronos_validation.log_filename = " << said.string() << "\n"
      << "khronos_validation.report_flags = error,warn\n"
      << "khronos_validation.enables = "
         "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT\n";
  // NOLINTBEGIN(concurrency-mt-unsafe): before the process has another thread
  ASSERT_EQ(setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation", 1), 0);
  ASSERT_EQ(setenv("VK_LAYER_SETTINGS_PATH", folder.path().c_str(), 1), 0);
  ASSERT_EQ(setenv("HEARTH_CACHE_DIR", folder.path().c_str(), 1), 0);
  // NOLINTEND(concurrency-mt-unsafe)
  for (const bool is_fused : {true, false}) {
    const Runtime runtime({.devices = {{.name = "vulkan:0"}},
                           .fusion = is_fused ? Fusion::on : Fusion::off,
                           .blocking_compiles = true});
    const TraceScope trace(runtime, folder.path() / "trace.json");  // with its timestamps
    train(runtime.device());
    run_ops(runtime.device());
    runtime.device().restart();
    train(runtime.device());
  }
  EXPECT_TRUE(std::filesystem::exists(said)) << "the layer was not there after all";
  EXPECT_EQ(text_of(said), "");
}

}  // namespace
}  // namespace hearth
