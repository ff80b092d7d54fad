// Pages that grow in place: the provider's side, the heap's, the pool's.
#include <hearth/memory/device_pool.hpp>
#include <hearth/memory/host_page_provider.hpp>

#include "counting_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace hearth {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Block must_acquire(MemoryStrategy& pool,
                   std::int64_t size_bytes,
                   PoolKind kind = PoolKind::temporary) {
  Block block;
  EXPECT_EQ(pool.acquire(size_bytes, kind, block), Acquire::ok);
  return block;
}

TEST(GrowingHostPage, KeepsItsBytesWhenItGrowsAndStartsClearAfterItShrank) {
  HostPageProvider provider;
  Page page = provider.open_growing_page(64 * kMiB).value();
  EXPECT_EQ(page.size_bytes, 0);
  EXPECT_EQ(provider.mapped_bytes(), 0);
  ASSERT_TRUE(provider.resize_page(page, 3 * kMiB).has_value());
  std::byte* const begin = page.data;
  std::memset(page.data, 7, static_cast<std::size_t>(page.size_bytes));
  ASSERT_TRUE(provider.resize_page(page, 9 * kMiB).has_value());
  EXPECT_EQ(page.data, begin);
  EXPECT_EQ(provider.mapped_bytes(), 9 * kMiB);
  EXPECT_EQ(page.data[3 * kMiB - 1], std::byte{7});
  page.data[9 * kMiB - 1] = std::byte{7};
  ASSERT_TRUE(provider.resize_page(page, kMiB).has_value());
  ASSERT_TRUE(provider.resize_page(page, 9 * kMiB).has_value());
  EXPECT_EQ(page.data[kMiB - 1], std::byte{7});
  EXPECT_EQ(page.data[9 * kMiB - 1], std::byte{0});
  provider.free_page(page);
  EXPECT_EQ(provider.mapped_bytes(), 0);
  EXPECT_EQ(provider.page_count(), 0);
}

