// The lines of HEARTH_LOG_LEVEL about the life of a runtime, from opening to end.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

namespace hearth::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// The log of a runtime at this level, while `program` runs on its one device of 4 MiB.
template <class Program>
std::string log_of(const char* level, const Program& program) {
  ::setenv("HEARTH_LOG_LEVEL", level, 1);
  ::testing::internal::CaptureStderr();
  {
    const Runtime runtime(
        {.devices = {{.name = "cpu:0", .memory_budget_bytes = std::int64_t{4} << 20}},
         .fusion = Fusion::off});  // the lines contain the number of kernels
    ::unsetenv("HEARTH_LOG_LEVEL");
    std::thread([&] { program(runtime.device("cpu:0")); }).join();  // its streams end with it
  }
  return ::testing::internal::GetCapturedStderr();
}

void add_ones(const Device& device, int count) {
  Tensor x = ones(device, {8});
  for (int i = 0; i < count; ++i) {
    x = std::move(x) + 1.0;
  }
  static_cast<void>(x.to_vector<float>());
}

TEST(LogLines, AtDebugADeviceTellsHowItOpensAndHowItEnds) {
  const std::string log = log_of("debug", [](const Device& device) { add_ones(device, 3); });
  EXPECT_THAT(log, ContainsRegex("device cpu:0 opens: .*cores [{].*budget 4194304 bytes\n"));
  EXPECT_THAT(log, HasSubstr("the runtime ends: 1 devices, at most 30000ms"));
  EXPECT_THAT(log,
              ContainsRegex("device cpu:0 ends: [0-9]+ records, 4 kernels, 0 ops joined.*, 0 "
                            "poisoned; memory: peak [0-9]+ bytes live.*of 4194304;.*refused 0\n"));
}

TEST(LogLines, AtDebugGrowthGiveBacksAndRungsAreTold) {
  const std::string log = log_of("debug", [](const Device& device) {
    static_cast<void>(zeros(device, {3 << 18}).read_bytes().get());  // 3 MiB
    EXPECT_THROW(static_cast<void>(zeros(device, {2 << 20}).read_bytes().get()), OutOfMemory);
    static_cast<void>(device.trim());
  });
  EXPECT_THAT(log, ContainsRegex("device cpu:0: memory grows from 0 to [0-9]+ bytes"));
  EXPECT_THAT(log, ContainsRegex("device cpu:0: short of memory for 8388608 bytes; .*refused 1\n"));
  EXPECT_THAT(log, ContainsRegex("device cpu:0: trimmed, [0-9]+ bytes given back"));
}

TEST(LogLines, AtDebugARestartIsTold) {
  const std::string log = log_of("debug", [](const Device& device) { device.restart(); });
  EXPECT_THAT(log, HasSubstr("device cpu:0 restarted: generation 1\n"));
}

TEST(LogLines, AtDebugThereIsNoLineForAnOpOrAStream) {
  const auto lines = [](int ops) {
    const std::string log = log_of("debug", [ops](const Device& device) { add_ones(device, ops); });
    EXPECT_THAT(log, Not(HasSubstr("stream")));
    return std::ranges::count(log, '\n');
  };
  EXPECT_EQ(lines(2000), lines(2));
}

TEST(LogLines, AtTraceStreamsTellWhenTheyOpenAndClose) {
  const std::string log = log_of("trace", [](const Device& device) {
    Stream stream(device);
    const StreamScope scope(stream);
    add_ones(device, 1);
  });
  EXPECT_THAT(log,
              AllOf(ContainsRegex("device cpu:0: stream [0-9]+ opens\n"),
                    ContainsRegex("device cpu:0: stream [0-9]+ closes after [0-9]+ records\n")));
}

TEST(LogLines, AtWarnAProgramThatWorksWritesNothing) {
  EXPECT_THAT(log_of("warn", [](const Device& device) { add_ones(device, 3); }), IsEmpty());
}

TEST(LogLines, ADevicesLogIsThatOfItsRuntime) {
  const std::string log =
      log_of("debug", [](const Device& device) { device.log().debug("a line of the program"); });
  EXPECT_THAT(log, HasSubstr("debug: a line of the program\n"));
}

}  // namespace
}  // namespace hearth::testing
