#include <hearth/memory/debug_pool.hpp>
#include <hearth/memory/host_page_provider.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

namespace hearth {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class DebugPoolTest : public ::testing::Test {
 protected:
  Block must_acquire(std::int64_t size_bytes) {
    Block block;
    EXPECT_EQ(pool.acquire(size_bytes, PoolKind::temporary, block), Acquire::ok);
    return block;
  }
  [[nodiscard]] static float first_float(const Block& block) {
    float value = 0;
    std::memcpy(&value, block.data, sizeof value);
    return value;
  }

  HostPageProvider pages;
  DebugPool pool{pages, 1024 * kMiB};
};

TEST_F(DebugPoolTest, FillsFreshBytesWithNan) {
  const Block block = must_acquire(64);
  EXPECT_TRUE(std::isnan(first_float(block)));
  EXPECT_TRUE(pool.check(block).has_value());
}

TEST_F(DebugPoolTest, FillsFreedBytesWithNan) {
  const Block block = must_acquire(64);
  std::memset(block.data, 0, 64);
  pool.release(block, {});
  EXPECT_TRUE(std::isnan(first_float(block))) << "a late read must see NaN";
}

TEST_F(DebugPoolTest, FindsAWriteBehindABlockAtTheFirstByte) {
  const Block block = must_acquire(13);
  block.data[13] = std::byte{0};
  const Status status = pool.check(block);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kernel_failed);
  EXPECT_EQ(status.error().text, "memory was written to 0 bytes behind a block of 13 bytes");
  EXPECT_EQ(pool.report().damage_count, 1U);
}

TEST_F(DebugPoolTest, FindsAWriteBeforeABlock) {
  const Block block = must_acquire(64);
  *(block.data - 8) = std::byte{0};
  EXPECT_NE(pool.check(block).error().text.find("8 bytes before a block of 64 bytes"),
            std::string::npos);
}

TEST_F(DebugPoolTest, TellsADamageOnce) {
  const Block block = must_acquire(64);
  block.data[64] = std::byte{0};
  EXPECT_FALSE(pool.check(block).has_value());
  EXPECT_TRUE(pool.check(block).has_value());
}

TEST_F(DebugPoolTest, TellsOfADamageThatShowedAtTheRelease) {
  const Block damaged = must_acquire(64);
  const Block other = must_acquire(64);
  damaged.data[65] = std::byte{0};
  pool.release(damaged, {});
  EXPECT_FALSE(pool.check(other).has_value());
}

TEST_F(DebugPoolTest, FindsAWriteIntoAFreedBlock) {
  const Block freed = must_acquire(1000);
  const Block other = must_acquire(64);
  pool.release(freed, {});
  freed.data[999] = std::byte{1};
  pool.trim();
  EXPECT_NE(pool.check(other).error().text.find("999 bytes into, after its release"),
            std::string::npos);
}

TEST_F(DebugPoolTest, HoldsALimitedAmountOfFreedPages) {
  for (int i = 0; i < 100; ++i) {
    pool.release(must_acquire(2 * kMiB), {});
  }
  EXPECT_LE(pool.report().total.reserved_bytes, DebugPool::kHeldBytes);
  EXPECT_EQ(pool.trim(), pool.report().total.peak_reserved_bytes - 4 * kMiB);
  EXPECT_EQ(pages.mapped_bytes(), 0);
}

TEST_F(DebugPoolTest, GivesHeldPagesUpBeforeItRefuses) {
  DebugPool tight(pages, 16 * kMiB);
  Block block;
  ASSERT_EQ(tight.acquire(kMiB, PoolKind::temporary, block), Acquire::ok);
  tight.release(block, {});
  EXPECT_EQ(tight.acquire(15 * kMiB, PoolKind::temporary, block), Acquire::ok);
  EXPECT_EQ(tight.report().rungs.trim_count, 1U);
  EXPECT_EQ(tight.acquire(15 * kMiB, PoolKind::temporary, block), Acquire::over_budget);
}

TEST_F(DebugPoolTest, KeepsTheGuardsOfABlockOfNoBytes) {
  const Block block = must_acquire(0);
  EXPECT_TRUE(pool.check(block).has_value());
  *block.data = std::byte{0};
  EXPECT_FALSE(pool.check(block).has_value());
}

TEST_F(DebugPoolTest, WaitsForOtherStreamsBeforeItFillsFreedBytes) {
  const Block block = must_acquire(64);
  std::memset(block.data, 0, 64);
  LastUse use;
  use.add(1, 1);
  pool.release(block, use);
  EXPECT_EQ(first_float(block), 0.0F);
  pool.retire(1, 1);
  EXPECT_TRUE(std::isnan(first_float(block)));
}

}  // namespace
}  // namespace hearth
