// Planned faults on Vulkan devices: drivers that lose the device at any call, kernels that cannot
// be compiled, too little memory. No resource leaks.
#include <hearth/modules/activations.hpp>
#include <hearth/modules/adam.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/trace_scope.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"
#include "vulkan_net.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;
using ::testing::Not;

// Groups depend only on the program, not on time, and wait for their kernels.
RuntimeOptions steady(FaultPlan faults = {}) {
  return {.devices = {{.name = "vulkan:0", .faults = std::move(faults)}}, .deterministic = true};
}

// ---- loss ----

// The driver reports the loss at call k of those that may: for every k up to the end of the
// program, the first ones one by one.
TEST(VulkanFaults, ALossAtAnyCallIsTheDevicesOwnAndTheProgramGoesOn) {
  const EnvironmentVariable twice("HEARTH_VULKAN_DEVICES", "0,0");
  std::vector<double> want;
  int lost = 0;
  for (std::uint64_t call = 1;; call += call < 16 ? 1 : call / 4) {
    SCOPED_TRACE("call " + std::to_string(call));
    RuntimeOptions options = steady({.lost_at_call = call});
    options.devices.push_back({.name = "vulkan:1"});
    const Runtime runtime(options);
    const Device device = runtime.device("vulkan:0");
    if (want.empty()) {
      want = losses_on(runtime.device("vulkan:1"), 2);
    }
    bool is_lost = false;
    try {
      EXPECT_EQ(losses_on(device, 2), want);
    } catch (const DeviceError& error) {
      is_lost = true;
      EXPECT_EQ(error.code(), ErrorCode::device_lost) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("vulkan:0"));
      EXPECT_TRUE(device.is_lost());
    }
    EXPECT_FALSE(runtime.device("vulkan:1").is_lost());
    if (call % 4 == 0 || !is_lost) {
      EXPECT_EQ(losses_on(runtime.device("vulkan:1"), 2), want);
    }
    if (!is_lost) {
      break;
    }
    ++lost;
    device.restart();
    EXPECT_EQ(losses_on(device, 2), want);
  }
  EXPECT_GE(lost, 16);
}

// A batch that cannot be ended or submitted loses ops that count as issued.
TEST(VulkanFaults, ABatchThatIsRefusedIsALossThatARestartEnds) {
  const std::vector<double> want = losses_on(Runtime(steady()).device(), 2);
  int refused = 0;
  for (std::uint64_t call = 1;; ++call) {
    SCOPED_TRACE("call " + std::to_string(call));
    const Runtime runtime(steady({.refused_at_call = call}));
    const Device device = runtime.device();
    try {
      EXPECT_EQ(losses_on(device, 2), want);
      break;
    } catch (const DeviceError& error) {
      ++refused;
      EXPECT_EQ(error.code(), ErrorCode::device_lost) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(call % 2 == 1 ? "vkEndCommandBuffer" : "vkQueueSubmit"));
      EXPECT_THAT(error.what(), HasSubstr("VK_ERROR_OUT_OF_HOST_MEMORY"));
      EXPECT_THAT(error.what(), HasSubstr("the device counts as lost"));
    }
    EXPECT_TRUE(device.is_lost());
    device.restart();
    EXPECT_EQ(losses_on(device, 2), want);
  }
  EXPECT_GE(refused, 4);
}

bool has_thread(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    if (comm == name) {
      return true;
    }
  }
  return false;
}

// A stream long enough that a thread records its batches, while the device's own thread goes on.
double sum_of_a_long_chain(const Device& device) {
  Tensor sums = full(device, {8, 8}, 0.0);
  const Tensor one = full(device, {8, 8}, 1.0);
  for (int i = 0; i < 700; ++i) {
    sums = sums + one;
  }
  return sum(sums).item();
}

TEST(VulkanFaults, ABatchThatIsRefusedBesideTheDevicesThreadIsALossToo) {
  constexpr double kWant = 700.0 * 64;
  for (const bool is_lost : {false, true}) {
    int failed = 0;
    for (std::uint64_t call = 1;; call += call < 8 ? 1 : call / 3) {
      SCOPED_TRACE((is_lost ? "lost at call " : "refused at call ") + std::to_string(call));
      RuntimeOptions options =
          steady(is_lost ? FaultPlan{.lost_at_call = call} : FaultPlan{.refused_at_call = call});
      options.fusion = Fusion::off;
      const Runtime runtime(options);
      const Device device = runtime.device();
      try {
        EXPECT_EQ(sum_of_a_long_chain(device), kWant);
        EXPECT_TRUE(has_thread("record"));
        if (!device.is_lost()) {
          break;
        }
      } catch (const DeviceError& error) {
        EXPECT_EQ(error.code(), ErrorCode::device_lost) << error.what();
        EXPECT_THAT(error.what(), HasSubstr(is_lost ? "vulkan:0" : "VK_ERROR_OUT_OF_HOST_MEMORY"));
      }
      ++failed;
      EXPECT_TRUE(device.is_lost());
      device.restart();
      EXPECT_EQ(sum_of_a_long_chain(device), kWant);
    }
    EXPECT_GE(failed, 8);
  }
}

