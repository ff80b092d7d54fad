#include <hearth/streams/lane.hpp>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/base/manual_executor.hpp>

namespace hearth {
namespace {

std::vector<std::byte> blob_of(std::size_t size, unsigned tag) {
  std::vector<std::byte> blob(size);
  for (std::size_t i = 0; i < size; ++i) {
    blob[i] = static_cast<std::byte>((tag * 31 + i) & 0xffU);
  }
  return blob;
}

OpRecord record_with(std::uint32_t tag) {
  OpRecord record;
  record.source = SourceId{tag};
  return record;
}

bool push(Lane& lane, std::uint32_t tag, std::size_t blob_bytes = 0) {
  OpRecord record = record_with(tag);
  return lane.try_push(record, blob_of(blob_bytes, tag));
}

::testing::AssertionResult front_is(Lane& lane, std::uint32_t tag, std::size_t blob_bytes) {
  const OpRecord* record = lane.front();
  if (record == nullptr || record->source.value != tag) {
    return ::testing::AssertionFailure() << "record " << tag << " is not in front";
  }
  if (record->blob_size_bytes != blob_bytes) {
    return ::testing::AssertionFailure() << "record " << tag << " has another blob";
  }
  const std::vector<std::byte> want = blob_of(blob_bytes, tag);
  const std::byte* got = lane.front_blob();
  if (blob_bytes == 0 ? got != nullptr : !std::equal(want.begin(), want.end(), got)) {
    return ::testing::AssertionFailure() << "the blob of record " << tag << " has changed";
  }
  return ::testing::AssertionSuccess();
}

std::size_t fill(Lane& lane, std::size_t blob_bytes) {
  std::size_t count = 0;
  while (push(lane, 1, blob_bytes)) {
    ++count;
  }
  return count;
}

TEST(Lane, RecordsLeaveInTheOrderTheyCame) {
  Lane lane(LaneId{1});
  for (std::uint32_t tag = 1; tag <= 200; ++tag) {
    ASSERT_TRUE(push(lane, tag));
  }
  for (std::uint32_t tag = 1; tag <= 200; ++tag) {
    ASSERT_TRUE(front_is(lane, tag, 0));
    lane.pop();
  }
  EXPECT_EQ(lane.front(), nullptr);
}

TEST(Lane, ASequenceIsTheRecordsPlaceInTheRingsLife) {
  Lane lane(LaneId{1});
  for (std::uint64_t place = 1; place <= 3 * Lane::kCapacity; ++place) {
    OpRecord record;
    ASSERT_TRUE(lane.try_push(record, {}));
    EXPECT_EQ(record.sequence, place);
    ASSERT_NE(lane.front(), nullptr);
    EXPECT_EQ(lane.front()->sequence, place);
    EXPECT_EQ(lane.pushed(), place);
    EXPECT_EQ(lane.pushed_seen(), place);
    EXPECT_EQ(lane.consumed(), place - 1);
    lane.pop();
    EXPECT_EQ(lane.consumed(), place);
  }
}

TEST(Lane, AFullRingRefusesAndAPopMakesRoomForOne) {
  Lane lane(LaneId{1});
  EXPECT_EQ(fill(lane, 0), Lane::kCapacity);
  EXPECT_EQ(lane.backlog(), Lane::kCapacity);
  ASSERT_NE(lane.front(), nullptr);
  lane.pop();
  EXPECT_TRUE(push(lane, 2));
  EXPECT_FALSE(push(lane, 3));
}

TEST(Lane, BlobsComeOutAsTheyWentIn) {
  Lane lane(LaneId{1});
  const std::size_t sizes[] = {1, 15, 16, 17, 300, 0, Lane::kBlobBytes / 4};
  std::uint32_t tag = 0;
  for (const std::size_t size : sizes) {
    ASSERT_TRUE(push(lane, ++tag, size));
  }
  tag = 0;
  for (const std::size_t size : sizes) {
    ASSERT_TRUE(front_is(lane, ++tag, size));
    lane.pop();
  }
}

TEST(Lane, ABlobNeverWrapsAroundTheEndOfItsRing) {
  Lane lane(LaneId{1});
  constexpr std::size_t kSize = 7000;  // no divisor of the ring
  for (std::uint32_t tag = 1; tag <= 100; ++tag) {
    ASSERT_TRUE(push(lane, tag, kSize));
    ASSERT_TRUE(push(lane, tag + 1000, kSize / 3));
    ASSERT_TRUE(front_is(lane, tag, kSize));
    lane.pop();
    ASSERT_TRUE(front_is(lane, tag + 1000, kSize / 3));
    lane.pop();
  }
}

TEST(Lane, ABlobOverAQuarterOfTheRingGoesToTheHeapAndTakesNoRoom) {
  Lane lane(LaneId{1});
  constexpr std::size_t kSize = 2 * Lane::kBlobBytes;
  for (std::uint32_t tag = 1; tag <= 100; ++tag) {
    ASSERT_TRUE(push(lane, tag, kSize));
  }
  for (std::uint32_t tag = 1; tag <= 50; ++tag) {
    ASSERT_TRUE(front_is(lane, tag, kSize));
    lane.pop();
  }
}  // the lane frees the others: the leak checker verifies that

TEST(Lane, ABlobWithoutRoomIsRefusedAndNothingIsQueued) {
  Lane lane(LaneId{1});
  EXPECT_EQ(fill(lane, Lane::kBlobBytes / 4), 4U);
  EXPECT_EQ(lane.pushed(), 4U);
  EXPECT_TRUE(push(lane, 5)) << "a record without a blob needs none of that room";
  ASSERT_NE(lane.front(), nullptr);
  lane.pop();
  EXPECT_TRUE(push(lane, 6, Lane::kBlobBytes / 4));
}

TEST(Lane, HasRoomMeansThatAnyRecordFits) {
  for (const std::size_t blob_bytes : {std::size_t{0}, std::size_t{100}, std::size_t{5000}}) {
    Lane lane(LaneId{1});
    static_cast<void>(fill(lane, blob_bytes));
    EXPECT_FALSE(lane.has_room());
    EXPECT_TRUE(lane.announce_waiting());
    while (!lane.has_room()) {
      ASSERT_NE(lane.front(), nullptr);
      lane.pop();
    }
    EXPECT_FALSE(lane.announce_waiting());
    EXPECT_TRUE(push(lane, 1, Lane::kBlobBytes / 4)) << "blobs of " << blob_bytes;
  }
}

// Blobs fill their ring long before the records fill theirs.
TEST(Lane, AWaitingProducerIsWokenWhenThereIsRoom) {
  for (const std::size_t blob_bytes : {std::size_t{0}, std::size_t{1000}}) {
    ManualExecutor executor;
    Lane lane(LaneId{1});
    std::uint32_t pushed = 0;
    executor.run([&] {
      const auto producer = executor.spawn({.name = "producer"}, [&] {
        while (pushed < 1000) {
          while (!push(lane, pushed + 1, blob_bytes)) {
            while (lane.announce_waiting()) {
              ASSERT_EQ(detail::current_context().parker().park(Deadline::in(kDefaultWait)),
                        detail::Wake::unparked);
            }
          }
          ++pushed;
        }
      });
      for (std::uint32_t tag = 1; tag <= 1000; ++tag) {
        while (lane.front() == nullptr) {
          detail::schedule_point();
        }
        ASSERT_TRUE(front_is(lane, tag, blob_bytes));
        lane.pop();
      }
      producer->join();
    });
    EXPECT_EQ(pushed, 1000U);
  }
}

// Whether this thread was woken since the last call.
bool was_woken() {
  return detail::current_context().parker().park(Deadline::in(std::chrono::nanoseconds::zero())) ==
         detail::Wake::unparked;
}

// The consumer may then serve other lanes for long: a producer that waits for room must not depend
// on its return.
TEST(Lane, ThePopThatMakesRoomWakesTheProducer) {
  for (std::size_t shift = 0; shift < Lane::kLookEvery; ++shift) {
    for (const std::size_t blob_bytes : {std::size_t{0}, std::size_t{1000}}) {
      Lane lane(LaneId{1});
      for (std::size_t i = 0; i < shift; ++i) {  // its position in the ring
        ASSERT_TRUE(push(lane, 1));
        ASSERT_NE(lane.front(), nullptr);
        lane.pop();
      }
      static_cast<void>(fill(lane, blob_bytes));
      ASSERT_TRUE(lane.announce_waiting());
      static_cast<void>(was_woken());  // by an earlier test
      while (!lane.has_room()) {
        ASSERT_FALSE(was_woken()) << "there is no room yet";
        ASSERT_NE(lane.front(), nullptr);
        lane.pop();
      }
      EXPECT_TRUE(was_woken()) << "blobs of " << blob_bytes << ", from record " << shift;
    }
  }
}

TEST(Lane, OnlyTheFirstPushOfATurnRings) {
  Lane lane(LaneId{1});
  ASSERT_TRUE(push(lane, 1));
  EXPECT_TRUE(lane.needs_ring());
  ASSERT_TRUE(push(lane, 2));
  EXPECT_FALSE(lane.needs_ring());
  for (const std::uint32_t tag : {1U, 2U}) {
    ASSERT_TRUE(front_is(lane, tag, 0));
    lane.pop();
  }
  EXPECT_EQ(lane.finish_turn(), Lane::Turn::empty);
  ASSERT_TRUE(push(lane, 3));
  EXPECT_TRUE(lane.needs_ring());
}

TEST(Lane, ATurnThatEndsWithRecordsLeftGoesOn) {
  Lane lane(LaneId{1});
  ASSERT_TRUE(push(lane, 1));
  ASSERT_TRUE(lane.needs_ring());
  EXPECT_EQ(lane.finish_turn(), Lane::Turn::more);
  ASSERT_TRUE(push(lane, 2));
  EXPECT_FALSE(lane.needs_ring()) << "the consumer has the lane";
}

TEST(Lane, AnOrphanedLaneIsSeenAtTheEndOfItsLastTurn) {
  Lane lane(LaneId{1});
  EXPECT_TRUE(lane.orphan()) << "an idle lane must ring, or nobody would learn of it";
  EXPECT_FALSE(lane.is_orphaned());
  EXPECT_EQ(lane.finish_turn(), Lane::Turn::empty);
  EXPECT_TRUE(lane.is_orphaned());
}

TEST(Lane, OrphaningABusyLaneDoesNotRingAgain) {
  Lane lane(LaneId{1});
  ASSERT_TRUE(push(lane, 1));
  ASSERT_TRUE(lane.needs_ring());
  EXPECT_FALSE(lane.orphan());
  EXPECT_EQ(lane.finish_turn(), Lane::Turn::more);
  EXPECT_TRUE(lane.is_orphaned());
  ASSERT_TRUE(front_is(lane, 1, 0));
  lane.pop();
  EXPECT_EQ(lane.finish_turn(), Lane::Turn::empty);
}

TEST(Lane, ADequeIsItsModel) {
  const std::uint64_t seed =
      ::testing::UnitTest::GetInstance()->random_seed() != 0
          ? static_cast<std::uint64_t>(::testing::UnitTest::GetInstance()->random_seed())
          : 20261121U;
  SCOPED_TRACE(::testing::Message() << "seed " << seed << " (--gtest_random_seed)");
  std::mt19937_64 random(seed);
  Lane lane(LaneId{1});
  struct Entry {
    std::uint32_t tag;
    std::size_t blob_bytes;
  };
  std::deque<Entry> model;
  std::uint32_t tag = 0;
  for (int step = 0; step < 200'000; ++step) {
    const bool pushes = random() % 1000 < (step / 5000 % 2 == 0 ? 600U : 400U);
    if (pushes) {
      static constexpr std::size_t kSizes[] = {0, 0, 24, 400, 3000, 16384, 16385, 70000};
      const std::size_t limit = kSizes[random() % std::size(kSizes)];
      const std::size_t size = limit == 0 ? 0 : random() % limit + 1;
      if (push(lane, tag + 1, size)) {
        model.push_back({++tag, size});
      } else {
        ASSERT_FALSE(lane.has_room());
      }
    } else if (!model.empty()) {
      ASSERT_TRUE(front_is(lane, model.front().tag, model.front().blob_bytes));
      lane.pop();
      model.pop_front();
    } else {
      ASSERT_EQ(lane.front(), nullptr);
    }
    ASSERT_EQ(lane.backlog(), model.size());
  }
}

}  // namespace
}  // namespace hearth
