#include <hearth/autotune/tune_cache.hpp>

#include <gtest/gtest.h>

#include <hearth/autotune/pick_table.hpp>

namespace hearth::detail {
namespace {

TuneEntry entry_of(std::int64_t rows, CandidateId winner, std::uint16_t cores = 1) {
  TuneEntry entry{.key = {.sizes = {rows, 512}, .cores = cores}};
  entry.ladder = {{.id = winner}, {.id = kRulePick}};
  return entry;
}

TEST(TuneCache, FindsWhatWasPut) {
  TuneCache cache;
  EXPECT_EQ(cache.find(entry_of(8, 1).key), nullptr);
  cache.put(entry_of(8, 1));
  cache.put(entry_of(16, 2));
  ASSERT_NE(cache.find(entry_of(8, 1).key), nullptr);
  EXPECT_EQ(cache.find(entry_of(8, 1).key)->ladder[0].id, 1);
  cache.put(entry_of(8, 3));
  EXPECT_EQ(cache.find(entry_of(8, 1).key)->ladder[0].id, 3);
  EXPECT_EQ(cache.size(), 2U);
}

TEST(TuneCache, TheLeastRecentlyUsedEntryLeaves) {
  TuneCache cache(3);
  for (int rows = 1; rows <= 3; ++rows) {
    cache.put(entry_of(rows, 1));
  }
  EXPECT_NE(cache.find(entry_of(1, 1).key), nullptr);
  cache.put(entry_of(4, 1));
  EXPECT_EQ(cache.size(), 3U);
  EXPECT_EQ(cache.find(entry_of(2, 1).key), nullptr);
  EXPECT_NE(cache.find(entry_of(1, 1).key), nullptr);
}

TEST(TuneCache, TheNeighbourHasTheNearestSizes) {
  TuneCache cache;
  cache.put(entry_of(8, 1));
  cache.put(entry_of(64, 2));
  cache.put(entry_of(40, 3, 2));  // other cores
  TuneEntry without = entry_of(33, 4);
  without.ladder.clear();
  cache.put(without);
  const TuneEntry* const found = cache.neighbour(entry_of(32, 0).key);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->ladder[0].id, 2);
  EXPECT_EQ(cache.neighbour(entry_of(64, 0).key)->ladder[0].id, 1) << "not itself";
  EXPECT_EQ(cache.neighbour(entry_of(32, 0, 3).key), nullptr);
}

TEST(TuneCache, ReturnsEachChangeOnceAlsoOfAnEntryThatLeft) {
  TuneCache cache(2);
  cache.load(entry_of(1, 1));
  cache.put(entry_of(2, 1));
  cache.put(entry_of(3, 1));  // the loaded entry leaves
  cache.put(entry_of(4, 1));  // the changed entry of 2 rows leaves
  EXPECT_EQ(cache.take_changed().size(), 3U);
  EXPECT_TRUE(cache.take_changed().empty());
  cache.put(entry_of(4, 2));
  ASSERT_EQ(cache.take_changed().size(), 1U);
}

TEST(TuneCache, ALoadReplacesNoChangeThatIsUnwritten) {
  TuneCache cache;
  cache.put(entry_of(1, 1));
  cache.load(entry_of(1, 2));
  EXPECT_EQ(cache.find(entry_of(1, 1).key)->ladder[0].id, 1);
  const std::vector<TuneEntry> changed = cache.take_changed();
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].ladder[0].id, 1);
  cache.load(entry_of(1, 2));
  EXPECT_EQ(cache.find(entry_of(1, 1).key)->ladder[0].id, 2);
}

PickTraits traits_of(std::uint64_t number) {
  return {.header = 40, .operands = {number, number * 3, 7}, .layouts = 1};
}

TEST(PickTable, FindsThePickOfEqualTraitsOnly) {
  PickTable table;
  EXPECT_EQ(table.find(PickTraits{}), PickTable::kUnknown);
  table.put(traits_of(1), 5);
  EXPECT_EQ(table.find(traits_of(1)), 5);
  for (int field = 0; field < 5; ++field) {
    PickTraits other = traits_of(1);
    (field == 0   ? other.header
     : field == 4 ? other.layouts
                  : other.operands.at(static_cast<std::size_t>(field - 1))) ^= 1U;
    EXPECT_EQ(table.find(other), PickTable::kUnknown) << field;
  }
}

TEST(PickTable, AnEntryLeavesForOthersOfItsPlace) {
  PickTable table;
  for (std::uint64_t i = 0; i < 4 * PickTable::kEntries; ++i) {
    table.put(traits_of(i), static_cast<CandidateId>(i % 1000));
    ASSERT_EQ(table.find(traits_of(i)), i % 1000);
  }
  std::size_t known = 0;
  for (std::uint64_t i = 0; i < 4 * PickTable::kEntries; ++i) {
    const CandidateId pick = table.find(traits_of(i));
    ASSERT_TRUE(pick == PickTable::kUnknown || pick == i % 1000);
    known += pick == PickTable::kUnknown ? 0 : 1;
  }
  EXPECT_GT(known, PickTable::kEntries / 2) << "the hash spreads";
  EXPECT_LE(known, PickTable::kEntries);
}

TEST(PickTable, AProgramsShapesSeldomShareAPlace) {
  PickTable table;
  for (std::uint64_t i = 0; i < 64; ++i) {
    table.put(traits_of(i), 1);
  }
  int lost = 0;
  for (std::uint64_t i = 0; i < 64; ++i) {
    lost += table.find(traits_of(i)) == PickTable::kUnknown ? 1 : 0;
  }
  EXPECT_LE(lost, 10);
}

TEST(PickTable, InvalidateForgetsAllAndChangesTheEpoch) {
  PickTable table;
  table.put(traits_of(1), 5);
  const std::uint32_t before = table.epoch();
  table.invalidate();
  EXPECT_NE(table.epoch(), before);
  EXPECT_EQ(table.find(traits_of(1)), PickTable::kUnknown);
  table.put(traits_of(1), 6);
  EXPECT_EQ(table.find(traits_of(1)), 6);
}

}  // namespace
}  // namespace hearth::detail
