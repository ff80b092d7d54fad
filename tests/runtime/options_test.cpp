// Options that a Runtime refuses, with an error at the calling line.
#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

#include "tests/support/environment_variable.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

template <class Fn>
Error refusal(const Fn& fn) {
  try {
    fn();
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.error().location.file, EndsWith("options_test.cpp")) << error.what();
    return error.error();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

void open(const DeviceOptions& device) {
  const Runtime runtime({.devices = {device}});
}

std::vector<std::string> names_of(const std::vector<Device>& devices) {
  std::vector<std::string> names;
  for (const Device& device : devices) {
    names.push_back(device.name());
  }
  return names;
}

TEST(RuntimeDevices, ADefaultRuntimeListsItsCpusAlone) {
  const Runtime runtime({.cpu_device_count = 2});
  EXPECT_THAT(names_of(runtime.devices()), ElementsAre("cpu:0", "cpu:1"));
  EXPECT_THAT(names_of(runtime.devices("cpu")), ElementsAre("cpu:0", "cpu:1"));
  EXPECT_THAT(names_of(runtime.devices("reference")), ElementsAre("reference:0"));
  EXPECT_THAT(names_of(runtime.devices("cp")), IsEmpty());
  EXPECT_EQ(runtime.device("sim:0").name(), "sim:0");
  EXPECT_THAT(names_of(runtime.devices()), ElementsAre("cpu:0", "cpu:1"));
}

TEST(RuntimeDevices, AllThatOptionsNameAreListed) {
  const Runtime runtime(
      {.devices = {{.name = "reference:0"}, {.name = "cpu:0"}, {.name = "sim:3"}}});
  EXPECT_THAT(names_of(runtime.devices()), ElementsAre("reference:0", "cpu:0", "sim:3"));
  EXPECT_THAT(names_of(runtime.devices("sim")), ElementsAre("sim:3"));
  EXPECT_THROW(static_cast<void>(runtime.device("sim:0")), ArgumentError);
}

TEST(RuntimeOptions, CoresThatDoNotExistAreRefused) {
  const int beyond = 1 << 20;
  EXPECT_THAT(refusal([&] { open({.name = "cpu:0", .cores = {beyond}}); }).text,
              AllOf(HasSubstr("'cpu:0' is given cores {1048576}"),
                    HasSubstr("may use {" + std::to_string(available_cores().front()))));
  EXPECT_THAT(refusal([&] { open({.name = "cpu:0", .cores = {-1}}); }).text, HasSubstr("{-1}"));
}

TEST(RuntimeOptions, ACoreNamedTwiceIsRefused) {
  const int core = available_cores().front();
  EXPECT_THAT(refusal([&] {
                open({.name = "cpu:0", .cores = {core, core}});
              }).text,
              HasSubstr("each once"));
}

TEST(RuntimeOptions, NumbersAndNamesThatMakeNoSenseAreRefused) {
  EXPECT_THAT(refusal([&] { open({.name = "cpu:0", .memory_budget_bytes = -5}); }).text,
              HasSubstr("memory_budget_bytes is -5"));
  EXPECT_THAT(
      refusal([&] { open({.name = "cpu:0", .memory = static_cast<MemoryPooling>(9)}); }).text,
      HasSubstr("memory is 9, which is no MemoryPooling"));
  EXPECT_THAT(
      refusal([] { const Runtime runtime({.shutdown_limit = std::chrono::seconds(-3)}); }).text,
      HasSubstr("shutdown_limit is below 0"));
  EXPECT_THAT(refusal([] { const Runtime runtime({.wait_limit = std::chrono::seconds(0)}); }).text,
              HasSubstr("wait_limit is not above 0"));
  EXPECT_THAT(refusal([] { const Runtime runtime({.busy_wait = std::chrono::seconds(-1)}); }).text,
              HasSubstr("busy_wait is below 0"));
  const Runtime runtime({.devices = {{.name = "sim:0"}}});
  EXPECT_THAT(refusal([&] {
                const Stream stream(runtime.device("sim:0"),
                                    {.priority = static_cast<Priority>(77)});
              }).text,
              HasSubstr("77 is no Priority"));
}

TEST(RuntimeOptions, NumbersOfDevicesBeyondAllMeasureAreRefused) {
  for (const int count : {-1, 257, 100'000}) {
    EXPECT_THAT(refusal([&] { const Runtime runtime({.cpu_device_count = count}); }).text,
                HasSubstr("cpu_device_count is " + std::to_string(count)));
  }
}

TEST(RuntimeOptions, ADeviceHasOneName) {
  for (const char* name : {"sim:00", "sim:01", "sim:1234567890", "sim:-1", "sim:"}) {
    EXPECT_THROW(open({.name = name}), Exception) << name;
  }
  EXPECT_NO_THROW(open({.name = "sim:123456789"}));
}

TEST(RuntimeOptions, ADeviceThatDoesNotExistIsRefusedWithThoseThatDo) {
  EXPECT_THAT(refusal([&] { open({.name = "gpu:0"}); }).text,
              HasSubstr("no device 'gpu:0': this build has cpu:N"));
  EXPECT_EQ(refusal([&] { open({.name = "cpu:x"}); }).code, ErrorCode::not_found);
  EXPECT_THAT(refusal([] {
                const Runtime runtime({.devices = {{.name = "sim:0"}, {.name = "sim:0"}}});
              }).text,
              HasSubstr("two devices are called 'sim:0'"));
}

TEST(RuntimeOptions, ADeviceThatTheEnvironmentNamesIsRefusedInItsName) {
  const auto refused = [](const char* devices) {
    const testing::EnvironmentVariable variable("HEARTH_DEVICES", devices);
    return refusal([] { const Runtime runtime; }).text;
  };
  EXPECT_THAT(refused("metal:0"),
              StartsWith("HEARTH_DEVICES: no device 'metal:0': this build has"));
  EXPECT_EQ(refused("cpu:0,cpu:0"), "HEARTH_DEVICES: two devices are called 'cpu:0'");
  EXPECT_THAT(refused("cpu:0,"), StartsWith("HEARTH_DEVICES=cpu:0,: expected names"));
}

TEST(RuntimeOptions, AMissingDeviceNamesTheLineThatAskedForIt) {
  const Runtime runtime({.devices = {{.name = "sim:0"}}});
  const std::uint32_t line = __LINE__ + 1;
  EXPECT_EQ(refusal([&] { static_cast<void>(runtime.device("sim:1")); }).location.line, line);
}

TEST(RuntimeOptions, AStreamUsedTwiceNamesTheLineOfTheSecondUse) {
  const Runtime runtime({.devices = {{.name = "sim:0"}}});
  Stream stream(runtime.device("sim:0"));
  const StreamScope here(stream);
  std::thread([&] {
    const std::uint32_t line = __LINE__ + 1;
    const Error error = refusal([&] { const StreamScope there(stream); });
    EXPECT_EQ(error.code, ErrorCode::stream_misuse);
    EXPECT_EQ(error.location.line, line);
    EXPECT_EQ(error.stream, stream.id());
  }).join();
}

TEST(RuntimeOptions, AMovedStreamIsRefusedAtItsUse) {
  const Runtime runtime({.devices = {{.name = "sim:0"}}});
  Stream stream(runtime.device("sim:0"));
  const Stream moved(std::move(stream));
  const std::uint32_t line = __LINE__ + 1;
  EXPECT_EQ(refusal([&] { const StreamScope scope(stream); }).location.line, line);  // NOLINT
}

}  // namespace
}  // namespace hearth
