// Planned faults on CUDA devices, on the host's driver (tests/backends/cuda): losses, refusals,
// hangs, and errors that CUDA keeps. Other devices go on, and no resource leaks.
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"
#include "vulkan_net.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::AllOf;
using ::testing::HasSubstr;

// g++ compiles each kernel once for the whole suite.
class CudaFaults : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cache_folder() = new TemporaryFolder(); }
  static void TearDownTestSuite() { delete std::exchange(cache_folder(), nullptr); }

  /// Groups depend only on the program, not on time, and wait for their kernels.
  [[nodiscard]] static RuntimeOptions steady(FaultPlan faults = {}) {
    return {.devices = {{.name = "cuda:0", .faults = std::move(faults)}}, .deterministic = true};
  }

 private:
  static TemporaryFolder*& cache_folder() {
    static TemporaryFolder* folder = nullptr;
    return folder;
  }
  const EnvironmentVariable libraries_{"HEARTH_CUDA_LIBRARY_PATH", HEARTH_HOST_CUDA};
  const EnvironmentVariable cache_{"HEARTH_CACHE_DIR", cache_folder()->path().string()};
  const EnvironmentVariable two_{"HEARTH_HOST_CUDA_DEVICES", "2"};
};

// The driver reports the loss at call k of those that may: for every k up to the end of the
// program, the first ones one by one. A planned loss is no error of CUDA's, so a restart ends it.
TEST_F(CudaFaults, ALossAtAnyCallIsTheDevicesOwnAndTheProgramGoesOn) {
  std::vector<double> want;
  int lost = 0;
  for (std::uint64_t call = 1;; call += call < 10 ? 1 : call / 3) {
    SCOPED_TRACE("call " + std::to_string(call));
    RuntimeOptions options = steady({.lost_at_call = call});
    options.devices.push_back({.name = "cuda:1"});
    const Runtime runtime(options);
    const Device device = runtime.device("cuda:0");
    if (want.empty()) {
      want = losses_on(runtime.device("cuda:1"), 2);
    }
    bool is_lost = false;
    try {
      EXPECT_EQ(losses_on(device, 2), want);
    } catch (const DeviceError& error) {
      is_lost = true;
      EXPECT_EQ(error.code(), ErrorCode::device_lost) << error.what();
      EXPECT_THAT(error.what(), AllOf(HasSubstr("cuda:0"), HasSubstr("restart the program")));
      EXPECT_TRUE(device.is_lost());
    }
    EXPECT_FALSE(runtime.device("cuda:1").is_lost());
    EXPECT_EQ(losses_on(runtime.device("cuda:1"), 2), want);
    if (!is_lost) {
      break;
    }
    ++lost;
    device.restart();
    EXPECT_EQ(losses_on(device, 2), want);
  }
  EXPECT_GE(lost, 10);
}

// A refused call loses ops that count as issued. The last one refuses none.
TEST_F(CudaFaults, ACallThatIsRefusedIsALossThatARestartEnds) {
  const std::vector<double> want = losses_on(Runtime(steady()).device(), 2);
  int refused = 0;
  for (std::uint64_t call = 1;; call += call < 6 ? 1 : call / 2) {
    SCOPED_TRACE("call " + std::to_string(call));
    const Runtime runtime(steady({.refused_at_call = call}));
    const Device device = runtime.device();
    try {
      EXPECT_EQ(losses_on(device, 2), want);
      if (!device.is_lost()) {
        break;
      }
    } catch (const Exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
    }
    ++refused;
    device.restart();
    EXPECT_EQ(losses_on(device, 2), want);
  }
  EXPECT_GE(refused, 4);
}

// Work in the queue never ends: waiters get an error, and other devices go on.
TEST_F(CudaFaults, AQueueThatHangsCostsItsOwnDeviceOnly) {
  RuntimeOptions options = steady({.hanging_submit = 20});
  options.devices.push_back({.name = "cuda:1"});
  options.wait_limit = 4s;
  const Runtime runtime(options);
  const Device device = runtime.device("cuda:0");
  const Device other = runtime.device("cuda:1");
  const std::vector<double> want = losses_on(other, 2);
  try {
    losses_on(device, 2);
    FAIL() << "a queue that hangs came to an end";
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("cuda:0"));
  }
  EXPECT_FALSE(device.is_lost()) << "it may only be slow";
  EXPECT_EQ(losses_on(other, 2), want);
  ::testing::internal::CaptureStderr();
  device.restart();
  EXPECT_EQ(losses_on(device, 2), want);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("device cuda:0: its queue did not drain within 2 s"));
}

struct Held {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::int64_t mapped_bytes = 0;
  std::int64_t resident_bytes = 0;
};

