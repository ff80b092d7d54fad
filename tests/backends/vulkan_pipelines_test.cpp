// Pipelines across runs of a program: the pipelines of one run are on disk, and the next run
// compiles them before their first use.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/gpu/store/kernel_factory.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/vulkan/device/physical_list.hpp"
#include "backends/vulkan/pipelines/pipeline_compiler.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"

namespace hearth::vulkan {
namespace {

using namespace gpu;

std::string text_of(int number) {
  return glsl_prelude({.threads = 64}) + glsl_parameters("uint64_t y; ", 8) +
         "void main() { store_i32(p.y, INDEX(THREAD), " + std::to_string(number) + "); }\n";
}

KernelKey key_of(int number) {
  return KernelKey(KernelFamily::custom).add(number);
}

class VulkanPipelines : public ::testing::Test {
 protected:
  VulkanPipelines() {
    const PhysicalList list = list_physical().value();
    device_ = VulkanDevice::open("vulkan:0", list.instance, list.devices.front()).value();
  }
  [[nodiscard]] std::shared_ptr<KernelFactory> next_run(std::uint64_t build = 1) const {
    return std::make_shared<KernelFactory>(
        PipelineCompiler::make(device_).value(), std::vector<std::uint64_t>{}, build);
  }

  [[nodiscard]] std::filesystem::path cache_folder() const { return folder_.path() / "vulkan"; }
  [[nodiscard]] std::size_t files_in(const std::string& folder) const {
    std::size_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator(cache_folder() / folder)) {
      count += each.is_regular_file() ? 1U : 0U;
    }
    return count;
  }

  [[nodiscard]] bool is_software() const { return device_->limits().is_cpu; }
  /// The size of the driver's cache on disk.
  [[nodiscard]] std::uintmax_t driver_bytes() const {
    return std::filesystem::file_size(cache_folder() / (device_->fingerprint() + ".pipelines"));
  }

  std::atomic<bool> has_ended_{false};
  bool has_seen_two_ = false;