TEST(VulkanFaults, AHangBesideTheDevicesThreadCostsItsOwnDeviceOnly) {
  RuntimeOptions options = steady({.hanging_submit = 400});
  options.fusion = Fusion::off;
  options.wait_limit = 4s;
  const Runtime runtime(options);
  const Device device = runtime.device();
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(static_cast<void>(sum_of_a_long_chain(device)), DeadlineExceeded);
  device.restart();
  EXPECT_EQ(sum_of_a_long_chain(device), 700.0 * 64);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("device vulkan:0: its queue did not drain within 2 s"));
  EXPECT_THAT(said, Not(HasSubstr("thread")))
      << "the thread that records has nothing to do with it";
}

struct Held {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::int64_t resident_bytes = 0;
};

Held held() {
  const auto count = [](const char* folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  };
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return {.descriptors = count("/proc/self/fd"),
          .threads = count("/proc/self/task"),
          .resident_bytes = pages * sysconf(_SC_PAGESIZE)};
}

// The system may count a thread for a moment after it was joined.
Held held_with(std::size_t threads) {
  const Deadline late = Deadline::in(20s);
  Held now = held();
  while (now.threads != threads && !late.has_passed()) {
    now = held();
  }
  return now;
}

// Work in the queue never ends: waiters get an error, and other devices go on.
TEST(VulkanFaults, AQueueThatHangsCostsItsOwnDeviceOnly) {
  const EnvironmentVariable twice("HEARTH_VULKAN_DEVICES", "0,0");
  RuntimeOptions options = steady({.hanging_submit = 20});
  options.devices.push_back({.name = "vulkan:1"});
  options.wait_limit = 8s;  // the first use of kernels shares this limit
  auto runtime = std::make_unique<Runtime>(options);
  Device device = runtime->device("vulkan:0");
  Device other = runtime->device("vulkan:1");
  const std::vector<double> want = losses_on(other, 2);
  try {
    losses_on(device, 2);
    FAIL() << "a queue that hangs came to an end";
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("vulkan:0"));
  }
  EXPECT_FALSE(device.is_lost()) << "it may only be slow";
  EXPECT_EQ(losses_on(other, 2), want);
  ::testing::internal::CaptureStderr();
  device.restart();
  EXPECT_EQ(losses_on(device, 2), want);
  device = {};
  other = {};
  runtime.reset();  // the hung one may end beside its successor
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("device vulkan:0: its queue did not drain within 2 s"));
}

TEST(VulkanFaults, AHundredRestartsLeaveNothingBehind) {
  const Runtime runtime({.devices = {{.name = "vulkan:0"}}});
  const Device device = runtime.device();
  const auto live = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const Tensor x = full(device, {256, 256}, 1.0);
      EXPECT_EQ(sum(gelu(x) * 0 + x).item(), 65536.0);
      device.restart();
      EXPECT_EQ(device.memory().live_bytes, 0);
    }
  };
  live(10);  // the driver's permanent allocations are done
  const Held before = held();
  live(100);
  const Held after = held_with(before.threads);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_LE(after.threads, before.threads);  // a driver may end some of its own
  // One iteration has 256 KiB of tensors, 4 MiB of parameters and more of staging.
  EXPECT_LT(after.resident_bytes - before.resident_bytes, std::int64_t{24} << 20);
}

// A restart waits for a busy queue no longer than for a hung one; a later restart releases the
// remains.
TEST(VulkanFaults, WhatAnOldQueueStillTouchedGoesOnceItHasEnded) {
  RuntimeOptions options{.devices = {{.name = "vulkan:0"}}};
  options.wait_limit = 2s;
  const Runtime runtime(options);
  const Device device = runtime.device();
  const auto live = [&](int products) {
    Tensor x = full(device, {768, 768}, 1.0);
    const Tensor large = full(device, {1 << 24}, 1.0);  // 64 MiB
    for (int i = 0; i < products; ++i) {
      x = matmul(x, x);
    }
    static_cast<void>(Tensor::from(device, {1.0}) + 1.0);  // starts the submitted work
    static_cast<void>(device.statistics());
    device.restart();
  };
  live(0);
  live(0);
  const Held before = held();
  ::testing::internal::CaptureStderr();
  live(8);
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (said.find("did not drain within 1 s") == std::string::npos) {
    GTEST_SKIP() << "this device has done eight products of 768 within 1 s";
  }
  const auto has_more = [&](const Held& now) {
    return now.threads > before.threads ||
           now.resident_bytes - before.resident_bytes >= std::int64_t{48} << 20;
  };
  const Deadline late = Deadline::in(120s);
  while (has_more(held()) && !late.has_passed()) {
    EXPECT_EQ(sum(full(device, {8}, 1.0)).item<double>({.deadline = Deadline::in(60s)}), 8.0);
    device.restart();
  }
  EXPECT_FALSE(has_more(held()));
  EXPECT_EQ(sum(full(device, {8}, 1.0)).item<double>({.deadline = Deadline::in(60s)}), 8.0);
}

