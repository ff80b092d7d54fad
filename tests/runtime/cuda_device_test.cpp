// CUDA devices through the whole runtime, on the host's driver (tests/backends/cuda), or on a card
// if HEARTH_CUDA_LIBRARY_PATH names the folder of NVRTC.
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <dlfcn.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/environment_variable.hpp"

namespace hearth {
namespace {

using ::testing::HasSubstr;

std::string library_folder() {
  const char* const folder = std::getenv("HEARTH_CUDA_LIBRARY_PATH");
  return folder == nullptr ? HEARTH_HOST_CUDA : folder;
}

class CudaDeviceTest : public ::testing::Test {
 protected:
  [[nodiscard]] static RuntimeOptions one_cuda(FaultPlan faults = {}) {
    return {.devices = {{.name = "cuda:0", .faults = std::move(faults)}}};
  }
  const testing::EnvironmentVariable folder_{"HEARTH_CUDA_LIBRARY_PATH", library_folder().c_str()};
};

std::vector<float> some_result(const Device& device) {
  std::vector<float> values;
  for (int i = 0; i < 35; ++i) {
    values.push_back(static_cast<float>(i % 7 - 3) / 4);
  }
  const Tensor x = Tensor::from(device, values, {5, 7});
  return softmax(matmul(x, transpose(x, 0, 1)) * 0.5 + 1.0, 1).to_vector<float>();
}

TEST_F(CudaDeviceTest, TheVariableOpensItAndItComputesAsTheCpuDoes) {
  const testing::EnvironmentVariable devices("HEARTH_DEVICES", "cuda:0,cpu:0");
  const Runtime runtime;
  ASSERT_EQ(runtime.device().name(), "cuda:0");
  const std::vector<float> want = some_result(runtime.device("cpu:0"));
  const std::vector<float> got = some_result(runtime.device());
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-5) << i;
  }
}

// A kernel's own function of float must not take the place of the library's of double.
TEST_F(CudaDeviceTest, FunctionsOfDoubleAreExactBesideThoseOfFloat) {
  RuntimeOptions options = one_cuda();
  options.fusion = Fusion::on;
  const Runtime runtime(options);
  const Tensor x = full(runtime.device(), {4}, 0.25);
  const Tensor wide = cast(x, DType::f64);
  const Tensor tanhs = tanh(wide) + 0.0 * cast(tanh(x), DType::f64);
  const Tensor erfs = erf(wide) + 0.0 * cast(erf(x), DType::f64);
  EXPECT_NEAR(tanhs.to_vector<double>().front(), std::tanh(0.25), 1e-15);
  EXPECT_NEAR(erfs.to_vector<double>().front(), std::erf(0.25), 1e-15);
}

// Each thread reads what only it can have computed, while the device's thread and one reader look.
std::vector<double> sums_by_threads(std::chrono::nanoseconds busy_wait) {
  const Runtime runtime({.devices = {{.name = "cuda:0"}}, .busy_wait = busy_wait});
  constexpr int kThreads = 4;
  constexpr int kRounds = 25;
  std::vector<double> sums(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int number = 0; number < kThreads; ++number) {
      threads.emplace_back([&, number] {
        Tensor x = full(runtime.device(), {257}, number);
        for (int round = 0; round < kRounds; ++round) {
          x = x + 1.0;
          sums[static_cast<std::size_t>(number)] += sum(x).item();
        }
        runtime.device().sync();
      });
    }
  }
  return sums;
}

TEST_F(CudaDeviceTest, ThreadsThatLookBeforeTheySleepReadTheSameValues) {
  std::vector<double> want;
  for (int number = 0; number < 4; ++number) {
    want.push_back(257.0 * (25 * number + 325));
  }
  for (const auto busy_wait : {std::chrono::nanoseconds(0),
                               std::chrono::nanoseconds(std::chrono::microseconds(30)),
                               std::chrono::nanoseconds(std::chrono::seconds(20))}) {
    EXPECT_EQ(sums_by_threads(busy_wait), want) << busy_wait.count() << " ns";
  }
}

// A program that never waits gets its work done while the device's thread looks for more.
TEST_F(CudaDeviceTest, ADeviceThatLooksForMoreBeginsItsBatchAndEnds) {
  const Runtime runtime({.devices = {{.name = "cuda:0"}}, .busy_wait = std::chrono::seconds(20)});
  Pending<double> later = sum(full(runtime.device(), {33}, 2.0)).item_later();
  const Deadline end = Deadline::in(std::chrono::seconds(60));
  while (!later.is_ready() && !end.has_passed()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(std::move(later).get(), 66.0);
}

TEST_F(CudaDeviceTest, AnAbsentNumberIsRefusedWithTheReason) {
  try {
    const Runtime runtime({.devices = {{.name = "cuda:99"}}});
    FAIL() << "cuda:99 was opened";
  } catch (const Exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("no device 'cuda:99'"));
  }
}

[[noreturn]] void open_without_libraries() {
  const testing::EnvironmentVariable none("HEARTH_CUDA_LIBRARY_PATH", "");
  try {
    const Runtime runtime({.devices = {{.name = "cuda:0"}}});
    std::exit(0);
  } catch (const Exception& error) {
    std::fprintf(stderr, "refused: %s\n", error.what());
    std::exit(1);
  }
}

TEST(CudaDeviceDeathTest, AMachineWithoutADriverGetsOneSentence) {
  if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) {
    GTEST_SKIP() << "there is a driver";
  }
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(open_without_libraries(),
              ::testing::ExitedWithCode(1),
              "refused: no device 'cuda:0': there is no driver of NVIDIA on this machine: no "
              "libcuda.so.1 or libcuda.so on the loader's path( or in [^;]*)?; install it, or "
              "HEARTH_CUDA_LIBRARY_PATH may name its folder");
}

TEST_F(CudaDeviceTest, AnErrorThatCudaKeepsDemandsANewProcess) {
  const Runtime runtime(one_cuda({.lost_at_call = 1}));
  try {
    static_cast<void>(some_result(runtime.device()));
    FAIL() << "the planned loss did not happen";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_lost);
    EXPECT_THAT(error.what(), HasSubstr("restart the program"));
  }
}

}  // namespace
}  // namespace hearth
