// Vulkan devices through the whole runtime, on the present driver: Mesa's in software in CI.
#include <hearth/modules/linear.hpp>
#include <hearth/parallel/data_parallel.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"
#include "tests/support/tolerance.hpp"
#include "vulkan_net.hpp"

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;

/// A rank's part of a batch.
struct Part {
  std::vector<float> values;
  std::vector<std::int64_t> classes;
  std::int64_t size = 0;
};

RuntimeOptions one_vulkan(FaultPlan faults = {}) {
  return {.devices = {{.name = "vulkan:0", .faults = std::move(faults)}}};
}

TEST(VulkanDevice, TrainsAsTheCpuDoes) {
  const Runtime here;
  const Runtime there(one_vulkan());
  const std::vector<double> want = losses_on(here.device("cpu:0"), 12);
  const std::vector<double> got = losses_on(there.device(), 12);
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-4) << "step " << i;
  }
  EXPECT_LT(got.back(), 0.7 * got.front());
}

TEST(VulkanDevice, AFailureNamesOpValueAndLine) {
  const Runtime runtime(one_vulkan());
  const Device device = runtime.device();
  const Tensor logits = zeros(device, {8, 3});
  const Tensor good = logits + 1.0;
  const Tensor loss = cross_entropy(logits, targets_on(device, 7));
  try {
    static_cast<void>(loss.item());
    FAIL() << "a target outside of the classes was taken";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_range);
    EXPECT_THAT(error.what(), HasSubstr("7"));
    EXPECT_THAT(error.what(), HasSubstr("vulkan_device_test.cpp"));
  }
  EXPECT_EQ(good.to_vector<float>().front(), 1.0F);
}

// Each op that may fail has an error cell on the device until it has ended.
TEST(VulkanDevice, AnyNumberOfOpsThatMayFailAreUnderWay) {
  const Runtime runtime(one_vulkan());
  const Device device = runtime.device();
  const Tensor x = full(device, {8, 2}, 3.0);
  const Tensor index = Tensor::from(device, std::vector<std::int64_t>{1, 2}, {2});
  constexpr std::size_t kMany = 20'000;
  std::vector<Tensor> all;
  all.reserve(kMany);
  for (std::size_t i = 0; i < kMany; ++i) {
    all.push_back(index_select(x, 0, index));
  }
  EXPECT_EQ(all.back().to_vector<float>().front(), 3.0F);
  device.sync();  // otherwise it throws an unread failure
}

TEST(VulkanDevice, AStepWithAFailedGradientLeavesTheModelAsItWas) {
  const Runtime runtime(one_vulkan());
  const Device device = runtime.device();
  Generator generator(3);
  Net net(device, generator);
  const std::vector<float> before = net.inner.weight.to_vector<float>();
  Adam adam({.learning_rate = 0.02});
  const Tensor x = inputs_on(device);
  auto [loss, gradients] = value_and_grad(net, [&](const Net& tracked) {
    return cross_entropy(tracked.forward(x), targets_on(device, 9));
  });
  EXPECT_THROW(adam.step(net, std::move(gradients)).get(), DeviceError);
  EXPECT_EQ(net.inner.weight.to_vector<float>(), before);
  EXPECT_THROW(static_cast<void>(loss.item()), DeviceError);
}

TEST(VulkanDevice, ALossIsItsOwnAndARestartEndsIt) {
  Runtime runtime({.devices = {{.name = "vulkan:0", .faults = FaultPlan{.lost_at_submit = 4}},
                               {.name = "cpu:0"}}});
  const Device device = runtime.device("vulkan:0");
  EXPECT_THROW(losses_on(device, 2), DeviceError);
  EXPECT_TRUE(device.is_lost());
  EXPECT_EQ(losses_on(runtime.device("cpu:0"), 2).size(), 2U);
  for (int i = 0; i < 3; ++i) {
    device.restart();
    EXPECT_LT(losses_on(device, 8).back(), 1.1);
  }
}

TEST(VulkanDevice, GivesItsMemoryBackOverManyLives) {
  const Runtime runtime(one_vulkan());
  const Device device = runtime.device();
  for (int i = 0; i < 40; ++i) {
    const Tensor x = full(device, {256, 256}, 1.0);
    EXPECT_EQ(sum(x).item(), 65536.0);
    device.restart();
    EXPECT_EQ(device.memory().live_bytes, 0);
  }
}

