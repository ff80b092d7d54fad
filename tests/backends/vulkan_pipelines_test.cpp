// Pipelines from one run of a program to the next: what it used is on disk, and is made before it
// is asked for.
#include "backends/vulkan/physical_list.hpp"
#include "backends/vulkan/pipeline_maker.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"

#include <hearth/backends/codegen/glsl_prelude.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

namespace hearth::vulkan {
namespace {

std::string text_of(int number) {
  return glsl_prelude({.threads = 64}) + glsl_parameters("uint64_t y; ", 8) +
         "void main() { store_i32(p.y, INDEX(THREAD), " + std::to_string(number) + "); }\n";
}

class VulkanPipelines : public ::testing::Test {
 protected:
  VulkanPipelines() {
    const PhysicalList list = list_physical().value();
    device_ = VulkanDevice::open("vulkan:0", list.instance, list.devices.front()).value();
  }
  [[nodiscard]] std::shared_ptr<PipelineMaker> next_run() const {
    return PipelineMaker::make(device_).value();
  }

  std::atomic<bool> has_ended_{false};

 private:
  TemporaryFolder folder_;
  hearth::testing::EnvironmentVariable cache_{"HEARTH_CACHE_DIR", folder_.path().string()};
  std::shared_ptr<const VulkanDevice> device_;
};

TEST_F(VulkanPipelines, WhatAProgramUsedIsThereBeforeItAsksAgain) {
  {
    const auto first = next_run();
    EXPECT_TRUE(first->pipeline(ShaderFamily::custom, text_of(1)).has_value());
    EXPECT_TRUE(first->pipeline(ShaderFamily::custom, text_of(2)).has_value());
    EXPECT_EQ(first->find_prepared(text_of(1)), nullptr) << "nobody has called prepare()";
  }
  const auto second = next_run();
  second->prepare(has_ended_);
  EXPECT_EQ(second->counts().prepared, 2U);
  const VkPipeline prepared = second->find_prepared(text_of(2));
  EXPECT_NE(prepared, nullptr);
  EXPECT_EQ(second->pipeline(ShaderFamily::custom, text_of(2)).value(), prepared);
  EXPECT_TRUE(second->pipeline(ShaderFamily::custom, text_of(3)).has_value());
  EXPECT_EQ(second->counts().pipelines, 3U);
  EXPECT_EQ(second->counts().compiled, 1U);
}

// A program that opens several devices, or one several times, has the shaders of all.
TEST_F(VulkanPipelines, WhatOneRunDoesNotUseIsNotForgotten) {
  for (const int number : {1, 2, 3}) {
    EXPECT_TRUE(next_run()->pipeline(ShaderFamily::custom, text_of(number)).has_value());
  }
  const auto next = next_run();
  next->prepare(has_ended_);
  EXPECT_EQ(next->counts().prepared, 3U);
}

TEST_F(VulkanPipelines, AnEndedDeviceMakesNoMore) {
  EXPECT_TRUE(next_run()->pipeline(ShaderFamily::custom, text_of(1)).has_value());
  const auto next = next_run();
  has_ended_ = true;
  next->prepare(has_ended_);
  EXPECT_EQ(next->counts().prepared, 0U);
}

}  // namespace
}  // namespace hearth::vulkan
