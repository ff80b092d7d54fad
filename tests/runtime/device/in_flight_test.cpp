// Work on an asynchronous device: when each part leaves, and the point of the next wait.
#include "runtime/device/dispatch/in_flight.hpp"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/backends/reference/reference_backend.hpp>

#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Reports the completion point that the test sets.
class Clockwork final : public testing::ForwardingBackend {
 public:
  Clockwork()
      : ForwardingBackend(std::make_unique<reference::ReferenceBackend>(
            reference::ReferenceOptions{.takes_groups = true})) {}
  [[nodiscard]] std::uint64_t completed(std::uint8_t stream) noexcept override {
    return ended.at(stream);
  }

  std::array<std::uint64_t, InFlight::kStreams> ended{};
};

class InFlightTest : public ::testing::Test {
 protected:
  void add_op(std::uint64_t value) {
    OpRecord record;
    record.sequence = 100 + value;
    in_flight_.add_op({value, kOpStream}, record, LaneId{7});
  }
  void add_kernel(std::uint64_t value) {
    add_op(value);
    in_flight_.add({value, kOpStream}, KernelEnd{});
  }
  /// The kinds of ends that leave now, by their index in WorkEnd.
  [[nodiscard]] std::vector<std::size_t> take() {
    std::vector<std::size_t> taken;
    while (const auto end = in_flight_.take_ended()) {
      taken.push_back(end->index());
    }
    return taken;
  }

  Clockwork device_;
  InFlight in_flight_;
};

TEST_F(InFlightTest, NothingLeavesBeforeItsPoint) {
  add_op(1);
  add_kernel(2);
  add_kernel(3);
  EXPECT_FALSE(in_flight_.poll(device_));
  EXPECT_THAT(take(), IsEmpty());
  device_.ended[kOpStream] = 2;
  EXPECT_TRUE(in_flight_.poll(device_));
  EXPECT_THAT(take(), ElementsAre(0U));
  EXPECT_FALSE(in_flight_.is_empty());
  device_.ended[kOpStream] = 3;
  EXPECT_TRUE(in_flight_.poll(device_));
  EXPECT_THAT(take(), ElementsAre(0U));
  EXPECT_TRUE(in_flight_.is_empty());
  EXPECT_FALSE(in_flight_.poll(device_)) << "nothing new";
}

TEST_F(InFlightTest, OfWhatEndsTogetherKernelsLeaveBeforeReads) {
  in_flight_.add({1, kUploadStream}, UploadEnd{});
  in_flight_.add({1, kDownloadStream}, ReadEnd{});
  add_kernel(1);
  device_.ended = {1, 1, 1};
  EXPECT_TRUE(in_flight_.poll(device_));
  EXPECT_THAT(take(), ElementsAre(0U, 1U, 2U));
}

/// Makes progress at the first query: a kernel and a read that depends on it end.
class Restless final : public testing::ForwardingBackend {
 public:
  Restless()
      : ForwardingBackend(std::make_unique<reference::ReferenceBackend>(
            reference::ReferenceOptions{.takes_groups = true})) {}
  [[nodiscard]] std::uint64_t completed(std::uint8_t /*stream*/) noexcept override {
    return std::exchange(ended_, 1);
  }

 private:
  std::uint64_t ended_ = 0;
};

TEST_F(InFlightTest, AReadThatEndsBetweenTwoQuestionsDoesNotLeaveBeforeItsKernel) {
  in_flight_.add({1, kDownloadStream}, ReadEnd{});
  add_kernel(1);
  Restless restless;
  EXPECT_TRUE(in_flight_.poll(restless));
  EXPECT_THAT(take(), ElementsAre(0U));
  EXPECT_TRUE(in_flight_.poll(restless));
  EXPECT_THAT(take(), ElementsAre(2U));
}

