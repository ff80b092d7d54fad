// Fine print 5 of the design: lanes by ids that are never reused.
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/device/lanes/lane_states.hpp"

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kMany = 3000;

TEST(LaneDirectory, NamesTheOpenLanesAloneHoweverManyHaveEnded) {
  LaneDirectory lanes;
  Lane& first = lanes.open();
  for (std::uint64_t i = 0; i < kMany; ++i) {
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
  for (std::uint64_t id = 1; id <= kMany; ++id) {
    Lane& lane = lanes.open();
    if (id % 1500 == 0) {
      kept.push_back(&lane);
    } else {
      lanes.close(lane.id());
    }
  }
  EXPECT_EQ(lanes.open_lanes(), kept);
  for (std::uint64_t id = 1; id <= kMany; ++id) {
    Lane* const expected = id % 1500 == 0 ? kept[id / 1500 - 1] : nullptr;
    ASSERT_EQ(lanes.find(LaneId{id}), expected) << id;
  }
  EXPECT_EQ(lanes.find(LaneId{0}), nullptr);
  EXPECT_EQ(lanes.find(LaneId{kMany + 1}), nullptr);
}

TEST(LaneDirectory, IdsGoOnBeyondThirtyTwoBits) {
  constexpr LaneId kFar{std::uint64_t{1} << 40U};
  TensorImpl tensor;
  tensor.record_use(kFar, 7);
  const LastUsesBlob uses = tensor.last_uses(LaneId{1});
  ASSERT_EQ(uses.count, 1U);
  EXPECT_EQ(uses.lane[0], kFar.value);
  EXPECT_EQ(uses.sequence[0], 7U);
  EXPECT_EQ(tensor.last_uses(kFar).count, 0U);

  const auto tables = std::make_shared<RuntimeTables>(RuntimeId{1});
  const auto endpoint =
      make_intrusive<DeviceEndpoint>("sim:0", "a test's", tables, 1, true, std::vector<int>{});
  ASSERT_TRUE(endpoint->doorbell.try_claim());
  OpRecord record;
  record.kind = OpKind::add;
  record.sequence = (std::uint64_t{1} << 33U) + 5;
  endpoint->publish_progress(kFar, record);
  EXPECT_THAT(endpoint->describe_holder(),
              HasSubstr("op number 8589934597 of stream 1099511627776, add"));
}

TEST(LaneDirectory, NothingIsKeptOfTwoHundredThousandStreams) {
  const Runtime runtime({.devices = {{.name = "sim:0", .sim_computes = false}}});
  const Device device = runtime.device("sim:0");
  const Tensor shared = ones(device, {4});
  device.sync();
  const std::uint32_t slot_blocks = device.endpoint().slots.block_count();
  for (int i = 0; i < 200'000; ++i) {
    Stream stream(device);
    const StreamScope scope(stream);
    const Tensor used = shared + 1;
    if (i % 100 == 99) {
      device.sync();
    }
  }
  device.sync();
  device.sync();  // an ended stream has its turn before this stream has a second one
  EXPECT_EQ(device.endpoint().lanes.open_lanes().size(), 1U);
  EXPECT_EQ(device.statistics().streams, 1U);
  EXPECT_LE(device.endpoint().slots.block_count(), slot_blocks + 200);
}

TEST(LaneStates, ComeInTheOrderOfTheirIdsAndStayWhereTheyAre) {
  LaneStates states;
  std::vector<std::unique_ptr<Lane>> lanes;
  for (const std::uint64_t id : {700U, 1U, 2000U, 5U}) {
    lanes.push_back(std::make_unique<Lane>(LaneId{id}));
  }
  EXPECT_EQ(states.find(LaneId{700}), nullptr);
  LaneState& first = states.make(*lanes[0]);
  for (std::size_t i = 1; i < lanes.size(); ++i) {
    states.make(*lanes[i]);
  }
  EXPECT_EQ(states.find(LaneId{700}), &first);
  std::vector<std::uint64_t> ids;
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
