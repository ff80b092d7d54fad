#include <hearth/memory/host_page_provider.hpp>
#include <hearth/runtime/base/machine_memory.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace hearth {
namespace {

std::uintptr_t address(const Page& page) {
  return reinterpret_cast<std::uintptr_t>(page.data);
}

TEST(HostPageProvider, GivesPagesThatCanBeWrittenToTheLastByte) {
  HostPageProvider provider;
  for (const std::int64_t size_bytes : {1, 4096, 100'000, 3'000'000}) {
    const Page page = provider.allocate_page(size_bytes).value();
    ASSERT_GE(page.size_bytes, size_bytes);
    std::memset(page.data, 1, static_cast<std::size_t>(page.size_bytes));
    provider.free_page(page);
  }
  EXPECT_EQ(provider.mapped_bytes(), 0);
  EXPECT_EQ(provider.page_count(), 0);
}

TEST(HostPageProvider, AlignsLargePagesToHugePages) {
  HostPageProvider provider;
  for (std::int64_t i = 0; i < 8; ++i) {
    const Page page = provider.allocate_page(HostPageProvider::kHugePageBytes + i * 4096).value();
    EXPECT_EQ(address(page) % HostPageProvider::kHugePageBytes, 0U);
    EXPECT_EQ(page.size_bytes % HostPageProvider::kHugePageBytes, 0);
    const Page small = provider.allocate_page(1).value();
    EXPECT_EQ(address(small) % 64, 0U);
    provider.free_page(page);
    provider.free_page(small);
  }
}

TEST(HostPageProvider, GivesAPageForNoBytes) {
  HostPageProvider provider;
  const Page page = provider.allocate_page(0).value();
  EXPECT_NE(page.data, nullptr);
  EXPECT_GT(page.size_bytes, 0);
  provider.free_page(page);
}

TEST(HostPageProvider, RefusesWhatGoesOverTheBudgetAndGivesItAfterAFree) {
  HostPageProvider provider({.budget_bytes = 8 << 20});
  const Page page = provider.allocate_page(6 << 20).value();
  const Result<Page> refused = provider.allocate_page(4 << 20);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(refused.error().text.find("6291456 of 8388608 bytes"), std::string::npos)
      << refused.error().text;
  provider.free_page(page);
  const Result<Page> given = provider.allocate_page(4 << 20);
  ASSERT_TRUE(given.has_value());
  provider.free_page(given.value());
}

TEST(HostPageProvider, RefusesSizesThatNoMachineHas) {
  HostPageProvider provider;
  const Result<Page> huge = provider.allocate_page(std::int64_t{1} << 62);
  ASSERT_FALSE(huge.has_value());
  EXPECT_EQ(huge.error().code, ErrorCode::out_of_memory);
  const Result<Page> largest = provider.allocate_page(std::numeric_limits<std::int64_t>::max());
  ASSERT_FALSE(largest.has_value());
  EXPECT_EQ(largest.error().code, ErrorCode::out_of_memory);
  const Result<Page> negative = provider.allocate_page(-1);
  ASSERT_FALSE(negative.has_value());
  EXPECT_EQ(negative.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(provider.mapped_bytes(), 0);
}

TEST(HostPageProvider, FailsExactlyTheAllocationsThatItIsToldTo) {
  HostPageProvider provider({.fail_allocation = 2, .fail_count = 2});
  std::string outcome;
  for (int i = 0; i < 5; ++i) {
    const Result<Page> page = provider.allocate_page(4096);
    outcome += page.has_value() ? '+' : '-';
    if (page.has_value()) {
      provider.free_page(page.value());
    }
  }
  EXPECT_EQ(outcome, "+--++");
}

// The kernel would grant the page, and the machine would stall when the page is filled.
TEST(HostPageProvider, GivesNoPageThatTheMachineCannotFillWhateverTheBudgetSays) {
  const detail::PretendedHostBytes pretended(100 << 20);
  HostPageProvider provider;
  const Result<Page> refused = provider.allocate_page(101 << 20);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(refused.error().text.find("the machine has no such room"), std::string::npos);
  EXPECT_EQ(provider.mapped_bytes(), 0);
  const Page page = provider.allocate_page(100 << 20).value();
  provider.free_page(page);
}

TEST(HostPageProvider, ManySmallStepsAreComparedWithTheMachineToo) {
  HostPageProvider provider;
  Page page = provider.open_growing_page(std::int64_t{1} << 30).value();
  const detail::PretendedHostBytes pretended(0);
  constexpr std::int64_t kStep = 2 << 20;
  while (page.size_bytes < 2 * kLargeHostBytes) {
    if (!provider.resize_page(page, page.size_bytes + kStep).has_value()) {
      break;
    }
  }
  EXPECT_EQ(page.size_bytes, kLargeHostBytes - kStep);
  EXPECT_FALSE(provider.resize_page(page, page.size_bytes + kStep).has_value()) << "it looks again";
  provider.free_page(page);
}

}  // namespace
}  // namespace hearth
