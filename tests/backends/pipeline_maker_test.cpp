// Pipelines from one run of a program to the next: what it asked for can be made before it is asked
// for again. On whatever driver is here.
#include "backends/vulkan/pipeline_maker.hpp"

#include "backends/vulkan/physical_list.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::vulkan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string text_of(int number) {
  return "#version 460\nlayout(local_size_x = " + std::to_string(number) +
         ") in;\nvoid main() {}\n";
}

std::vector<std::uint64_t> hashes_of(const std::vector<RecentShader>& shaders) {
  std::vector<std::uint64_t> hashes;
  for (const RecentShader& shader : shaders) {
    hashes.push_back(shader.hash);
  }
  return hashes;
}

class PipelineMakerTest : public ::testing::Test {
 protected:
  std::shared_ptr<PipelineMaker> open() { return PipelineMaker::make(device_).value(); }
  static void ask(PipelineMaker& maker, int number) {
    ASSERT_TRUE(maker.pipeline(ShaderFamily::custom, text_of(number)).has_value());
  }

  TemporaryFolder folder_;
  testing::EnvironmentVariable cache_{"HEARTH_CACHE_DIR", folder_.path().string()};
  PhysicalList list_ = list_physical().value();
  std::shared_ptr<const VulkanDevice> device_ =
      VulkanDevice::open("vulkan:0", list_.instance, list_.devices.at(0)).value();
};

TEST_F(PipelineMakerTest, WhatARunAskedForIsMadeAheadInTheNext) {
  {
    const auto first = open();
    EXPECT_THAT(first->recent(), IsEmpty());
    ask(*first, 1);
    ask(*first, 2);
    EXPECT_EQ(first->counts().compiled, 2U);
  }
  const auto second = open();
  ASSERT_EQ(second->recent().size(), 2U);
  second->make_ahead(second->recent()[1]);
  EXPECT_EQ(second->counts().pipelines, 0U) << "nobody has asked for it";
  ask(*second, 1);
  EXPECT_EQ(second->counts().made_ahead, 0U);
  ask(*second, 2);
  EXPECT_EQ(second->counts().made_ahead, 1U);
  EXPECT_EQ(second->counts().pipelines, 2U);
  EXPECT_EQ(second->counts().compiled, 0U);
}

TEST_F(PipelineMakerTest, WhatIsNotAskedForAgainComesLast) {
  std::vector<std::uint64_t> first;
  {
    const auto maker = open();
    ask(*maker, 1);
    ask(*maker, 2);
  }
  {
    const auto maker = open();
    first = hashes_of(maker->recent());
    ask(*maker, 2);
  }
  EXPECT_THAT(hashes_of(open()->recent()), ElementsAre(first[1], first[0]));
}

TEST_F(PipelineMakerTest, AModuleThatIsGoneIsMadeAnew) {
  {
    const auto maker = open();
    ask(*maker, 1);
  }
  std::filesystem::remove_all(folder_.path() / "vulkan" / "spirv");
  const auto maker = open();
  maker->make_ahead(maker->recent().at(0));
  ask(*maker, 1);
  EXPECT_EQ(maker->counts().made_ahead, 0U);
  EXPECT_EQ(maker->counts().compiled, 1U);
}

}  // namespace
}  // namespace hearth::vulkan