// On a device whose memory the host writes directly, the device's own thread waits for the bytes.
TEST(VulkanFaults, ARestartNeedNotWaitForWhoWaitsForAHang) {
  RuntimeOptions options = steady({.hanging_submit = 1});
  options.devices[0].memory_budget_bytes = std::int64_t{16} << 20;
  options.wait_limit = 4s;
  const Runtime runtime(options);
  const Device device = runtime.device();
  const std::vector<float> values(std::size_t{5} << 18, 1.0F);  // 5 MiB
  Tensor last = Tensor::from(device, values);
  for (int i = 0; i < 4; ++i) {
    last = Tensor::from(device, values) + std::move(last);
  }
  EXPECT_THROW(static_cast<void>(last.to_vector<float>()), Exception);
  device.restart();
  EXPECT_EQ(sum(full(device, {8}, 1.0)).item(), 8.0);
}

// The product runs for a good part of a second, and writes into a block that the host would unmap.
TEST(VulkanFaults, ARestartLeavesItsMemoryToWhatRuns) {
  const Runtime runtime({.devices = {{.name = "vulkan:0"}}});
  const Device device = runtime.device();
  const Tensor product = matmul(full(device, {4096, 24}, 1.0), full(device, {24, 4096}, 1.0));
  const Tensor behind = Tensor::from(device, {1.0});  // copies start the submitted work
  static_cast<void>(device.statistics());             // the actor has reached it
  device.restart();
  EXPECT_EQ(sum(full(device, {8}, 1.0)).item(), 8.0);
}

// ---- compilation ----

TEST(VulkanCompiles, ASecondRunCompilesNothing) {
  const TemporaryFolder folder;
  const EnvironmentVariable cache("HEARTH_CACHE_DIR", folder.path().string());
  std::vector<double> want;
  for (const bool is_first : {true, false}) {
    const Runtime runtime(steady());
    const std::vector<double> losses = losses_on(runtime.device(), 2);
    EXPECT_EQ(runtime.device().statistics().compiled > 0, is_first);
    if (is_first) {
      want = losses;
    }
    EXPECT_EQ(losses, want);
  }
}

// Of integers, for which the interpreter cannot run meanwhile.
TEST(VulkanCompiles, AGroupWhoseOpsHaveKernelsRunsOpByOpUntilItsOwnIsThere) {
  const std::vector<std::int32_t> values{1, 2};
  const TemporaryFolder folder;
  const EnvironmentVariable cache("HEARTH_CACHE_DIR", folder.path().string());
  const auto group_of = [](const Tensor& x) { return (x * 3 + x * 2).to_vector<std::int32_t>(); };
  const auto is_right = ::testing::ElementsAre(5, 10);
  {
    const Runtime runtime({.devices = {{.name = "vulkan:0"}}});
    const Device device = runtime.device();
    const Tensor x = Tensor::from(device, values);
    static_cast<void>((x * 3).to_vector<std::int32_t>());
    static_cast<void>((x + x).to_vector<std::int32_t>());
    EXPECT_THAT(group_of(x), is_right);
    EXPECT_GE(device.statistics().early_groups, 1U);
    const Deadline limit = Deadline::in(std::chrono::seconds(60));
    while (device.statistics().fused_kernels == 0 && !limit.has_passed()) {
      EXPECT_THAT(group_of(x), is_right);
    }
    EXPECT_GE(device.statistics().fused_kernels, 1U);
  }
  const Runtime runtime(steady());
  EXPECT_THAT(group_of(Tensor::from(runtime.device(), values)), is_right);
  EXPECT_EQ(runtime.device().statistics().early_groups, 0U);
  EXPECT_GE(runtime.device().statistics().fused_kernels, 1U);
}

TEST(VulkanCompiles, AGroupWhoseOpsHaveNoneWaitsForItsOwn) {
  const TemporaryFolder folder;
  const EnvironmentVariable cache("HEARTH_CACHE_DIR", folder.path().string());
  const Runtime runtime({.devices = {{.name = "vulkan:0"}}});
  const Tensor x = Tensor::from(runtime.device(), {1.0, 2.0});
  EXPECT_THAT((exp(x * 0) + x * 2).to_vector<float>(), ::testing::ElementsAre(3, 5));
  EXPECT_EQ(runtime.device().statistics().early_groups, 0U);
  EXPECT_GE(runtime.device().statistics().fused_kernels, 1U);
}