// As on a card, where they pass through staging memory; another stream works concurrently.
TEST(VulkanDevice, CopiesLargerThanTheStagingRingsComeWhole) {
  const EnvironmentVariable as_a_card("HEARTH_VULKAN_SHUFFLE", "7");
  const Runtime runtime(one_vulkan());
  const Device device = runtime.device();
  constexpr std::int64_t kElements = 20'000'002;  // 80 MB
  std::vector<float> values(kElements);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 9973);
  }
  Stream other(device);
  const Tensor large = Tensor::from(device, values, {kElements});
  const auto target = std::make_shared<std::vector<float>>(values.size());
  const Pending<void> read = large.read_into(std::as_writable_bytes(std::span(*target)), target);
  {
    const StreamScope scope(other);
    EXPECT_EQ(sum(full(device, {1000}, 2.0)).item(), 2000.0);
    EXPECT_EQ(Tensor::from(device, values, {kElements}).to_vector<float>(), values);
  }
  EXPECT_TRUE(read.wait().has_value());
  EXPECT_EQ(*target, values);
  const std::vector<float> turned = transpose(reshape(large, {2, -1})).to_vector<float>();
  EXPECT_EQ(turned[0], values[0]);
  EXPECT_EQ(turned[1], values[kElements / 2]);
  EXPECT_EQ(turned[turned.size() - 2], values[kElements / 2 - 1]);
  EXPECT_EQ(turned.back(), values.back());
}

TEST(VulkanDevice, ADeviceThatIsNotThereSaysWhatThereIs) {
  try {
    const Runtime runtime({.devices = {{.name = "vulkan:99"}}});
    FAIL() << "vulkan:99 was opened";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("vulkan:99"));
    EXPECT_THAT(error.what(), HasSubstr("vulkan:0 is "));
  }
}

TEST(VulkanDevice, StandsAmongTheDevicesOfTheMachine) {
  const std::vector<AvailableDevice> devices = available_devices();
  const auto first = std::ranges::find(devices, "vulkan:0", &AvailableDevice::name);
  ASSERT_NE(first, devices.end());
  EXPECT_EQ(first->lack, "");
  EXPECT_EQ(devices[0].name, "cpu:0");
}

// Products of many rounds give some rows to tiles of another kind; parts of them do not. Small
// whole numbers have exact sums.
TEST(VulkanDevice, ALargeProductIsThatOfItsParts) {
  const Runtime runtime({.devices = {{.name = "vulkan:0"}}});
  const Device device = runtime.device();
  if (std::string(device.description()).find("matrix units for f16") == std::string::npos) {
    GTEST_SKIP() << "this device has no matrix units";
  }
  Generator generator(1);
  for (const DType dtype : {DType::f16, DType::bf16, DType::i8}) {
    for (const std::int64_t rows : {8192, 7000}) {
      for (const bool is_turned : {false, true}) {
        SCOPED_TRACE(std::string(name(dtype)) + ", " + std::to_string(rows) + " rows" +
                     (is_turned ? ", turned" : ""));
        const Tensor a = is_turned
                             ? transpose(randint(device, {512, rows}, generator, -1, 2, dtype))
                             : randint(device, {rows, 512}, generator, -1, 2, dtype);
        const Tensor b = randint(device, {512, 8192}, generator, -1, 2, dtype);
        const Tensor whole = matmul(a, b);
        const Tensor with_more = abs(matmul(a, b));
        for (std::int64_t first = 0; first < rows; first += 1000) {
          const Range range{.start = first, .stop = std::min(rows, first + 1000)};
          const Tensor part = matmul(slice(a, 0, range), b);
          EXPECT_TRUE(all(equal(slice(whole, 0, range), part)).item<bool>()) << "from " << first;
          EXPECT_TRUE(all(equal(slice(with_more, 0, range), abs(part))).item<bool>())
              << "from " << first;
        }
      }
    }
  }
}

