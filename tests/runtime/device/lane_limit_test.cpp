// The reason for which a lane's next record is cancelled; the query needs no memory.
#include "runtime/device/dispatch/lane_limit.hpp"

#include <optional>
#include <type_traits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;

// over() cannot fail: the actor calls it between records, where no caller could receive an error.
TEST(LaneLimit, AskingIsNoexceptAndTakesNoMemory) {
  using Answer = decltype(std::declval<LaneLimit&>().over(1));
  static_assert(noexcept(std::declval<LaneLimit&>().over(1)));
  EXPECT_TRUE(std::is_trivially_copyable_v<Answer>) << "an answer that owns text takes memory";
}

TEST(LaneLimit, ACancelGivesUpRecordsUpToItsNumber) {
  LaneLimit limit;
  EXPECT_FALSE(limit.is_set());
  limit.cancel_through(5);
  EXPECT_TRUE(limit.is_set());
  EXPECT_EQ(limit.over(5), CancelReason::cancelled);
  EXPECT_EQ(limit.over(6), std::nullopt);
  EXPECT_FALSE(limit.is_set()) << "nothing is limited behind it";
}

TEST(LaneLimit, EachReasonHasItsCodeAndSentence) {
  EXPECT_EQ(error_of(CancelReason::cancelled).code, ErrorCode::cancelled);
  EXPECT_THAT(error_of(CancelReason::cancelled).text, HasSubstr("its stream was cancelled"));
  EXPECT_EQ(error_of(CancelReason::stopped).code, ErrorCode::cancelled);
  EXPECT_THAT(error_of(CancelReason::stopped).text, HasSubstr("a stop was requested"));
  EXPECT_EQ(error_of(CancelReason::late).code, ErrorCode::deadline_exceeded);
  EXPECT_THAT(error_of(CancelReason::late).text, HasSubstr("the deadline of its stream"));
}

}  // namespace
}  // namespace hearth
