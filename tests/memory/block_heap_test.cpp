#include <hearth/memory/block_heap.hpp>

#include "counting_pages.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace hearth::detail {
namespace {

constexpr std::int64_t kAll = std::int64_t{1} << 40;

class BlockHeapTest : public ::testing::Test {
 protected:
  void add_page(std::int64_t size_bytes) { heap.add_page(pages.allocate_page(size_bytes).value()); }
  std::uint32_t take(std::int64_t size_bytes) { return heap.take(size_bytes); }

  test::CountingPages pages;
  BlockHeap heap{64};
};

TEST_F(BlockHeapTest, GivesPiecesOfExactlyTheSize) {
  add_page(1 << 20);
  for (const std::int64_t size_bytes : {64, 128, 64 * 31, 64 * 32, 64 * 33, 64 * 1000}) {
    const std::uint32_t index = take(size_bytes);
    ASSERT_NE(index, BlockHeap::kNone);
    EXPECT_EQ(heap.piece(index).size_bytes, size_bytes);
  }
}

TEST_F(BlockHeapTest, GivesTheWholePageToARequestOfItsSize) {
  add_page(1 << 20);
  EXPECT_NE(take(1 << 20), BlockHeap::kNone);
  EXPECT_EQ(take(64), BlockHeap::kNone);
  EXPECT_EQ(heap.largest_free_bytes(), 0);
}

TEST_F(BlockHeapTest, JoinsFreedNeighboursWhateverTheOrder) {
  const std::vector<std::vector<std::size_t>> orders{
      {0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 3, 0, 2}};
  add_page(1 << 20);
  for (const auto& order : orders) {
    std::vector<std::uint32_t> taken;
    taken.reserve(4);
    for (int i = 0; i < 4; ++i) {
      taken.push_back(take(1 << 18));
    }
    for (const std::size_t i : order) {
      heap.give(taken[i], 0);
    }
    EXPECT_EQ(heap.largest_free_bytes(), 1 << 20);
  }
}

// The last released piece comes first, with its own readiness, not its neighbour's.
TEST_F(BlockHeapTest, SmallPiecesRestForTheNextOfTheirSize) {
  add_page(1 << 20);
  const std::uint32_t first = take(512);
  const std::uint32_t second = take(512);
  heap.give(first, 3);
  heap.give(second, 7);
  EXPECT_EQ(heap.free_bytes(), 1 << 20);
  EXPECT_EQ(take(512), second);
  EXPECT_EQ(take(512), first);
  EXPECT_EQ(heap.piece(first).ready_after, 3U);
  EXPECT_EQ(heap.piece(second).ready_after, 7U);
  EXPECT_EQ(heap.free_bytes(), (1 << 20) - 1024);
}

TEST_F(BlockHeapTest, WhatRestsIsJoinedWhereNothingElseFits) {
  constexpr std::size_t kCount = 1024;
  const auto rest_of_all = [this] {
    std::vector<std::uint32_t> taken(kCount);
    for (std::uint32_t& index : taken) {
      index = take((1 << 20) / kCount);
    }
    EXPECT_EQ(take(64), BlockHeap::kNone);
    for (std::size_t i = 0; i < kCount; ++i) {
      heap.give(taken[i * 7 % kCount], i);
    }
  };
  add_page(1 << 20);
  rest_of_all();
  EXPECT_EQ(heap.largest_free_bytes(), 1 << 20);
  rest_of_all();
  const std::uint32_t whole = take(1 << 20);
  ASSERT_NE(whole, BlockHeap::kNone);
  EXPECT_EQ(heap.piece(whole).ready_after, kCount - 1);
  heap.give(whole, 0);
  rest_of_all();
  EXPECT_TRUE(heap.has_page_in_flight(kCount - 2));
  EXPECT_EQ(heap.trim(pages, kAll, kCount - 2), 0);
  EXPECT_EQ(heap.trim(pages, kAll, kCount - 1), 1 << 20);
  EXPECT_EQ(pages.out_bytes, 0);
}

// A resting piece at the end of a growing page is free room, for growth and for the search.
TEST_F(BlockHeapTest, APageGrowsBehindAPieceThatRests) {
  pages.grows = true;
  Page page = pages.open_growing_page(1 << 20).value();
  heap.open_growing_page(page);
  ASSERT_TRUE(pages.resize_page(page, 4096).has_value());
  heap.extend(page);
  std::vector<std::uint32_t> taken(8);
  for (std::uint32_t& index : taken) {
    index = take(512);
  }
  heap.give(taken.back(), 9);
  EXPECT_EQ(heap.cheapest_room(8192).size_bytes, 8192 - 512) << "the end is free";
  ASSERT_TRUE(pages.resize_page(page, 12288 - 512).has_value());
  heap.extend(page);
  const std::uint32_t longer = take(8192);
  ASSERT_NE(longer, BlockHeap::kNone);
  EXPECT_EQ(heap.piece(longer).data, heap.piece(taken.front()).data + 7 * 512);
  EXPECT_EQ(heap.piece(longer).ready_after, 9U);
  EXPECT_EQ(heap.free_bytes(), heap.reserved_bytes() - 7 * 512 - 8192);
}

TEST_F(BlockHeapTest, NeverJoinsPiecesOfTwoPages) {
  add_page(1 << 18);
  add_page(1 << 18);
  EXPECT_EQ(take(1 << 19), BlockHeap::kNone);
  EXPECT_EQ(heap.largest_free_bytes(), 1 << 18);
}

// 100,032 bytes are not the smallest of their size class; a search for "surely fits" would skip
// them.
TEST_F(BlockHeapTest, RefillsAHoleOfExactlyTheSizeBeforeItSplitsALargerPiece) {
  add_page(1 << 20);
  const std::uint32_t first = take(100'032);
  const std::uint32_t fence = take(64);
  std::byte* const hole = heap.piece(first).data;
  heap.give(first, 0);
  EXPECT_EQ(heap.piece(take(100'032)).data, hole);
  heap.give(fence, 0);
}

TEST_F(BlockHeapTest, TakesTheSmallestHoleOfAClassThatFits) {
  add_page(1 << 20);
  std::vector<std::uint32_t> holes;
  holes.reserve(3);
  for (const std::int64_t granules : {1030, 1032, 1036}) {
    holes.push_back(take(granules * 64));
    static_cast<void>(take(64));
  }
  std::byte* const best = heap.piece(holes[1]).data;
  for (const std::uint32_t hole : holes) {
    heap.give(hole, 0);
  }
  EXPECT_EQ(heap.piece(take(std::int64_t{1031} * 64)).data, best);
}

TEST_F(BlockHeapTest, ARestKeepsTheReadinessOfWhatItWasCutFrom) {
  add_page(1 << 20);
  const std::uint32_t whole = take(1 << 20);
  heap.give(whole, 7);
  static_cast<void>(take(1 << 19));
  EXPECT_EQ(heap.piece(take(1 << 19)).ready_after, 7U);
}

TEST_F(BlockHeapTest, TrimReturnsWhollyFreePagesOnly) {
  add_page(1 << 20);
  const std::uint32_t kept = take(64);
  add_page(2 << 20);
  EXPECT_EQ(heap.trim(pages, kAll, 0), 2 << 20);
  EXPECT_EQ(pages.out_bytes, 1 << 20);
  heap.give(kept, 0);
  EXPECT_EQ(heap.trim(pages, kAll, 0), 1 << 20);
  EXPECT_EQ(heap.reserved_bytes(), 0);
  EXPECT_EQ(take(64), BlockHeap::kNone);
}

}  // namespace
}  // namespace hearth::detail
