// Fine print 5 of the design: lanes by ids that are never reused.
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device_endpoint.hpp"
#include "runtime/lane_states.hpp"

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kMany = 3000;  // ids of several chunks

TEST(LaneDirectory, NamesTheOpenLanesAloneHoweverManyHaveEnded) {
  LaneDirectory lanes;
  Lane& first = lanes.open();
  for (std::uint32_t i = 0; i < kMany; ++i) {
    lanes.close(lanes.open().id());
  }
  Lane& last = lanes.open();
  EXPECT_THAT(lanes.open_lanes(), ElementsAre(&first, &last));
  EXPECT_EQ(last.id().value, kMany + 2) << "ids are never reused";
  lanes.close(first.id());
  lanes.close(last.id());
  EXPECT_THAT(lanes.open_lanes(), IsEmpty());
}

TEST(LaneDirectory, AnEndedLaneStaysEndedWhateverBecomesOfItsNeighbours) {
  LaneDirectory lanes;
  std::vector<Lane*> kept;
  for (std::uint32_t id = 1; id <= kMany; ++id) {
    Lane& lane = lanes.open();
    if (id % 1500 == 0) {
      kept.push_back(&lane);
    } else {
      lanes.close(lane.id());
    }
  }
  EXPECT_EQ(lanes.open_lanes(), kept);
  for (std::uint32_t id = 1; id <= kMany; ++id) {
    Lane* const expected = id % 1500 == 0 ? kept[id / 1500 - 1] : nullptr;
    ASSERT_EQ(lanes.find(LaneId{id}), expected) << id;
  }
  EXPECT_EQ(lanes.find(LaneId{0}), nullptr);
  EXPECT_EQ(lanes.find(LaneId{kMany + 1}), nullptr);
}

TEST(LaneStates, ComeInTheOrderOfTheirIdsAndStayWhereTheyAre) {
  LaneStates states;
  std::vector<std::unique_ptr<Lane>> lanes;
  for (const std::uint32_t id : {700U, 1U, 2000U, 5U}) {
    lanes.push_back(std::make_unique<Lane>(LaneId{id}));
  }
  EXPECT_EQ(states.find(LaneId{700}), nullptr);
  LaneState& first = states.make(*lanes[0]);
  for (std::size_t i = 1; i < lanes.size(); ++i) {
    states.make(*lanes[i]);
  }
  EXPECT_EQ(states.find(LaneId{700}), &first);
  std::vector<std::uint32_t> ids;
  const auto list = [&] {
    ids.clear();
    states.for_each([&](const LaneState& lane) { ids.push_back(lane.id.value); });
  };
  list();
  EXPECT_THAT(ids, ElementsAre(1, 5, 700, 2000));
  states.erase(LaneId{700});
  states.erase(LaneId{2000});
  list();
  EXPECT_THAT(ids, ElementsAre(1, 5));
  EXPECT_EQ(states.find(LaneId{700}), nullptr);
  EXPECT_EQ(states.find(LaneId{701}), nullptr);
}

}  // namespace
}  // namespace hearth
