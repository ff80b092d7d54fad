// How batches are divided among devices of different speed.
#include <hearth/parallel/shard_balance.hpp>

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using Shares = std::vector<std::int64_t>;
using Times = std::vector<std::chrono::nanoseconds>;

/// The first division after at most `steps` equal steps, if any.
std::optional<Shares> after(ShardBalance& balance,
                            int steps,
                            const Shares& rows,
                            const Times& times) {
  for (int i = 0; i < steps; ++i) {
    if (auto shares = balance.note(rows, times)) {
      return shares;
    }
  }
  return std::nullopt;
}

TEST(ShardBalance, FollowsTheSpeedOfDevicesBehindTheFirstStep) {
  ShardBalance balance;
  balance.set_ranks({"a card", "a processor"});
  EXPECT_FALSE(balance.note(Shares{16, 16}, Times{60s, 1ms})) << "it compiles";
  EXPECT_FALSE(after(balance, ShardBalance::kSteps - 1, {16, 16}, {10ms, 30ms}));
  const auto shares = balance.note(Shares{16, 16}, Times{10ms, 30ms});
  ASSERT_TRUE(shares);
  EXPECT_THAT(*shares, ElementsAre(750, 250));
  EXPECT_FALSE(after(balance, 500, {24, 8}, {15ms, 15ms})) << "they come together";
  EXPECT_TRUE(after(balance, 500, {24, 8}, {15ms, 60ms})) << "one became slower";
}

// Without a division the next look comes later.
TEST(ShardBalance, LooksAgainSoonAfterADivision) {
  ShardBalance balance;
  balance.set_ranks({"a card", "a processor"});
  EXPECT_TRUE(after(balance, 1 + ShardBalance::kSteps, {16, 16}, {10ms, 30ms}));
  EXPECT_TRUE(after(balance, 1 + ShardBalance::kSteps, {24, 8}, {15ms, 60ms}));
}

TEST(ShardBalance, IsEvenAmongDevicesOfOneKindWhateverTheirTimes) {
  ShardBalance balance;
  balance.set_ranks({"a core", "a core"});
  EXPECT_FALSE(after(balance, 500, {16, 16}, {10ms, 90ms}));
  balance.set_ranks({"a card", "a core", "a core"});
  const auto shares = after(balance, 50, {10, 10, 10}, {10ms, 20ms, 60ms});
  ASSERT_TRUE(shares);
  EXPECT_EQ((*shares)[1], (*shares)[2]);
  EXPECT_GT((*shares)[0], (*shares)[1]);
}

// A rank that was replaced: the shares for the old device are void.
TEST(ShardBalance, ReportsOtherKindsThanBefore) {
  ShardBalance balance;
  EXPECT_FALSE(balance.set_ranks({"a card", "a core"})) << "there were none before";
  EXPECT_FALSE(balance.set_ranks({"a card", "a core"}));
  EXPECT_TRUE(balance.set_ranks({"a core", "a core"}));
}

// Three cores give a device of one core and a device of two, whose descriptions differ.
TEST(ShardBalance, TakesAllDevicesOfTheProcessorForOneKind) {
  EXPECT_EQ(ShardBalance::kind_of("cpu:0", "1 core of A"),
            ShardBalance::kind_of("cpu:1", "2 cores of A"));
  EXPECT_NE(ShardBalance::kind_of("cpu:0", "1 core of A"),
            ShardBalance::kind_of("vulkan:0", "card B"));
  EXPECT_NE(ShardBalance::kind_of("vulkan:0", "card B"),
            ShardBalance::kind_of("vulkan:1", "card C"));
}

TEST(ShardBalance, LeavesNoRankWithoutAShareAndIgnoresOneStepThatWasSlow) {
  ShardBalance balance;
  balance.set_ranks({"a card", "a wheel"});
  const auto shares = after(balance, 50, {16, 16}, {1us, 100s});
  ASSERT_TRUE(shares);
  EXPECT_THAT(*shares, Each(::testing::Gt(0)));
  balance.set_ranks({"one", "another"});
  EXPECT_FALSE(balance.note(Shares{8, 8}, Times{1ms, 1ms}));
  EXPECT_FALSE(balance.note(Shares{8, 8}, Times{1ms, 90ms}));
  EXPECT_FALSE(after(balance, 20, {8, 8}, {1ms, 1ms}));
}

TEST(ShardBalance, SaysNothingOfStepsWithoutTimesOrRows) {
  ShardBalance balance;
  balance.set_ranks({"a", "b"});
  EXPECT_FALSE(after(balance, 100, {16, 0}, {1ms, 9ms}));
  EXPECT_FALSE(after(balance, 100, {16, 16}, {1ms, 0ms}));
  EXPECT_FALSE(after(balance, 100, {16, 16}, {1ms}));
}

}  // namespace
}  // namespace hearth
