#include <hearth/memory/exclusive_pool.hpp>

#include "counting_pages.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
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

class ExclusivePoolTest : public ::testing::Test {
 protected:
  [[nodiscard]] bool is_balanced() const {
    const MemoryUsage total = pool.report().total;
    return total.reserved_bytes == total.live_bytes + total.waiting_bytes + total.free_bytes &&
           total.reserved_bytes == pages.out_bytes;
  }

  test::CountingPages pages;
  ExclusivePool pool{pages, 64 * kMiB};
};

TEST_F(ExclusivePoolTest, GivesEachBlockAPageOfItsOwn) {
  static_cast<void>(must_acquire(pool, 100));
  static_cast<void>(must_acquire(pool, 100));
  static_cast<void>(must_acquire(pool, 0));
  EXPECT_EQ(pages.allocate_count, 3);
  EXPECT_TRUE(is_balanced());
}

TEST_F(ExclusivePoolTest, KeepsAPageForTheNextOfNearlyItsSize) {
  const Block first = must_acquire(pool, 4 * kMiB);
  pool.release(first, {});
  EXPECT_EQ(must_acquire(pool, 3 * kMiB).data, first.data);
  EXPECT_EQ(pages.allocate_count, 1);
}

TEST_F(ExclusivePoolTest, WastesNoMoreThanAQuarterOfAPage) {
  const Block first = must_acquire(pool, 4 * kMiB);
  pool.release(first, {});
  EXPECT_NE(must_acquire(pool, 3 * kMiB - 1).data, first.data);
}

TEST_F(ExclusivePoolTest, GivesIdlePagesBackBeforeItRefuses) {
  pool.release(must_acquire(pool, 40 * kMiB), {});
  static_cast<void>(must_acquire(pool, 10 * kMiB));
  static_cast<void>(must_acquire(pool, 20 * kMiB));
  EXPECT_EQ(pool.report().rungs.trim_count, 1U);
  Block none;
  EXPECT_EQ(pool.acquire(40 * kMiB, PoolKind::temporary, none), Acquire::over_budget);
  EXPECT_TRUE(is_balanced());
}

TEST_F(ExclusivePoolTest, SaysExhaustedWhenTheProviderRefuses) {
  pages.room_bytes = kMiB;
  Block none;
  EXPECT_EQ(pool.acquire(2 * kMiB, PoolKind::temporary, none), Acquire::exhausted);
}

TEST_F(ExclusivePoolTest, KeepsBytesBackUntilEveryOtherStreamIsDoneWithThem) {
  LastUse use;
  use.add(1, 3);
  use.add(2, 5);
  const Block block = must_acquire(pool, kMiB);
  pool.release(block, use);
  pool.retire(1, 3);
  EXPECT_EQ(pool.report().total.waiting_bytes, kMiB);
  pool.retire(2, 5);
  EXPECT_EQ(pool.report().total.waiting_bytes, 0);
  EXPECT_EQ(must_acquire(pool, kMiB).data, block.data);
}

TEST_F(ExclusivePoolTest, WaitsForAPageThatTheHomeStreamMayStillUse) {
  LastUse use;
  use.add(0, 2);
  pool.release(must_acquire(pool, 40 * kMiB), use);
  Block block;
  EXPECT_EQ(pool.acquire(60 * kMiB, PoolKind::temporary, block), Acquire::needs_wait);
  pool.retire(0, 2);
  EXPECT_EQ(pool.acquire(60 * kMiB, PoolKind::temporary, block), Acquire::ok);
}

TEST_F(ExclusivePoolTest, ReportsTheLargestFreePageOfEitherKind) {
  const Block weights = must_acquire(pool, 3 * kMiB, PoolKind::exclusive);
  pool.release(must_acquire(pool, 2 * kMiB), {});
  EXPECT_EQ(pool.report().total.largest_free_bytes, 2 * kMiB);
  pool.release(weights, {});
  EXPECT_EQ(pool.report().total.largest_free_bytes, 3 * kMiB);
}

TEST_F(ExclusivePoolTest, TrimsNoPageThatTheHomeStreamMayStillUse) {
  LastUse use;
  use.add(0, 2);
  pool.release(must_acquire(pool, kMiB), use);
  EXPECT_EQ(pool.trim(), 0);
  const Block again = must_acquire(pool, kMiB);
  EXPECT_EQ(again.ready_after, 2U);
  pool.release(again, use);
  pool.retire(0, 1);
  EXPECT_EQ(pool.trim(), 0) << "the last of the two ops may still run";
  pool.retire(0, 2);
  EXPECT_EQ(pool.trim(), kMiB);
}

TEST_F(ExclusivePoolTest, CountsRightThroughRandomPrograms) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Block> live;
    for (int i = 0; i < 2000; ++i) {
      Block block;
      const auto size_bytes = static_cast<std::int64_t>(random() % (2 * kMiB));
      const PoolKind kind = random() % 4 == 0 ? PoolKind::exclusive : PoolKind::temporary;
      if (random() % 2 == 0 && pool.acquire(size_bytes, kind, block) == Acquire::ok) {
        live.push_back(block);
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        pool.release(live.back(), {});
        live.pop_back();
      }
      ASSERT_TRUE(is_balanced()) << "seed " << seed;
      ASSERT_LE(pages.out_bytes, 64 * kMiB) << "seed " << seed;
      ASSERT_EQ(pool.report().total.live_count, static_cast<std::int64_t>(live.size()));
    }
    for (const Block& block : live) {
      pool.release(block, {});
    }
    pool.trim();
    EXPECT_EQ(pages.out_bytes, 0);
  }
}

TEST_F(ExclusivePoolTest, StartsItsPeaksAgain) {
  pool.release(must_acquire(pool, 8 * kMiB), {});
  pool.trim();
  EXPECT_EQ(pool.report().total.peak_live_bytes, 8 * kMiB);
  EXPECT_EQ(pool.report().total.peak_reserved_bytes, 8 * kMiB);
  pool.reset_peak();
  EXPECT_EQ(pool.report().total.peak_live_bytes, 0);
  EXPECT_EQ(pool.report().total.peak_reserved_bytes, 0);
}

}  // namespace
}  // namespace hearth