TEST(GrowingHostPage, StaysAsItIsWhenTheBudgetOrItsReachRefuses) {
  HostPageProvider provider({.budget_bytes = 8 * kMiB});
  Page page = provider.open_growing_page(4 * kMiB).value();
  ASSERT_TRUE(provider.resize_page(page, 2 * kMiB).has_value());
  EXPECT_EQ(provider.resize_page(page, 5 * kMiB).error().code, ErrorCode::out_of_memory);
  const Page other = provider.allocate_page(5 * kMiB).value();
  EXPECT_EQ(provider.resize_page(page, 4 * kMiB).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(page.size_bytes, 2 * kMiB);
  provider.free_page(other);
  EXPECT_TRUE(provider.resize_page(page, 4 * kMiB).has_value());
  provider.free_page(page);
}

TEST(GrowingHostPage, FailsWhenTheAllocationIsToldTo) {
  HostPageProvider provider({.fail_allocation = 2});
  Page page = provider.open_growing_page(64 * kMiB).value();
  EXPECT_TRUE(provider.resize_page(page, kMiB).has_value());
  EXPECT_FALSE(provider.resize_page(page, 2 * kMiB).has_value());
  EXPECT_TRUE(provider.resize_page(page, 2 * kMiB).has_value());
  provider.free_page(page);
}

TEST(GrowingHostPage, LosesAGapAndNothingElse) {
  HostPageProvider provider({.budget_bytes = 8 * kMiB});
  Page page = provider.open_growing_page(64 * kMiB).value();
  ASSERT_TRUE(provider.resize_page(page, 8 * kMiB).has_value());
  std::memset(page.data, 7, static_cast<std::size_t>(page.size_bytes));
  ASSERT_TRUE(provider.make_gap(page, 2 * kMiB, 4 * kMiB).has_value());
  EXPECT_EQ(provider.mapped_bytes(), 4 * kMiB);
  EXPECT_EQ(page.data[2 * kMiB - 1], std::byte{7});
  EXPECT_EQ(page.data[6 * kMiB], std::byte{7});
  const Page other = provider.allocate_page(2 * kMiB).value();
  EXPECT_EQ(provider.fill_gap(page, 2 * kMiB, 4 * kMiB).error().code, ErrorCode::out_of_memory);
  ASSERT_TRUE(provider.fill_gap(page, 3 * kMiB, 2 * kMiB).has_value());
  EXPECT_EQ(page.data[3 * kMiB], std::byte{0});
  EXPECT_EQ(provider.mapped_bytes(), 8 * kMiB);
  provider.free_page(page);
  provider.free_page(other);
  EXPECT_EQ(provider.mapped_bytes(), 0);
}

TEST(GrowingHostPage, RefusesAReachThatNoMachineHas) {
  HostPageProvider provider;
  EXPECT_EQ(provider.open_growing_page(std::int64_t{1} << 60).error().code,
            ErrorCode::out_of_memory);
  EXPECT_EQ(provider.open_growing_page(0).error().code, ErrorCode::out_of_memory);
}

class GrowingPool : public ::testing::Test {
 protected:
  GrowingPool() { pages.grows = true; }
  test::CountingPages pages;
};

TEST_F(GrowingPool, LiesTogether) {
  DevicePool pool(pages);
  const Block a = must_acquire(pool, 3 * kMiB);
  const Block b = must_acquire(pool, 5 * kMiB);
  EXPECT_EQ(b.data, a.data + a.size_bytes);
  pool.release(a, {});
  pool.release(b, {});
  EXPECT_GE(pool.report().total.largest_free_bytes, 8 * kMiB);
}

TEST_F(GrowingPool, ShrinksAPageThatTheProviderRoundedBeyondTheBudget) {
  pages.grain_bytes = 8 * kMiB;
  DevicePool pool(pages, {.budget_bytes = 10 * kMiB});
  static_cast<void>(must_acquire(pool, 4 * kMiB));
  ASSERT_EQ(pages.out_bytes, 8 * kMiB);
  Block none;
  EXPECT_EQ(pool.acquire(6 * kMiB, PoolKind::temporary, none), Acquire::over_budget);
  EXPECT_EQ(pages.out_bytes, 8 * kMiB);
  EXPECT_EQ(pool.report().total.reserved_bytes, 8 * kMiB);
}

TEST_F(GrowingPool, UsesItsFreeEndBeforeItGrows) {
  DevicePool pool(pages);
  static_cast<void>(must_acquire(pool, 10 * kMiB));
  pool.release(must_acquire(pool, 10 * kMiB), {});
  static_cast<void>(must_acquire(pool, 12 * kMiB));
  EXPECT_LE(pool.report().total.reserved_bytes, 24 * kMiB);
}

TEST_F(GrowingPool, TrimGivesTheFreeEndBack) {
  DevicePool pool(pages);
  const Block kept = must_acquire(pool, 4 * kMiB);
  pool.release(must_acquire(pool, 32 * kMiB), {});
  EXPECT_GE(pool.trim(), 32 * kMiB);
  EXPECT_LE(pages.out_bytes, 4 * kMiB + 4096);
  pool.release(kept, {});
  pool.trim();
  EXPECT_EQ(pages.out_bytes, 0);
  EXPECT_EQ(pool.report().total.page_count, 0);
  static_cast<void>(must_acquire(pool, kMiB));
}

TEST_F(GrowingPool, KeepsAFreeEndThatTheHomeStreamMayStillUse) {
  DevicePool pool(pages);
  LastUse use;
  use.add(0, 5);
  pool.release(must_acquire(pool, 4 * kMiB), use);
  EXPECT_EQ(pool.trim(), 0);
  pool.retire(0, 4);
  EXPECT_EQ(pool.trim(), 0) << "the last op may still run";
  pool.retire(0, 5);
  EXPECT_GE(pool.trim(), 4 * kMiB);
}

TEST_F(GrowingPool, UsesTheLastPageOfTheBudget) {
  DevicePool pool(pages, {.budget_bytes = 10 * kMiB});
  static_cast<void>(must_acquire(pool, 6 * kMiB + 4096));
  static_cast<void>(must_acquire(pool, 4 * kMiB - 4096));
  EXPECT_EQ(pool.report().total.reserved_bytes, 10 * kMiB);
}

TEST_F(GrowingPool, BorrowsFromAnotherHeapBeforeItRefuses) {
  DevicePool pool(pages, {.budget_bytes = 16 * kMiB});
  const Block hole = must_acquire(pool, 8 * kMiB);
  const Block fence = must_acquire(pool, 4 * kMiB);
  pool.release(hole, {});
  const Block weight = must_acquire(pool, 7 * kMiB, PoolKind::exclusive);
  EXPECT_EQ(weight.data, hole.data);
  EXPECT_EQ(pool.report().rungs.borrow_count, 1U);
  Block none;
  EXPECT_EQ(pool.acquire(8 * kMiB, PoolKind::temporary, none), Acquire::over_budget);
  pool.release(weight, {});
  pool.release(fence, {});
  EXPECT_EQ(pool.report().total.live_bytes, 0);
}

TEST_F(GrowingPool, TakesTheEndOfAnotherHeapBeforeItBorrows) {
  DevicePool pool(pages, {.budget_bytes = 16 * kMiB});
  pool.release(must_acquire(pool, 12 * kMiB), {});
  static_cast<void>(must_acquire(pool, 12 * kMiB, PoolKind::exclusive));
  EXPECT_EQ(pool.report().give_back_count, 1U);
  EXPECT_EQ(pool.report().rungs.borrow_count, 0U);
}

TEST_F(GrowingPool, GivesAHoleBackBeforeItHoldsATenthMoreThanWasLive) {
  pages.has_gaps = true;
  DevicePool pool(pages);
  static_cast<void>(must_acquire(pool, 6 * kMiB));
  const Block hole = must_acquire(pool, 6 * kMiB);
  static_cast<void>(must_acquire(pool, 6 * kMiB));
  pool.release(hole, {});
  const Block larger = must_acquire(pool, 8 * kMiB);
  EXPECT_LE(pool.report().total.reserved_bytes, 22 * kMiB);
  EXPECT_GE(pool.report().give_back_count, 1U);
  pool.release(larger, {});
  const Block again = must_acquire(pool, 6 * kMiB);
  EXPECT_LE(pool.report().total.reserved_bytes, 22 * kMiB);
  pool.release(again, {});
}

TEST_F(GrowingPool, FillsAGapAgainBeforeItsPageGrows) {
  pages.has_gaps = true;
  DevicePool pool(pages);
  const Block hole = must_acquire(pool, 6 * kMiB);
  const Block fence = must_acquire(pool, 6 * kMiB);
  pool.release(hole, {});
  EXPECT_EQ(pool.trim(), 6 * kMiB);
  const Block part = must_acquire(pool, 2 * kMiB);
  const Block rest = must_acquire(pool, 4 * kMiB);
  EXPECT_EQ(part.data, hole.data);
  EXPECT_EQ(rest.data, hole.data + 2 * kMiB);
  EXPECT_EQ(pool.report().total.reserved_bytes, 12 * kMiB);
  for (const Block& block : {part, rest, fence}) {
    pool.release(block, {});
  }
  EXPECT_EQ(pool.report().total.largest_free_bytes, 12 * kMiB) << "it lies together again";
}

// Each kernel requests another size, while the tensors of the step are allocated and freed in
// another order.
TEST_F(GrowingPool, ScratchOfKernelsCostsASteadyStepNoMemoryOfTheMachine) {
  DevicePool pool(pages);
  constexpr std::array<std::int64_t, 6> kTensors{
      7 * kMiB, kMiB, 3 * kMiB, 5 * kMiB, kMiB, 2 * kMiB};
  constexpr std::array<std::int64_t, 6> kScratch{
      4 * kMiB, 130 << 10, 3 * kMiB, kMiB, 5 * kMiB, 2 * kMiB};
  const auto step = [&] {
    std::vector<Block> live;
    for (std::size_t i = 0; i < kTensors.size(); ++i) {
      const Block scratch = must_acquire(pool, kScratch[i], PoolKind::scratch);
      pool.release(scratch, LastUse{});
      live.push_back(must_acquire(pool, kTensors[i]));
      if (i == 3) {
        pool.release(live[1], LastUse{});
        live.erase(live.begin() + 1);
      }
    }
    for (const Block& block : live) {
      pool.release(block, LastUse{});
    }
  };
  for (int warm = 0; warm < 3; ++warm) {
    step();
  }
  const MemoryReport before = pool.report();
  for (int i = 0; i < 20; ++i) {
    step();
  }
  EXPECT_EQ(pool.report().page_acquire_count, before.page_acquire_count);
  EXPECT_EQ(pool.report().give_back_count, before.give_back_count);
  EXPECT_EQ(before.pools.back().name, "scratch of kernels");
  EXPECT_GE(before.pools.back().reserved_bytes, 5 * kMiB);
  EXPECT_LT(before.pools.back().reserved_bytes, 6 * kMiB);
}

TEST_F(GrowingPool, KeepsAHoleThatTheHomeStreamMayStillUse) {
  pages.has_gaps = true;
  DevicePool pool(pages, {.budget_bytes = 16 * kMiB});
  const Block hole = must_acquire(pool, 8 * kMiB);
  static_cast<void>(must_acquire(pool, 8 * kMiB));
  LastUse use;
  use.add(0, 5);
  pool.release(hole, use);
  Block weight;
  EXPECT_EQ(pool.acquire(9 * kMiB, PoolKind::exclusive, weight), Acquire::needs_wait);
  EXPECT_EQ(pool.trim(), 0);
  pool.retire(0, 4);
  EXPECT_EQ(pool.trim(), 0) << "the last op may still run";
  pool.retire(0, 5);
  EXPECT_EQ(pool.acquire(8 * kMiB, PoolKind::exclusive, weight), Acquire::ok);
  EXPECT_EQ(pool.report().rungs.trim_count, 1U);
}

TEST_F(GrowingPool, HoldsAtMostASixteenthMoreThanSmallBlocksNeed) {
  DevicePool pool(pages);
  for (int i = 0; i < 4000; ++i) {
    static_cast<void>(must_acquire(pool, 10'000));
  }
  const MemoryUsage total = pool.report().total;
  EXPECT_LE(total.reserved_bytes, total.live_bytes / 16 * 17 + 256 * 1024);
}

// A cache of keys and values that grows by a row a step, in each of 12 layers, as in decoding.
TEST_F(GrowingPool, WastesAtMostATenthOnAGrowingCache) {
  DevicePool pool(pages);
  constexpr std::int64_t kRowBytes = 1024 * 4;
  std::vector<Block> caches;
  for (int i = 0; i < 24; ++i) {
    caches.push_back(must_acquire(pool, 64 * kRowBytes));
  }
  for (std::int64_t length = 65; length < 512; ++length) {
    for (Block& cache : caches) {
      const Block scratch = must_acquire(pool, 12 * length * 4);
      const Block next = must_acquire(pool, length * kRowBytes);
      pool.release(cache, {});
      pool.release(scratch, {});
      cache = next;
    }
  }
  const MemoryUsage total = pool.report().total;
  RecordProperty("fragmentation_percent",
                 static_cast<int>(100.0 - 100.0 * static_cast<double>(total.peak_live_bytes) /
                                              static_cast<double>(total.peak_reserved_bytes)));
  EXPECT_LE(static_cast<double>(total.peak_reserved_bytes) * 0.9,
            static_cast<double>(total.peak_live_bytes));
}

}  // namespace
}  // namespace hearth