TEST(VulkanCompiles, AKernelThatFailsIsItsOpsErrorAndAGroupsOpsGoOn) {
  const Runtime alone(steady({.failing_compiles = {1}}));
  const Tensor x = Tensor::from(alone.device(), std::vector<float>{1, 2}, {2});
  try {
    static_cast<void>(cumsum(x, 0).to_vector<float>());
    FAIL() << "a kernel ran that could not be compiled";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
    EXPECT_THAT(error.what(), HasSubstr("compilation 1 fails by the fault plan"));
    EXPECT_THAT(error.what(), HasSubstr("cumsum"));
  }
  EXPECT_EQ(sum(x).item(), 3.0);

  const Runtime grouped(steady({.failing_compiles = {1}}));
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    const Tensor y = Tensor::from(grouped.device(), std::vector<float>{1, 2}, {2});
    EXPECT_THAT((exp(y * 0) + y * 2).to_vector<float>(), ::testing::ElementsAre(3, 5));
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("cannot be built; its ops run one by one: "));
  EXPECT_EQ(said.find("cannot be built"), said.rfind("cannot be built")) << said;
  EXPECT_EQ(grouped.device().statistics().fused_kernels, 0U);
}

// ---- memory and time ----

TEST(VulkanMemory, ScratchOfKernelsIsOfTheBudget) {
  RuntimeOptions options = steady();
  options.devices[0].memory_budget_bytes = std::int64_t{18} << 20;
  const Runtime runtime(options);
  const Device device = runtime.device();
  const Tensor x = arange(device, 0, 1 << 20, 1.0, DType::f32);  // 4 MiB; sorted, 12 more
  try {
    static_cast<void>(topk(x, 1 << 20).values.to_vector<float>());
    FAIL() << "there was memory for it after all";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_THAT(error.what(), HasSubstr("scratch memory of the kernel"));
    EXPECT_THAT(error.what(), HasSubstr("topk"));
  }
  EXPECT_EQ(topk(slice(x, 0, {.start = 0, .stop = 100}), 2).values.to_vector<float>().front(), 99);
}

// If the host reads the device's memory directly, an op that overwrites it waits for the read.
TEST(VulkanMemory, AReadHasTheValuesOfItsTime) {
  const Runtime runtime(steady());
  const Device device = runtime.device();
  for (int i = 0; i < 15; ++i) {
    Tensor x = full(device, {300'000}, 1.0);
    auto before = x.read_bytes();
    for (int k = 0; k < 4; ++k) {
      x = cumsum(std::move(x) * 2, 0) * 0 + 3;
    }
    const std::vector<std::byte> bytes = std::move(before).get();
    std::vector<float> values(300'000);
    ASSERT_EQ(bytes.size(), values.size() * sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    EXPECT_EQ(values, std::vector<float>(values.size(), 1.0F)) << i;
  }
}

// In one batch: a product of 512 rows and columns among ops of a few elements.
TEST(VulkanTraces, EachKernelOfABatchHasItsOwnTime) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "trace.json";
  RuntimeOptions options = steady();
  options.fusion = Fusion::off;
  const Runtime runtime(options);
  const Device device = runtime.device();
  const auto program = [&] {
    const Tensor x = ones(device, {512, 512});
    const Tensor small = ones(device, {4});
    Tensor y = exp(small);
    const Tensor product = matmul(x, x);
    y = abs(y);
    return std::vector<Tensor>{y, product};
  };
  static_cast<void>(program().back().to_vector<float>());  // compiles the kernels
  {
    const TraceScope scope(runtime, file);
    static_cast<void>(program().back().to_vector<float>());
  }
  std::map<std::string, double> times;
  std::ifstream input(file);
  const nlohmann::json trace = nlohmann::json::parse(input);
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("cat") == "kernels") {
      times[event.at("name")] = event.at("dur");
      EXPECT_TRUE(event.at("args").value("device_clock", false)) << event;
      EXPECT_FALSE(event.at("args").value("shared_out", false)) << event;
    }
  }
  EXPECT_GT(times["matmul"], 2 * std::min(times["exp"], times["abs"]));
}

TEST(VulkanTraces, HaveTheDevicesOwnTimes) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "trace.json";
  const Runtime runtime(steady());
  {
    const TraceScope scope(runtime, file);
    losses_on(runtime.device(), 3);
  }
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("\"device_clock\":true"));
}

}  // namespace
}  // namespace hearth
