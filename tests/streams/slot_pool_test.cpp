#include <hearth/streams/slot_pool.hpp>

#include <map>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(SlotPool, GivesASlotOnceUntilItComesBack) {
  SlotDirectory directory;
  SlotPool& pool = *directory.take_pool();
  std::set<std::uint32_t> out;
  for (std::uint32_t i = 0; i < 3 * kSlotsPerBlock; ++i) {
    EXPECT_TRUE(out.insert(pool.take().slot.value).second);
  }
  EXPECT_EQ(directory.block_count(), 3U);
}

TEST(SlotPool, AReturnedSlotComesAgainWithAHigherGeneration) {
  SlotDirectory directory;
  SlotPool& pool = *directory.take_pool();
  std::map<std::uint32_t, std::uint32_t> generation;
  for (int i = 0; i < 5000; ++i) {
    const SlotPool::Name name = pool.take();
    EXPECT_GT(name.generation, generation[name.slot.value]);
    generation[name.slot.value] = name.generation;
    directory.release(name.slot);
  }
  EXPECT_EQ(directory.block_count(), 1U) << "returned slots are used before a new block is leased";
}

TEST(SlotPool, ASlotThatNoRecordNamedKeepsItsGeneration) {
  SlotDirectory directory;
  SlotPool& pool = *directory.take_pool();
  const SlotPool::Name name = pool.take();
  pool.put_back(name.slot);
  const SlotPool::Name again = pool.take();
  EXPECT_EQ(again.slot, name.slot);
  EXPECT_EQ(again.generation, name.generation);
}

TEST(SlotPool, ASlotReturnsToThePoolThatLeasedIt) {
  SlotDirectory directory;
  SlotPool& mine = *directory.take_pool();
  SlotPool& other = *directory.take_pool();
  std::set<std::uint32_t> of_mine;
  for (std::uint32_t i = 0; i < kSlotsPerBlock; ++i) {
    of_mine.insert(mine.take().slot.value);
  }
  for (const std::uint32_t slot : of_mine) {
    directory.release(SlotId{slot});
  }
  for (std::uint32_t i = 0; i < kSlotsPerBlock; ++i) {
    EXPECT_FALSE(of_mine.contains(other.take().slot.value));
    EXPECT_TRUE(of_mine.contains(mine.take().slot.value));
  }
}

TEST(SlotPool, ANewLaneTakesThePoolOfAnEndedOne) {
  SlotDirectory directory;
  SlotPool* pool = directory.take_pool();
  const SlotPool::Name queued = pool->take();
  directory.leave_pool(pool);
  ASSERT_EQ(directory.take_pool(), pool);
  EXPECT_NE(pool->take().slot, queued.slot) << "the ended lane's record still names it";
  directory.release(queued.slot);
  EXPECT_EQ(directory.block_count(), 1U);
}

TEST(SlotPool, ASetIsItsModel) {
  const std::uint64_t seed = 20261121;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  SlotDirectory directory;
  SlotPool* pools[] = {directory.take_pool(), directory.take_pool(), directory.take_pool()};
  std::vector<SlotId> out;
  std::set<std::uint32_t> taken;
  for (int step = 0; step < 50'000; ++step) {
    if (random() % 100 < (step < 25'000 ? 55U : 45U) || out.empty()) {
      SlotPool& pool = *pools[random() % std::size(pools)];
      const SlotId slot = pool.take().slot;
      ASSERT_TRUE(taken.insert(slot.value).second) << "a slot was given out twice";
      out.push_back(slot);
      continue;
    }
    const std::size_t which = random() % out.size();
    directory.release(out[which]);
    taken.erase(out[which].value);
    out[which] = out.back();
    out.pop_back();
  }
}

}  // namespace
}  // namespace hearth
