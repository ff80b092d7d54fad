// Which CUDA devices a machine offers, and when "auto" takes one: on the host's driver
// (tests/backends/cuda). Each choice has a process of its own, since libraries stay loaded.
#include <hearth/backends/builtin/builtin.hpp>
#include <hearth/runtime/runtime.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::EnvironmentVariable;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

class CudaChoice : public ::testing::Test {
 protected:
  void TearDown() override { GTEST_FLAG_SET(death_test_style, "fast"); }
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr &&
        dlopen("libcuda.so.1", RTLD_NOW) != nullptr) {
      GTEST_SKIP() << "there is a driver of NVIDIA's";
    }
  }

  const EnvironmentVariable folder_{"HEARTH_CUDA_LIBRARY_PATH", HEARTH_HOST_CUDA};
  const EnvironmentVariable level_{"HEARTH_LOG_LEVEL", "info"};
  const EnvironmentVariable no_vulkan_{"VK_DRIVER_FILES", "/nonexistent"};
  const EnvironmentVariable no_vulkan_either_{"VK_ICD_FILENAMES", "/nonexistent"};
};

TEST_F(CudaChoice, AutoTakesACardOfCuda) {
  EXPECT_EXIT(std::exit(say_device("auto")),
              ExitedWithCode(0),
              "info: auto is cuda:0: Host with fibers 0, CUDA 13.0, NVRTC 13.0 of "
              ".*libnvrtc.so.13(.|\n)*it is cuda:0");
}

TEST_F(CudaChoice, AutoWithoutLibrariesIsTheCpuAndNamesBothReasons) {
  const EnvironmentVariable none("HEARTH_CUDA_LIBRARY_PATH", "");
  EXPECT_EXIT(std::exit(say_device("auto")),
              ExitedWithCode(0),
              "warning: auto is cpu:0, as there is no GPU: [^\n]*there is no driver of NVIDIA on "
              "this machine: no libcuda.so.1 [^\n]*\n(.|\n)*it is cpu:0");
}

TEST_F(CudaChoice, ACpuIsOpenedInSilenceWithoutLibraries) {
  const EnvironmentVariable none("HEARTH_CUDA_LIBRARY_PATH", "");
  EXPECT_EXIT(std::exit(say_device("cpu:0")), ExitedWithCode(0), "^it is cpu:0\n$");
}

// The machine may have an NVRTC, so an empty library stands in front of it.
TEST_F(CudaChoice, ADriverWithoutItsCompilerIsPassedOver) {
  const TemporaryFolder folder;
  const std::filesystem::path host(HEARTH_HOST_CUDA);
  std::filesystem::create_symlink(host / "libcuda.so.1", folder.path() / "libcuda.so.1");
  std::filesystem::create_symlink(host / "libcublasLt.so.13", folder.path() / "libnvrtc.so.13");
  const EnvironmentVariable half("HEARTH_CUDA_LIBRARY_PATH", folder.path().string());
  EXPECT_EXIT(std::exit(say_device("auto")),
              ExitedWithCode(0),
              "warning: auto is cpu:0, as there is no GPU: [^\n]*libnvrtc.so.13 lacks the function "
              "nvrtcVersion: it is too old; install a newer one(.|\n)*it is cpu:0");
  EXPECT_EXIT(std::exit(say_device("cuda:0")),
              ExitedWithCode(1),
              "refused: no device 'cuda:0': [^\n]*libnvrtc.so.13 lacks the function nvrtcVersion");
}

TEST_F(CudaChoice, TheVariableChoosesAndOrdersCards) {
  const EnvironmentVariable three("HEARTH_HOST_CUDA_DEVICES", "3");
  const EnvironmentVariable order("HEARTH_CUDA_DEVICES", "2,0,2");
  const Runtime runtime({.devices = {{.name = "cuda:0"}, {.name = "cuda:1"}, {.name = "cuda:2"}}});
  const std::vector<Device> devices = runtime.devices();
  EXPECT_THAT(devices[0].description(), StartsWith("Host with fibers 2, "));
  EXPECT_THAT(devices[1].description(), StartsWith("Host with fibers 0, "));
  EXPECT_THAT(devices[2].description(), StartsWith("Host with fibers 2, "));
  EXPECT_EXIT(std::exit(say_device("cuda:3")),
              ExitedWithCode(1),
              "refused: no device 'cuda:3': CUDA shows 3 here: cuda:0 is Host with fibers 2, "
              "cuda:1 is Host with fibers 0, cuda:2 is ");
}

TEST_F(CudaChoice, ACardThatIsNotThereIsRefused) {
  for (const char* const name : {"auto", "cuda:0"}) {
    for (const char* const cards : {"1", "0,,0", "x", "-1"}) {
      const EnvironmentVariable variable("HEARTH_CUDA_DEVICES", cards);
      EXPECT_EXIT(std::exit(say_device(name)),
                  ExitedWithCode(1),
                  "refused: HEARTH_CUDA_DEVICES=.*: expected numbers of CUDA's devices with "
                  "commas between them; here 0 is Host with fibers 0");
    }
  }
}

TEST_F(CudaChoice, StandsInFrontOfTheOtherGpusOfTheMachine) {
  const std::vector<AvailableDevice> devices = available_devices();
  ASSERT_GE(devices.size(), 3U);
  EXPECT_EQ(devices[0].name, "cpu:0");
  EXPECT_EQ(devices[1].name, "cuda:0");
  EXPECT_EQ(devices[1].lack, "");
  EXPECT_TRUE(devices[1].is_gpu);
  EXPECT_EQ(devices[1].same_card_as, "");
  // The host has no cuBLASLt.
  EXPECT_THAT(devices[1].note,
              AllOf(StartsWith("slower kernels of Hearth run its products: "),
                    EndsWith("install a newer one")));
  EXPECT_EQ(devices[2].name, "vulkan:0");
}

#ifdef HEARTH_BACKEND_VULKAN
// Vulkan and CUDA have one UUID for a card.
class CudaTwin : public ::testing::Test {
 protected:
  const EnvironmentVariable folder_{"HEARTH_CUDA_LIBRARY_PATH", HEARTH_HOST_CUDA};
};

TEST_F(CudaTwin, AutoTakesNoCardTwice) {
  const std::vector<BackendOffer> before = offered_gpus().value();
  const auto first = std::ranges::find(before, "vulkan:0", &BackendOffer::name);
  ASSERT_NE(first, before.end());
  if (first->card.empty()) {
    GTEST_SKIP() << "there is no driver of Vulkan";
  }
  EXPECT_EQ(first->same_card_as, "");
  const EnvironmentVariable uuid("HEARTH_HOST_CUDA_UUID", first->card);
  const std::vector<BackendOffer> after = offered_gpus().value();
  const auto twin = std::ranges::find(after, "vulkan:0", &BackendOffer::name);
  ASSERT_NE(twin, after.end());
  EXPECT_EQ(twin->same_card_as, "cuda:0");
  try {
    const Runtime runtime({.devices = {{.name = "vulkan:0"}, {.name = "auto"}}});
    FAIL() << "one card was opened twice";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("RuntimeOptions: 'vulkan:0' is the card of 'cuda:0'; auto is cuda:0: "));
  }
}
#endif

}  // namespace
}  // namespace hearth
