// The generator is a value: its numbers follow from seed and counter.
#include <hearth/runtime/base/philox.hpp>
#include <hearth/runtime/generator.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace hearth {
namespace {

TEST(Generator, AdvanceReturnsTheFirstBlockAndMovesOn) {
  Generator generator(5, 10);
  EXPECT_EQ(generator.advance(3), 10U);
  EXPECT_EQ(generator.counter(), 13U);
  EXPECT_EQ(generator.seed(), 5U);
}

TEST(Generator, ForksOfOneSeedDifferByRank) {
  std::set<std::uint64_t> seeds{42};
  for (std::uint64_t rank = 0; rank < 100; ++rank) {
    EXPECT_TRUE(seeds.insert(Generator(42).fork(rank).seed()).second) << rank;
  }
}

// An op draws block number n with the counter {n, 0, 0, 0}.
TEST(Generator, NoForkHasASeedThatAnOpDraws) {
  for (std::uint32_t rank = 0; rank < 100; ++rank) {
    const philox::Block drawn = philox::rounds({rank, 0, 0, 0}, {42, 0});
    EXPECT_NE(Generator(42).fork(rank).seed(), std::uint64_t{drawn[1]} << 32U | drawn[0]) << rank;
  }
}

TEST(Generator, AForkDependsOnSeedAndRankAlone) {
  Generator used(42);
  used.advance(1000);
  EXPECT_EQ(used.fork(3).seed(), Generator(42).fork(3).seed());
  EXPECT_EQ(used.fork(3).counter(), 0U);
  EXPECT_NE(Generator(42).fork(3).seed(), Generator(43).fork(3).seed());
}

}  // namespace
}  // namespace hearth