// Drivers from before 2023 support the matrix units only by NVIDIA's extension.
TEST(VulkanDevice, DoesWithoutAnExtensionThatItIsNotToUse) {
  const auto description = [] {
    return std::string(Runtime({.devices = {{.name = "vulkan:0"}}}).device().description());
  };
  if (description().ends_with("no matrix units")) {
    GTEST_SKIP() << "this device has no matrix units to do without";
  }
  {
    const testing::EnvironmentVariable without("HEARTH_VULKAN_WITHOUT",
                                               "VK_EXT_nothing,VK_KHR_shader_bfloat16");
    EXPECT_THAT(description(), ::testing::HasSubstr("matrix units for f16, i8"));
  }
  const testing::EnvironmentVariable without("HEARTH_VULKAN_WITHOUT", "VK_KHR_cooperative_matrix");
  EXPECT_TRUE(description().ends_with("matrix units for f16")) << description();
  const Runtime runtime({.devices = {{.name = "vulkan:0"}}, .blocking_compiles = true});
  const Tensor ones = full(runtime.device(), {256, 256}, 1.0, DType::f16);
  EXPECT_EQ(sum(matmul(ones, ones).to(DType::f32)).item<float>(), 256.0F * 256.0F * 256.0F);
}

TEST(VulkanDevice, AutoIsAGpuOrTheCpu) {
  const Runtime runtime({.devices = {{.name = "auto"}}});
  const std::vector<AvailableDevice> devices = available_devices();
  const auto gpu = std::ranges::find_if(
      devices, [](const AvailableDevice& device) { return device.is_gpu && device.lack.empty(); });
  EXPECT_EQ(runtime.device().name(), gpu == devices.end() ? "cpu:0" : gpu->name);
}

// ---- the device "auto" ----

/// In a separate process, because Vulkan's first instance persists with the drivers that it found.
int say_device(const char* name) {
  try {
    const Runtime runtime({.devices = {{.name = name}}});
    std::fprintf(stderr, "it is %s\n", runtime.device().name().c_str());
    return 0;
  } catch (const ArgumentError& error) {
    std::fprintf(stderr, "refused: %s\n", error.what());
    return 1;
  }
}

class VulkanChoice : public ::testing::Test {
 public:
  VulkanChoice() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ~VulkanChoice() override { GTEST_FLAG_SET(death_test_style, "fast"); }
  VulkanChoice(const VulkanChoice&) = delete;
  VulkanChoice& operator=(const VulkanChoice&) = delete;
};

TEST_F(VulkanChoice, ACardThatIsNotThereIsRefusedForAutoToo) {
  for (const char* const name : {"auto", "vulkan:0"}) {
    for (const char* const cards : {"99", "0,,0", "x", "-1"}) {
      const testing::EnvironmentVariable variable("HEARTH_VULKAN_DEVICES", cards);
      EXPECT_EXIT(std::exit(say_device(name)),
                  ::testing::ExitedWithCode(1),
                  "refused: HEARTH_VULKAN_DEVICES=.*: expected numbers of Vulkan's devices with "
                  "commas between them; here 0 is ");
    }
  }
}

TEST_F(VulkanChoice, AWordThatIsNoNameOfAnExtensionIsRefused) {
  for (const char* const name : {"auto", "vulkan:0"}) {
    for (const char* const words : {"KHR_cooperative_matrix", "VK_A,", "VK_A, VK_B", "yes"}) {
      const testing::EnvironmentVariable variable("HEARTH_VULKAN_WITHOUT", words);
      EXPECT_EXIT(std::exit(say_device(name)),
                  ::testing::ExitedWithCode(1),
                  "refused: HEARTH_VULKAN_WITHOUT=.*: expected names of extensions");
    }
  }
  const testing::EnvironmentVariable absent("HEARTH_VULKAN_WITHOUT", "VK_EXT_nothing,VK_B");
  EXPECT_EXIT(std::exit(say_device("vulkan:0")), ::testing::ExitedWithCode(0), "it is vulkan:0");
}

TEST_F(VulkanChoice, AutoWithoutADriverIsTheCpuAndSaysWhy) {
  const testing::EnvironmentVariable none("VK_DRIVER_FILES", "/nonexistent");
  const testing::EnvironmentVariable none_either("VK_ICD_FILENAMES", "/nonexistent");
  EXPECT_EXIT(std::exit(say_device("auto")),
              ::testing::ExitedWithCode(0),
              "warning: auto is cpu:0, as there is no GPU: there is a Vulkan loader, but no "
              "driver(.|\n)*it is cpu:0");
  EXPECT_EXIT(std::exit(say_device("vulkan:0")),
              ::testing::ExitedWithCode(1),
              "refused: no device 'vulkan:0': there is a Vulkan loader, but no driver");
}

