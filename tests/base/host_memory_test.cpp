#include <hearth/runtime/base/host_memory.hpp>

#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/file.hpp>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kImpossible = std::size_t{1} << 50U;

TEST(HostMemory, GivesZeros) {
  EXPECT_THAT(host_vector<float>(3, "read").value(), ElementsAre(0, 0, 0));
}

TEST(HostMemory, CopiesWhatItIsGiven) {
  const std::vector<int> from{3, 4};
  EXPECT_EQ(host_copy(std::span<const int>(from), "from").value(), from);
}

TEST(HostMemory, AnImpossibleSizeIsAnErrorWithItsBytesOpAndLine) {
  const SourceLoc here = SourceLoc::current();
  const Result<std::vector<float>> result = host_vector<float>(kImpossible, "to_vector", here);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(result.error().text, "to_vector: no host memory for 4503599627370496 bytes");
  EXPECT_EQ(result.error().op, "to_vector");
  EXPECT_EQ(result.error().location, here);
}

// The kernel would grant the bytes, and the machine would stall when they are touched.
TEST(HostMemory, WhatTheMachineHasNoRoomForIsRefusedBeforeItIsTouched) {
  const detail::PretendedHostBytes pretended(kLargeHostBytes);
  EXPECT_TRUE(host_vector<std::byte>(kLargeHostBytes, "read").has_value());
  const Result<std::vector<std::byte>> result = host_vector<std::byte>(kLargeHostBytes + 1, "read");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().text, "read: no host memory for 67108865 bytes");
  const std::byte first{};
  EXPECT_FALSE(host_copy(std::span(&first, kLargeHostBytes + 1), "from").has_value());
}

TEST(HostMemory, ACountWhoseBytesNoNumberHoldsIsAnErrorToo) {
  EXPECT_FALSE(host_vector<double>(std::numeric_limits<std::size_t>::max() / 2, "x").has_value());
}

TEST(HostMemory, WhatTheMachineRefusesIsTheSameError) {
  const auto refused = [] { throw std::bad_alloc(); };
  const Status status = detail::on_host<std::uint8_t>(7, "copy", {}, refused);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
  EXPECT_THAT(status.error().text, HasSubstr("7 bytes"));
}

TEST(HostMemory, AVectorThatCannotGrowKeepsItsValues) {
  std::vector<int> values{1, 2};
  EXPECT_FALSE(resize_on_host(values, kImpossible, "grow").has_value());
  EXPECT_THAT(values, ElementsAre(1, 2));
}

// A sparse file, larger than the address space of a process, that takes no room.
class HugeFile {
 public:
  HugeFile() : descriptor_(::memfd_create("huge", 0)) {
    EXPECT_EQ(::ftruncate(descriptor_, static_cast<off_t>(kImpossible)), 0);
  }
  HugeFile(const HugeFile&) = delete;
  HugeFile& operator=(const HugeFile&) = delete;
  ~HugeFile() { ::close(descriptor_); }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

TEST(HostMemory, AFileThatFitsIntoNoMemoryIsRefusedByName) {
  const HugeFile file;
  const Result<std::vector<std::byte>> whole = read_file(file.path());
  ASSERT_FALSE(whole.has_value());
  EXPECT_EQ(whole.error().code, ErrorCode::out_of_memory);
  EXPECT_THAT(whole.error().text, HasSubstr(file.path()));
  EXPECT_THAT(whole.error().text, HasSubstr("1125899906842625 bytes"));
  const Result<std::vector<std::byte>> checked = read_checked_file(file.path(), FileFormat{});
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code, ErrorCode::out_of_memory);
}

}  // namespace
}  // namespace hearth
