#include <hearth/backends/sim/shadow_memory.hpp>

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::sim {
namespace {

using ::testing::HasSubstr;

class Shadow : public ::testing::Test {
 protected:
  Shadow() { memory_.add_page({bytes_.data(), 100}); }

  [[nodiscard]] ByteRange at(std::int64_t begin, std::int64_t end) const {
    return {bytes_.data() + begin, end - begin};
  }
  /// A command that waits only for `waits_for`.
  std::optional<ShadowReport> access(std::uint64_t command,
                                     const std::vector<ByteRange>& reads,
                                     const std::vector<ByteRange>& writes,
                                     const std::vector<std::uint64_t>& waits_for = {}) {
    return memory_.access(command, reads, writes, [&](std::uint64_t earlier) {
      return std::ranges::count(waits_for, earlier) > 0;
    });
  }
  static std::string name_of(const std::optional<ShadowReport>& report) {
    return report ? name(report->fault) : "none";
  }

  std::array<std::byte, 200> bytes_{};
  ShadowMemory memory_;
};

TEST_F(Shadow, WhatIsWrittenMayBeReadByWhoWaitsForIt) {
  EXPECT_EQ(name_of(access(1, {}, {at(0, 40)})), "none");
  EXPECT_EQ(name_of(access(2, {at(10, 20)}, {at(40, 50)}, {1})), "none");
  EXPECT_EQ(name_of(access(3, {at(0, 50)}, {}, {1, 2})), "none");
}

TEST_F(Shadow, BytesThatNobodyHasWrittenAreUninitialised) {
  access(1, {}, {at(0, 40)});
  const auto report = access(2, {at(36, 44)}, {}, {1});
  ASSERT_EQ(name_of(report), "uninitialised_read");
  EXPECT_EQ(report->text, "command 2 reads 4 bytes that were never written")
      << "the page's other bytes do not count";
}

TEST_F(Shadow, BytesOfNoPageAreOutOfBounds) {
  access(1, {}, {at(0, 100)});
  EXPECT_EQ(name_of(access(2, {at(96, 101)}, {}, {1})), "out_of_bounds");
  EXPECT_EQ(name_of(access(3, {}, {at(100, 101)})), "out_of_bounds");
  EXPECT_EQ(name_of(access(4, {}, {ByteRange{bytes_.data() - 1, 2}})), "out_of_bounds");
  EXPECT_EQ(name_of(access(5, {ByteRange{}}, {ByteRange{}})), "none") << "no bytes, no fault";
}

TEST_F(Shadow, AReaderThatDoesNotWaitReadsTooEarly) {
  access(1, {}, {at(0, 40)});
  const auto report = access(2, {at(39, 40)}, {});
  ASSERT_EQ(name_of(report), "read_before_produce");
  EXPECT_EQ(report->earlier, 1U);
  EXPECT_EQ(report->command, 2U);
}

TEST_F(Shadow, AWriterThatDoesNotWaitForTheLastOneReusesTooEarly) {
  access(1, {}, {at(0, 40)});
  EXPECT_EQ(name_of(access(2, {}, {at(20, 60)})), "reuse_before_timeline");
  EXPECT_EQ(name_of(access(3, {}, {at(0, 20)}, {1})), "none");
}

TEST_F(Shadow, AWriterThatDoesNotWaitForAReaderReusesTooEarly) {
  access(1, {}, {at(0, 40)});
  access(2, {at(0, 10)}, {}, {1});
  EXPECT_EQ(name_of(access(3, {}, {at(10, 40)}, {1})), "none") << "those bytes were not read";
  const auto report = access(4, {}, {at(0, 10)}, {1});
  ASSERT_EQ(name_of(report), "reuse_before_timeline");
  EXPECT_EQ(report->earlier, 2U);
}

TEST_F(Shadow, InPlaceIsNoFault) {
  access(1, {}, {at(0, 40)});
  EXPECT_EQ(name_of(access(2, {at(0, 40)}, {at(0, 40)}, {1})), "none");
  EXPECT_EQ(name_of(access(3, {at(0, 40)}, {}, {2})), "none");
}

TEST_F(Shadow, AFaultIsReportedOnce) {
  access(1, {}, {at(0, 40)});
  EXPECT_EQ(name_of(access(2, {}, {at(0, 40)})), "reuse_before_timeline");
  EXPECT_EQ(name_of(access(3, {at(0, 40)}, {}, {2})), "none");
}

TEST_F(Shadow, APageMayGoWhenNobodyUsesIt) {
  access(1, {}, {at(0, 40)});
  const auto report = memory_.remove_page(at(0, 100), [](std::uint64_t) { return false; });
  ASSERT_EQ(name_of(report), "reuse_before_timeline");
  EXPECT_THAT(report->text, HasSubstr("a page of 100 bytes was freed while command 1"));
  EXPECT_EQ(name_of(access(2, {at(0, 1)}, {}, {1})), "out_of_bounds");
  memory_.add_page(at(0, 100));
  EXPECT_EQ(name_of(access(3, {at(0, 1)}, {}, {1})), "uninitialised_read");
  access(4, {}, {at(0, 40)});
  EXPECT_EQ(name_of(memory_.remove_page(at(0, 100), [](std::uint64_t) { return true; })), "none");
}

TEST_F(Shadow, APageGrowsAndShrinksAtItsEnd) {
  const auto nobody = [](std::uint64_t) { return false; };
  access(1, {}, {at(0, 100)});
  EXPECT_EQ(name_of(memory_.resize_page(at(0, 100), 150, nobody)), "none");
  EXPECT_EQ(name_of(access(2, {}, {at(90, 150)}, {1})), "none") << "across the old end";
  EXPECT_EQ(name_of(memory_.resize_page(at(0, 150), 120, nobody)), "reuse_before_timeline");
  EXPECT_EQ(name_of(access(3, {}, {at(110, 121)}, {2})), "out_of_bounds");
  EXPECT_EQ(name_of(memory_.resize_page(at(0, 120), 150, nobody)), "none");
  EXPECT_EQ(name_of(access(4, {at(140, 150)}, {}, {2})), "uninitialised_read");
}

TEST_F(Shadow, TheHostHasEndedWhenItIsNoted) {
  EXPECT_EQ(name_of(access(ShadowMemory::kHost, {}, {at(0, 40)})), "none");
  EXPECT_EQ(name_of(access(1, {at(0, 40)}, {})), "none");
  const auto report = access(ShadowMemory::kHost, {}, {at(0, 4)});
  ASSERT_EQ(name_of(report), "reuse_before_timeline");
  EXPECT_THAT(report->text, HasSubstr("the host writes over bytes of command 1"));
}

}  // namespace
}  // namespace hearth::sim