TEST_F(InFlightTest, TheNextPointIsWhereSomebodyWaitsElseTheNewest) {
  for (std::uint64_t value = 1; value <= 9; ++value) {
    add_op(value);
  }
  EXPECT_THAT(in_flight_.next_points(), ElementsAre(TimelinePoint{9, kOpStream}));
  LastUse some;
  some.add(kOpStream, 5);
  in_flight_.await(some);
  in_flight_.add({1, kDownloadStream}, ReadEnd{});
  EXPECT_THAT(in_flight_.next_points(),
              ElementsAre(TimelinePoint{5, kOpStream}, TimelinePoint{1, kDownloadStream}));
  EXPECT_FALSE(in_flight_.have_ended(some));
  device_.ended = {6, 0, 1};
  EXPECT_TRUE(in_flight_.poll(device_));
  EXPECT_TRUE(in_flight_.have_ended(some));
  EXPECT_THAT(in_flight_.next_points(), ElementsAre(TimelinePoint{9, kOpStream}));
  EXPECT_EQ(in_flight_.oldest(in_flight_.ended(kOpStream))->record.sequence, 107U);
}

TEST_F(InFlightTest, ALostDeviceLeavesNothingInFlight) {
  add_kernel(1);
  in_flight_.add({1, kDownloadStream}, ReadEnd{});
  EXPECT_EQ(in_flight_.take_all().size(), 2U);
  EXPECT_TRUE(in_flight_.is_empty());
  EXPECT_THAT(in_flight_.next_points(), IsEmpty());
  EXPECT_FALSE(in_flight_.oldest(in_flight_.ended(kOpStream)));
  in_flight_.restart();
  add_op(1);
  EXPECT_FALSE(in_flight_.is_empty()) << "points begin anew";
}

TEST_F(InFlightTest, ItIsFullUntilHalfHasEnded) {
  for (std::uint64_t value = 1; value <= InFlight::kMostOps; ++value) {
    EXPECT_FALSE(in_flight_.is_full());
    add_op(value);
  }
  EXPECT_TRUE(in_flight_.is_full());
  const LastUse half = in_flight_.room();
  device_.ended[kOpStream] = InFlight::kMostOps / 2 - 1;
  EXPECT_TRUE(in_flight_.poll(device_));
  EXPECT_FALSE(in_flight_.have_ended(half));
  device_.ended[kOpStream] = InFlight::kMostOps / 2;
  EXPECT_TRUE(in_flight_.poll(device_));
  EXPECT_TRUE(in_flight_.have_ended(half));
}

TEST(CellNumbers, ACellIsUsedAgainWhenNoLaunchLooksAtItAnyMore) {
  CellNumbers cells;
  EXPECT_EQ(cells.take(0), 1U);
  EXPECT_EQ(cells.take(0), 2U);
  cells.release(1, 10);
  EXPECT_EQ(cells.take(9), 3U);
  EXPECT_EQ(cells.take(10), 1U);
}

// A kernel's cell is returned when its end was seen, and is free once all work issued before that
// has ended.
TEST_F(InFlightTest, ItIsFullWhileErrorCellsAreShort) {
  constexpr ErrorCell kMost = 100;
  in_flight_.cells.limit(kMost);
  std::vector<ErrorCell> taken;
  while (!in_flight_.is_full()) {
    taken.push_back(in_flight_.cells.take(0));
    ASSERT_LT(taken.back(), kMost) << "none is left for the op that has asked";
  }
  EXPECT_GT(taken.size(), 20U);
  add_op(1);
  add_op(2);
  const LastUse room = in_flight_.room();
  device_.ended[kOpStream] = 1;
  EXPECT_TRUE(in_flight_.poll(device_));
  EXPECT_FALSE(in_flight_.have_ended(room));
  for (const ErrorCell cell : taken) {
    in_flight_.cells.release(cell, in_flight_.issued_ops());
  }
  EXPECT_TRUE(in_flight_.is_full()) << "op 2 may look at them";
  device_.ended[kOpStream] = 2;
  EXPECT_TRUE(in_flight_.poll(device_));
  EXPECT_TRUE(in_flight_.have_ended(room));
  EXPECT_FALSE(in_flight_.is_full());
}

TEST_F(InFlightTest, ANewGenerationHasAllErrorCells) {
  in_flight_.cells.limit(100);
  while (!in_flight_.is_full()) {
    in_flight_.cells.release(in_flight_.cells.take(0), 1000);
  }
  in_flight_.restart();
  EXPECT_FALSE(in_flight_.is_full());
  EXPECT_EQ(in_flight_.cells.take(0), 1U);
}

}  // namespace
}  // namespace hearth