 private:
  TemporaryFolder folder_;
  hearth::testing::EnvironmentVariable cache_{"HEARTH_CACHE_DIR", folder_.path().string()};
  std::shared_ptr<const VulkanDevice> device_;
};

TEST_F(VulkanPipelines, WhatAProgramUsedIsThereBeforeItAsksAgain) {
  {
    const auto first = next_run();
    EXPECT_TRUE(first->kernel(key_of(1), text_of(1)).has_value());
    EXPECT_TRUE(first->kernel(key_of(2), text_of(2)).has_value());
    EXPECT_EQ(first->find_prepared(key_of(1), text_of(1)), KernelHandle::none)
        << "nobody has called prepare()";
  }
  const auto second = next_run();
  second->prepare(has_ended_);
  EXPECT_EQ(second->counts().prepared, 2U);
  const KernelHandle prepared = second->find_prepared(key_of(2), text_of(2));
  EXPECT_NE(prepared, KernelHandle::none);
  EXPECT_EQ(second->kernel(key_of(2), text_of(2)).value(), prepared);
  EXPECT_TRUE(second->kernel(key_of(3), text_of(3)).has_value());
  EXPECT_EQ(second->counts().kernels, 3U);
  EXPECT_EQ(second->counts().compiled, 1U);
}

// A program that opens several devices, or one device several times, keeps the shaders of all.
TEST_F(VulkanPipelines, WhatOneRunDoesNotUseIsNotForgotten) {
  for (const std::uint64_t build : std::vector<std::uint64_t>{1, 0}) {  // 0: the build is unknown
    for (const int number : {1, 2, 3}) {
      EXPECT_TRUE(next_run(build)->kernel(key_of(number), text_of(number)).has_value());
    }
    const auto next = next_run(build);
    next->prepare(has_ended_);
    EXPECT_EQ(next->counts().prepared, 3U);
  }
}

// Texts of the same build are found by key and need not be generated; keys of another build may
// mean other texts.
TEST_F(VulkanPipelines, AreFoundByKeysOfTheSameBuildAlone) {
  EXPECT_TRUE(next_run()->kernel(key_of(1), text_of(1)).has_value());
  for (const std::uint64_t build : std::vector<std::uint64_t>{1, 2, 2, 0, 0}) {
    const auto next = next_run(build);
    EXPECT_EQ(next->find_prepared(key_of(1)), KernelHandle::none) << "nobody has called prepare()";
    next->prepare(has_ended_);
    const bool is_second = build == 1 || (build == 2 && has_seen_two_);
    EXPECT_EQ(next->find_prepared(key_of(1)) != KernelHandle::none, is_second) << build;
    EXPECT_EQ(next->find_prepared(key_of(2)), KernelHandle::none);
    EXPECT_NE(next->find_prepared(key_of(1), text_of(1)), KernelHandle::none);
    has_seen_two_ = build == 2;
  }
}

TEST_F(VulkanPipelines, PreparedByKeyAreUsedByTheNextRunToo) {
  EXPECT_TRUE(next_run()->kernel(key_of(1), text_of(1)).has_value());
  EXPECT_TRUE(next_run()->kernel(key_of(2), text_of(2)).has_value());
  {
    const auto next = next_run();
    next->prepare(has_ended_);
    EXPECT_NE(next->find_prepared(key_of(1)), KernelHandle::none);
  }
  const auto last = next_run();
  last->prepare(has_ended_);
  EXPECT_EQ(last->counts().prepared, 2U);
  EXPECT_NE(last->find_prepared(key_of(1)), KernelHandle::none);
  EXPECT_NE(last->find_prepared(key_of(2)), KernelHandle::none);
}

// Two devices of one card, or two processes: the last one to close keeps the pipelines of the
// other. The caches of drivers in software are empty; there only the modules show it.
TEST_F(VulkanPipelines, OfTwoAtATimeBothAreKept) {
  auto first = next_run();
  auto second = next_run();
  EXPECT_TRUE(first->kernel(key_of(1), text_of(1)).has_value());
  EXPECT_TRUE(second->kernel(key_of(2), text_of(2)).has_value());
  second.reset();
  const std::uintmax_t bytes_of_one = driver_bytes();
  first.reset();
  EXPECT_EQ(files_in("spirv"), 2U);
  if (!is_software()) {
    EXPECT_GT(driver_bytes(), bytes_of_one + bytes_of_one / 4);
  }
  const auto next = next_run();
  EXPECT_TRUE(next->kernel(key_of(1), text_of(1)).has_value());
  EXPECT_TRUE(next->kernel(key_of(2), text_of(2)).has_value());
  EXPECT_EQ(next->counts().compiled, 0U);
}

// Each module is valid but belongs to another shader, and a driver would run it.
TEST_F(VulkanPipelines, AModuleUnderAnothersNameCountsAsNone) {
  EXPECT_TRUE(next_run()->kernel(key_of(1), text_of(1)).has_value());
  EXPECT_TRUE(next_run()->kernel(key_of(2), text_of(2)).has_value());
  std::vector<std::filesystem::path> files;
  for (const auto& each : std::filesystem::directory_iterator(cache_folder() / "spirv")) {
    files.push_back(each.path());
  }
  ASSERT_EQ(files.size(), 2U);
  const std::filesystem::path aside = cache_folder() / "aside";
  std::filesystem::rename(files[0], aside);
  std::filesystem::rename(files[1], files[0]);
  std::filesystem::rename(aside, files[1]);
  const auto next = next_run();
  EXPECT_TRUE(next->kernel(key_of(1), text_of(1)).has_value());
  EXPECT_TRUE(next->kernel(key_of(2), text_of(2)).has_value());
  EXPECT_EQ(next->counts().compiled, 2U);
}

TEST_F(VulkanPipelines, SayWhyNothingIsKept) {
  EXPECT_TRUE(next_run()->kept().has_value());
  const hearth::testing::EnvironmentVariable none("HEARTH_CACHE_DIR", "/dev/null");
  EXPECT_THAT(next_run()->kept().error().text, ::testing::HasSubstr("/dev/null/vulkan"));
}

TEST_F(VulkanPipelines, ProgramsThatNobodyRunsAreForgotten) {
  EXPECT_TRUE(next_run()->kernel(key_of(1), text_of(1)).has_value());
  for (int i = 0; i < 300; ++i) {
    const std::filesystem::path gone = cache_folder() / ("gone-" + std::to_string(i) + ".used");
    std::ofstream(gone) << "old";
    const auto now = std::filesystem::last_write_time(gone);
    std::filesystem::last_write_time(gone, now - std::chrono::hours(24 * (300 - i)));
  }
  EXPECT_TRUE(next_run()->kernel(key_of(2), text_of(2)).has_value());
  EXPECT_EQ(files_in("."), 192U + 1U) << "three quarters of 256, and the driver's";
  EXPECT_FALSE(std::filesystem::exists(cache_folder() / "gone-0.used"));
  EXPECT_TRUE(std::filesystem::exists(cache_folder() / "gone-299.used"));
  const auto next = next_run();
  next->prepare(has_ended_);
  EXPECT_EQ(next->counts().prepared, 2U) << "its own is the newest";
}

TEST_F(VulkanPipelines, ThisProgramHasABuildId) {
  EXPECT_NE(build_id(), 0U);
  EXPECT_EQ(build_id(), build_id());
}

TEST_F(VulkanPipelines, AnEndedDeviceMakesNoMore) {
  EXPECT_TRUE(next_run()->kernel(key_of(1), text_of(1)).has_value());
  const auto next = next_run();
  has_ended_ = true;
  next->prepare(has_ended_);
  EXPECT_EQ(next->counts().prepared, 0U);
}

}  // namespace
}  // namespace hearth::vulkan