Held held() {
  const auto count = [](const char* folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  };
  std::int64_t mapped = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> mapped >> resident;
  return {.descriptors = count("/proc/self/fd"),
          .threads = count("/proc/self/task"),
          .mapped_bytes = mapped * sysconf(_SC_PAGESIZE),
          .resident_bytes = resident * sysconf(_SC_PAGESIZE)};
}

// The system may count a thread for a moment after it was joined.
Held held_with(std::size_t threads) {
  const Deadline late = Deadline::in(20s);
  Held now = held();
  while (now.threads > threads && !late.has_passed()) {
    now = held();
  }
  return now;
}

// What the hung generation holds stays; each of the hundred after it leaves nothing.
TEST_F(CudaFaults, AHundredRestartsAfterAHangLeaveNothingBehind) {
  RuntimeOptions options = steady({.hanging_submit = 1});
  options.wait_limit = 2s;
  const Runtime runtime(options);
  const Device device = runtime.device();
  const auto value = [&] {
    const Tensor x = full(device, {64, 64}, 1.0);
    return sum(gelu(x) * 0 + x).item();
  };
  EXPECT_THROW(static_cast<void>(value()), DeadlineExceeded);
  const auto restart = [&](int count) {
    for (int i = 0; i < count; ++i) {
      device.restart();
      EXPECT_EQ(device.memory().live_bytes, 0);
      EXPECT_EQ(value(), 4096.0);
    }
  };
  restart(10);  // permanent allocations are done
  const Held before = held();
  restart(100);
  const Held after = held_with(before.threads);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_LE(after.threads, before.threads);
  // One generation has 4 MiB of parameters and more of staging.
  EXPECT_LT(after.mapped_bytes - before.mapped_bytes, std::int64_t{16} << 20);
  EXPECT_LT(after.resident_bytes - before.resident_bytes, std::int64_t{16} << 20);
}

// ---- errors that CUDA keeps for the rest of the process ----

std::string what_of(const std::string& name, double want) {
  std::string said = name + ": ";
  try {
    const RuntimeOptions options{.devices = {{.name = name}}, .deterministic = true};
    const Runtime runtime(options);
    const Tensor x = full(runtime.device(), {64, 64}, 1.0);
    said += sum(x).item() == want ? "right" : "wrong";
  } catch (const Exception& error) {
    said += error.what();
  }
  return said;
}

[[noreturn]] void read_an_illegal_address() {
  const EnvironmentVariable fault("HEARTH_HOST_CUDA_FAULT", "3");
  {
    const Runtime runtime({.devices = {{.name = "cuda:0"}, {.name = "cuda:1"}},
                           .wait_limit = 20s,
                           .deterministic = true});
    const Device device = runtime.device("cuda:0");
    const Device other = runtime.device("cuda:1");
    const auto value = [](const Device& on) {
      return sum(exp(full(on, {64, 64}, 0.0))).item() == 4096 ? "right" : "wrong";
    };
    try {
      for (int i = 0; i < 4; ++i) {
        std::fprintf(stderr, "cuda:0 is %s\n", value(device));
      }
    } catch (const DeviceError& error) {
      std::fprintf(stderr,
                   "%s: %s\n",
                   error.code() == ErrorCode::device_lost ? "lost" : "failed",
                   error.what());
    }
    std::fprintf(stderr, "cuda:1 is %s\n", value(other));
    try {
      device.restart();
      std::fprintf(stderr, "restarted\n");
    } catch (const Exception& error) {
      std::fprintf(stderr, "not restarted: %s\n", error.what());
    }
    std::fprintf(stderr, "cuda:1 is %s\n", value(other));
  }
  std::fprintf(stderr, "anew %s\n", what_of("cuda:0", 4096).c_str());
  std::fprintf(stderr, "anew %s\n", what_of("cuda:1", 4096).c_str());
  std::exit(0);
}

TEST_F(CudaFaults, AnErrorThatCudaKeepsDemandsANewProcessForItsCardAlone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr const char* kSentence =
      "CUDA_ERROR_ILLEGAL_ADDRESS: [^\n]*CUDA works again only in a new process: restart the "
      "program, and resume from its checkpoint[^\n]*\n";
  const std::string any = "(.|\n)*";
  EXPECT_EXIT(read_an_illegal_address(),
              ::testing::ExitedWithCode(0),
              "lost: [^\n]*" + std::string(kSentence) + any + "cuda:1 is right\n" + any +
                  "not restarted: [^\n]*" + kSentence + any + "cuda:1 is right\n" + any +
                  "anew cuda:0: [^\n]*" + kSentence + any + "anew cuda:1: right");
  GTEST_FLAG_SET(death_test_style, "fast");
}

}  // namespace
}  // namespace hearth
