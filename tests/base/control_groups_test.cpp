// The processors that control groups allow, in folders like the kernel's.
#include <hearth/runtime/base/control_groups.hpp>

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "temporary_folder.hpp"

namespace hearth::detail {
namespace {

using ::testing::ElementsAre;

class ControlGroups : public ::testing::Test {
 protected:
  void write(const std::filesystem::path& name, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text;
  }
  [[nodiscard]] ControlGroupFiles files() const {
    return {.groups = folder_.path() / "groups", .root = folder_.path() / "fs"};
  }
  [[nodiscard]] std::optional<double> quota() const { return processor_quota(files()); }

  const TemporaryFolder folder_;
};

TEST_F(ControlGroups, WithoutALimitLeaveEverything) {
  EXPECT_FALSE(quota().has_value()) << "there is no file at all";
  write("groups", "0::/a/b\nnonsense\n");
  EXPECT_FALSE(quota().has_value());
  write("fs/a/b/cpu.max", "max 100000\n");
  EXPECT_FALSE(quota().has_value());
  write("fs/a/b/cpu.max", "many\n");
  EXPECT_FALSE(quota().has_value());
  write("fs/a/b/cpu.max", "50000 0\n");
  EXPECT_FALSE(quota().has_value());
}

TEST_F(ControlGroups, OfTheSecondVersionLeaveTheirQuota) {
  write("groups", "0::/a/b\n");
  write("fs/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
  write("fs/a/b/cpu.max", "250000 50000\n");
  EXPECT_EQ(quota(), 5.0);
}

TEST_F(ControlGroups, LeaveTheLeastQuotaOfTheirWholePath) {
  write("groups", "0::/a/b/c\n");
  write("fs/a/b/c/cpu.max", "max 100000\n");
  write("fs/a/b/cpu.max", "300000 100000\n");
  write("fs/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("fs/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 1.0) << "a container sees its own group at the root";
}

TEST_F(ControlGroups, OfTheFirstVersionLeaveTheirQuota) {
  write("groups", "9:cpuset:/x\n4:cpu,cpuacct:/a\n3:memory:/a\n");
  write("fs/cpu/a/cpu.cfs_quota_us", "-1\n");
  write("fs/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(quota().has_value());
  write("fs/cpu/cpu.cfs_quota_us", "120000\n");
  write("fs/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 1.2);
  write("fs/cpu/a/cpu.cfs_quota_us", "20000\n");
  EXPECT_EQ(quota(), 0.2);
}

TEST_F(ControlGroups, AreVisitedForTheirOwnControllerAlone) {
  write("groups", "5:cpuacct,cpu:/a\n3:memory:/m\n0::/u\n");
  std::vector<std::string> seen;
  for_each_control_group(
      "memory",
      [&](const std::filesystem::path& each) {
        seen.push_back(each.lexically_normal().lexically_relative(files().root).generic_string());
      },
      files());
  EXPECT_THAT(seen, ElementsAre("memory/m", "memory/", "u", "."));
}

}  // namespace
}  // namespace hearth::detail