TEST_F(VulkanChoice, AManifestThatCannotBeReadIsSaid) {
  const TemporaryFolder folder;
  const std::string manifest = (folder.path() / "driver.json").string();
  std::ofstream(manifest) << "{";
  const testing::EnvironmentVariable broken("VK_DRIVER_FILES", manifest);
  const testing::EnvironmentVariable broken_too("VK_ICD_FILENAMES", manifest);
  EXPECT_EXIT(std::exit(say_device("vulkan:0")),
              ::testing::ExitedWithCode(1),
              "refused: no device 'vulkan:0': (.*manifest that it cannot read|there is a Vulkan "
              "loader, but no driver)");
}

TEST_F(VulkanChoice, WhoAsksForTheCpuHearsNothing) {
  const testing::EnvironmentVariable none("VK_DRIVER_FILES", "/nonexistent");
  EXPECT_EXIT(std::exit(say_device("cpu:0")), ::testing::ExitedWithCode(0), "^it is cpu:0\n$");
}

TEST(VulkanDevice, TwoTrainOneModel) {
  const testing::EnvironmentVariable twice("HEARTH_VULKAN_DEVICES", "0,0");
  const auto train = [](const std::vector<std::string>& names) {
    RuntimeOptions options;
    for (const std::string& name : names) {
      options.devices.push_back({.name = name});
    }
    const Runtime runtime(options);
    Generator generator(3);
    DataParallel<Net, Part> trainer(
        runtime,
        Net(runtime.device(), generator),
        [](const Net& net, Part& part, WorkerContext& worker) {
          const auto count = static_cast<std::int64_t>(part.classes.size());
          const Tensor x = Tensor::from(worker.device, part.values, {count, 6});
          const Tensor y = Tensor::from(worker.device, part.classes, {count});
          return cross_entropy(net.forward(x), y);
        },
        {.devices = runtime.devices(),
         .optimizer = Adam::Config{.learning_rate = 0.02},
         .deadline = std::chrono::seconds(60)});  // a driver in software compiles in the first step
    std::vector<double> losses;
    for (int step = 0; step < 6; ++step) {
      std::vector<Part> parts(names.size());
      for (int row = 0; row < 8; ++row) {
        Part& part = parts[static_cast<std::size_t>(row) * names.size() / 8];
        for (int column = 0; column < 6; ++column) {
          part.values.push_back(static_cast<float>(std::sin(row * 6 + column)));
        }
        part.classes.push_back(row % 3);
        ++part.size;
      }
      losses.push_back(trainer.step(std::move(parts)).loss);
    }
    return losses;
  };
  const std::vector<double> one = train({"cpu:0"});
  const std::vector<double> two = train({"vulkan:0", "vulkan:1"});
  const std::vector<double> mixed = train({"vulkan:0", "cpu:0"});
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(two[i], one[i], 1e-4) << "step " << i;
    EXPECT_NEAR(mixed[i], one[i], 1e-4) << "step " << i;
  }
}

// With a driver that optimises: the second op of the group has one value for each row of the first.
// LLVM 15 with AVX-512, in Mesa's driver in software, lost that value when bit masks set its sign.
TEST(VulkanDevice, AValueOfARowOutlivesABarrier) {
  const Runtime runtime(
      {.devices = {{.name = "vulkan:0"}, {.name = "reference:0"}}, .blocking_compiles = true});
  using Function = std::function<Tensor(const Tensor&)>;
  const std::array<Function, 3> functions{[](const Tensor& x) { return tanh(x); },
                                          [](const Tensor& x) { return erf(x); },
                                          [](const Tensor& x) { return sin(x); }};
  for (const std::int64_t length : {5, 300, 5000}) {
    for (const Function& function : functions) {
      const auto values = [&](const char* name) {
        const Device device = runtime.device(name);
        const Tensor x = sub(arange(device, 0, 63, 1, DType::f32), 31.0) * 0.1;
        const Tensor column = reshape(x, {63, 1});
        static_cast<void>(column.to_vector<float>());
        const Tensor rows = minimum(full(device, {63, 1}, 0.5), full(device, {63, length}, 0.25));
        return std::pair(function(column).to_vector<float>(), rows);
      };
      const std::vector<float> got = values("vulkan:0").first;
      const std::vector<float> want = values("reference:0").first;
      const testing::Tolerance tolerance =
          testing::tolerance(testing::Precision::function, DType::f32);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(tolerance.accepts(got[i], want[i])) << got[i] << " is not " << want[i];
      }
    }
  }
}

}  // namespace
}  // namespace hearth
