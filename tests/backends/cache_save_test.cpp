// Closing a device whose disk is slow or full. A separate program, because it replaces the C
// library's fsync and rename.
#include "backends/gpu/store/kernel_store.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/vulkan/device/physical_list.hpp"
#include "backends/vulkan/pipelines/pipeline_compiler.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace hearth::vulkan {

std::atomic<int> syncs{0};
/// Each rename waits for it, as on a slow disk; null: no rename waits.
std::atomic<const Pending<void>*> disk{nullptr};

namespace {

using namespace gpu;

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class CacheSaveTest : public ::testing::Test {
 protected:
  CacheSaveTest() {
    syncs = 0;
    const PhysicalList list = list_physical().value();
    device_ = VulkanDevice::open("vulkan:0", list.instance, list.devices.front()).value();
  }
  /// Opens a new store of the device.
  [[nodiscard]] std::unique_ptr<KernelStore> store(std::chrono::nanoseconds limit) {
    auto made = std::make_unique<KernelStore>(
        PipelineCompiler::make(device_).value(),
        nullptr,
        std::vector<std::uint64_t>{},
        SaveTerms{.executor = &executor_, .log = nullptr, .limit = limit});
    EXPECT_TRUE(made->kernel(KernelKey(KernelFamily::custom).add(1), text()).has_value());
    return made;
  }
  [[nodiscard]] std::size_t modules_kept() const {
    std::error_code none;
    std::size_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator(cache() / "spirv", none)) {
      count += each.path().extension().empty() ? 1U : 0U;
    }
    return count;
  }
  [[nodiscard]] std::filesystem::path cache() const { return folder_.path() / "vulkan"; }

 private:
  static std::string make_text() {
    return glsl_prelude({.threads = 64}) + glsl_parameters("uint64_t y; ", 8) +
           "void main() { store_i32(p.y, INDEX(THREAD), 7); }\n";
  }
  static KernelText text() {
    static constexpr auto kMake = [] { return make_text(); };
    return kMake;
  }

  TemporaryFolder folder_;
  hearth::testing::EnvironmentVariable cache_{"HEARTH_CACHE_DIR", folder_.path().string()};
  std::shared_ptr<const VulkanDevice> device_;
  ThreadExecutor executor_;
};

TEST_F(CacheSaveTest, NobodyWaitsForASync) {
  static_cast<void>(store(1min).reset());
  EXPECT_EQ(syncs, 0);
  EXPECT_EQ(modules_kept(), 1U);
  EXPECT_EQ(store(1min)->counts().compiled, 0U) << "the next run has it";
}

TEST_F(CacheSaveTest, ASlowDiskKeepsTheEndNoLongerThanItsLimit) {
  Promise<void> turn;
  const Pending<void> comes = turn.pending();
  std::unique_ptr<KernelStore> shaders = store(1ms);
  disk = &comes;
  ::testing::internal::CaptureStderr();
  shaders.reset();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the thread that caches the compiled kernels of vulkan:0"));
  EXPECT_EQ(modules_kept(), 0U) << "the end went before";
  turn.set_value();
  const Deadline soon = Deadline::in(20s);
  while (modules_kept() == 0 && !soon.has_passed()) {
  }
  EXPECT_EQ(modules_kept(), 1U) << "what is left behind goes on";
  disk = nullptr;
}

TEST_F(CacheSaveTest, WhatCannotBeWrittenIsAnErrorAndTheRestIsWritten) {
  std::filesystem::create_directories(cache());
  std::ofstream(cache() / "spirv") << "no folder";
  CacheSave files;
  constexpr FileFormat kFormat{.magic = {'H', 'T', 'E', 'S', 'T', '0', '0', '0'}, .version = 1};
  files.add(cache() / "spirv" / "module", kFormat, {});
  files.add(cache() / "other", kFormat, {});
  const Status status = files.write();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::io_error);
  EXPECT_TRUE(read_checked_file(cache() / "other", kFormat).has_value());
}

}  // namespace
}  // namespace hearth::vulkan

extern "C" int fsync(int number) {
  ++hearth::vulkan::syncs;
  return static_cast<int>(::syscall(SYS_fsync, number));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (const hearth::Pending<void>* const turn = hearth::vulkan::disk) {
    static_cast<void>(turn->wait());
  }
  return static_cast<int>(::syscall(SYS_rename, from, to));
}
