#include <hearth/runtime/base/machine_memory.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "temporary_folder.hpp"

namespace hearth {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(MachineMemory, ThereIsSomeOnThisMachine) {
  EXPECT_GT(available_host_bytes(), 0);
}

TEST(MachineMemory, AMachineWithNothingLeftIsFullAndNotUnknown) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "meminfo";
  const auto limit = [&](const char* text) {
    std::ofstream(file) << text;
    return detail::machine_limit(file);
  };
  EXPECT_EQ(limit("MemTotal:  24 kB\nMemAvailable:  7 kB\n")->left_bytes, 7 * 1024);
  ASSERT_TRUE(limit("MemTotal:  24 kB\nMemAvailable:  0 kB\n").has_value());
  EXPECT_EQ(limit("MemTotal:  24 kB\nMemAvailable:  0 kB\n")->left_bytes, 0);
  EXPECT_FALSE(limit("MemTotal:  24 kB\n").has_value());
}

// A folder that cannot be read is no error.
TEST(MachineMemory, AGroupThatCannotBeLookedIntoSetsNoLimit) {
  EXPECT_FALSE(detail::control_group_limit(std::string(5000, 'x')).has_value());
}

TEST(MachineMemory, AContainersLimitIsReadFromItsControlGroup) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder.path() / name) << text;
  };
  const auto left = [&] { return detail::control_group_limit(folder.path())->left_bytes; };
  EXPECT_FALSE(detail::control_group_limit(folder.path()).has_value());
  write("memory.max", "max\n");
  write("memory.current", "1000\n");
  EXPECT_FALSE(detail::control_group_limit(folder.path()).has_value());
  write("memory.max", "5000\n");
  EXPECT_EQ(left(), 4000);
  EXPECT_EQ(detail::control_group_limit(folder.path())->most_bytes, 5000);
  write("memory.stat", "anon 100\nfile 300\nkernel 50\ninactive_file 100\nactive_file 200\n");
  EXPECT_EQ(left(), 4300) << "cached files make room";
  write("memory.max", "400\n");
  EXPECT_EQ(left(), 0);
}

TEST(MachineMemory, SoIsALimitOfTheFirstVersion) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder.path() / name) << text;
  };
  write("memory.limit_in_bytes", "9223372036854771712\n");
  write("memory.usage_in_bytes", "1000\n");
  EXPECT_FALSE(detail::control_group_limit(folder.path()).has_value()) << "that is no limit";
  write("memory.limit_in_bytes", "5000\n");
  write("memory.stat", "active_file 1\ntotal_inactive_file 100\ntotal_active_file 200\n");
  EXPECT_EQ(detail::control_group_limit(folder.path())->left_bytes, 4300);
}

TEST(MachineMemory, AProcesssOwnLimitCounts) {
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  std::int64_t used = 0;
  std::ifstream statistics("/proc/self/status");
  for (std::string line; std::getline(statistics, line);) {
    if (line.starts_with("VmData:")) {
      used = std::stoll(line.substr(7)) * 1024;
    }
  }
  ::rlimit lower = before;
  lower.rlim_cur = static_cast<::rlim_t>(used + kGiB);
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &lower), 0);
  const std::int64_t available = available_host_bytes();
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &before), 0);
  EXPECT_LE(available, kGiB + (64 << 20)) << "the process may have given some back meanwhile";
}

// Other processes take and release memory between the two reads, but seldom a 32nd of all of it.
TEST(MachineMemory, AShareOfItStaysFree) {
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    ::rlimit own{};
    ASSERT_EQ(::getrlimit(resource, &own), 0);
    if (own.rlim_cur != RLIM_INFINITY) {
      GTEST_SKIP() << "the process's own limit may be below what the machine has";
    }
  }
  int found_full = 0;
  for (int look = 0; look < 20; ++look) {
    found_full += has_host_room(available_host_bytes()) ? 0 : 1;
  }
  EXPECT_GE(found_full, 10);
}

TEST(MachineMemory, OnlyLargeRequestsAreComparedWithIt) {
  EXPECT_FALSE(has_host_room(std::int64_t{1} << 46));
  const detail::PretendedHostBytes pretended(0);
  EXPECT_EQ(available_host_bytes(), 0);
  EXPECT_TRUE(has_host_room(kLargeHostBytes - 1));
  EXPECT_FALSE(has_host_room(kLargeHostBytes));
}

}  // namespace
}  // namespace hearth
