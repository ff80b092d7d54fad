#include <hearth/streams/doorbell.hpp>

#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

class DoorbellTest : public ::testing::Test {
 protected:
  static std::vector<std::uint64_t> ids(Doorbell::Rung rung) {
    std::vector<std::uint64_t> found;
    for (const Lane* lane = rung.lanes; lane != nullptr; lane = lane->doorbell_next) {
      found.push_back(lane->id().value);
    }
    return found;
  }

  Doorbell doorbell;
  Lane first{LaneId{1}};
  Lane second{LaneId{2}};
  Lane third{LaneId{3}};
};

TEST_F(DoorbellTest, TheTokenHasOneHolder) {
  EXPECT_TRUE(doorbell.is_free());
  EXPECT_TRUE(doorbell.try_claim());
  EXPECT_FALSE(doorbell.is_free());
  EXPECT_FALSE(doorbell.try_claim());
  EXPECT_TRUE(doorbell.try_release());
  EXPECT_TRUE(doorbell.try_claim());
}

TEST_F(DoorbellTest, LanesComeOutOnceInTheOrderOfTheirRings) {
  ASSERT_TRUE(doorbell.try_claim());
  static_cast<void>(doorbell.ring(first));
  static_cast<void>(doorbell.ring(second));
  static_cast<void>(doorbell.ring(third));
  EXPECT_EQ(ids(doorbell.take()), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_TRUE(ids(doorbell.take()).empty());
}

TEST_F(DoorbellTest, ARingWakesADeepSleeperOnce) {
  EXPECT_EQ(doorbell.ring(first), Doorbell::Ring::wake);
  EXPECT_EQ(doorbell.ring(second), Doorbell::Ring::quiet);
}

TEST_F(DoorbellTest, ARingIsQuietWhileSomeoneHoldsTheToken) {
  ASSERT_TRUE(doorbell.try_claim());
  EXPECT_EQ(doorbell.ring(first), Doorbell::Ring::quiet);
}

TEST_F(DoorbellTest, ARingIsQuietWhileTheActorSleepsWithADeadline) {
  ASSERT_TRUE(doorbell.set_timed(true));
  EXPECT_EQ(doorbell.ring(first), Doorbell::Ring::quiet);
}

TEST_F(DoorbellTest, TheInboxWakesATimedSleeperToo) {
  ASSERT_TRUE(doorbell.set_timed(true));
  EXPECT_TRUE(doorbell.ring_inbox());
  ASSERT_TRUE(doorbell.try_claim());
  EXPECT_TRUE(doorbell.take().inbox);
  EXPECT_FALSE(doorbell.ring_inbox()) << "the holder looks by itself";
}

TEST_F(DoorbellTest, TheTokenIsNotGivenBackWhileLanesAreRung) {
  ASSERT_TRUE(doorbell.try_claim());
  static_cast<void>(doorbell.ring(first));
  EXPECT_TRUE(doorbell.has_rung());
  EXPECT_FALSE(doorbell.try_release());
  static_cast<void>(doorbell.take());
  EXPECT_FALSE(doorbell.has_rung());
  EXPECT_TRUE(doorbell.try_release());
}

TEST_F(DoorbellTest, TheTokenIsNotGivenBackWhileTheInboxIsFull) {
  ASSERT_TRUE(doorbell.try_claim());
  static_cast<void>(doorbell.ring_inbox());
  EXPECT_FALSE(doorbell.try_release());
  EXPECT_TRUE(doorbell.take().inbox);
  EXPECT_TRUE(doorbell.try_release());
}

TEST_F(DoorbellTest, ReleasingWithWorkKeepsWhatWasRung) {
  ASSERT_TRUE(doorbell.try_claim());
  static_cast<void>(doorbell.ring(first));
  doorbell.release_with_work();
  EXPECT_TRUE(doorbell.is_free());
  ASSERT_TRUE(doorbell.try_claim());
  EXPECT_EQ(ids(doorbell.take()), (std::vector<std::uint64_t>{1}));
}

TEST_F(DoorbellTest, TakingLeavesTheTimedMark) {
  ASSERT_TRUE(doorbell.set_timed(true));
  ASSERT_TRUE(doorbell.try_claim());
  static_cast<void>(doorbell.take());
  ASSERT_TRUE(doorbell.try_release());
  EXPECT_EQ(doorbell.ring(first), Doorbell::Ring::quiet);
}

TEST_F(DoorbellTest, NobodyFallsAsleepOverARing) {
  ASSERT_TRUE(doorbell.set_timed(true));
  static_cast<void>(doorbell.ring(first));
  EXPECT_FALSE(doorbell.set_timed(false));
  EXPECT_FALSE(doorbell.set_timed(true));
}

TEST_F(DoorbellTest, TheActorSleepsOverARingThatTheHolderWillSee) {
  ASSERT_TRUE(doorbell.try_claim());  // a borrower
  static_cast<void>(doorbell.ring(first));
  EXPECT_TRUE(doorbell.set_timed(false));
  static_cast<void>(doorbell.take());
  ASSERT_TRUE(doorbell.try_release());
  EXPECT_EQ(doorbell.ring(second), Doorbell::Ring::wake);
}

TEST_F(DoorbellTest, AfterStopRingsAreTurnedAwayAndTheTokenStaysTaken) {
  ASSERT_TRUE(doorbell.try_claim());
  static_cast<void>(doorbell.ring(first));
  EXPECT_EQ(ids(doorbell.stop()), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(doorbell.ring(second), Doorbell::Ring::stopped);
  EXPECT_FALSE(doorbell.ring_inbox());
  EXPECT_FALSE(doorbell.try_claim());
}

}  // namespace
}  // namespace hearth
