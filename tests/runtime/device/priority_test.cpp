// The order of turns: priorities of streams, and turns among lanes of one priority.
#include "tests/runtime/held_token.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "runtime/device/lanes/ready_lanes.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::HeldStream;
using testing::stepped;
using testing::World;

class ReadyLanesTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kLanes = 6;

  ReadyLanesTest() {
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      rings_.push_back(std::make_unique<Lane>(LaneId{i + 1}));
      lanes_.push_back(std::make_unique<LaneState>(*rings_.back()));
    }
  }
  // Letters are lanes: capitals for latency, digits for background.
  void add(char name) {
    const bool is_latency = name >= 'A' && name <= 'Z';
    const bool is_background = name >= '0' && name <= '9';
    const auto index = static_cast<std::size_t>(is_latency      ? name - 'A'
                                                : is_background ? name - '0'
                                                                : name - 'a');
    lanes_[index]->priority = is_latency      ? Priority::latency
                              : is_background ? Priority::background
                                              : Priority::normal;
    names_[index] = name;
    ready_.push(*lanes_[index]);
  }
  // The order of `count` turns, where each lane is ready again after its own.
  std::string turns(int count, bool is_urgent_parked = false) {
    std::string order;
    for (int i = 0; i < count; ++i) {
      LaneState& lane = ready_.take(is_urgent_parked);
      order += names_[lane.id.value - 1];
      ready_.push(lane);
    }
    return order;
  }

  std::vector<std::unique_ptr<Lane>> rings_;
  std::vector<std::unique_ptr<LaneState>> lanes_;
  std::array<char, kLanes> names_{};
  ReadyLanes ready_;
};

TEST_F(ReadyLanesTest, LanesOfOnePriorityTakeTurns) {
  for (const char name : {'a', 'b', 'c'}) {
    add(name);
  }
  EXPECT_EQ(turns(9), "abcabcabc");
}

TEST_F(ReadyLanesTest, AnUrgentLaneGoesFirstAndTheOthersDoNotStarve) {
  for (const char name : {'A', 'b', '2'}) {
    add(name);
  }
  const std::string order = turns(60);
  EXPECT_EQ(order.substr(0, 10), "AAAAbAAAAb");
  EXPECT_EQ(std::ranges::count(order, '2'), 3);
  EXPECT_LE(order.find('2'), 17U);
}

TEST_F(ReadyLanesTest, APriorityWithoutALaneDoesNotWait) {
  add('A');
  add('B');
  EXPECT_EQ(turns(8), "ABABABAB");
  add('c');
  EXPECT_EQ(turns(5), "ABABc");
}

TEST_F(ReadyLanesTest, BackgroundWorkRunsWheneverTheOthersRest) {
  add('0');
  add('1');
  EXPECT_EQ(turns(4), "0101");
}

TEST_F(ReadyLanesTest, AnUrgentLaneThatWaitsLendsItsPlaceToThoseItMayWaitFor) {
  for (const char name : {'A', '1'}) {
    add(name);
  }
  EXPECT_EQ(turns(6, true), "A1A1A1");
}

TEST_F(ReadyLanesTest, OnlyMoreUrgentLanesComeBefore) {
  add('b');
  EXPECT_TRUE(ready_.has_before(Priority::background));
  EXPECT_FALSE(ready_.has_before(Priority::normal));
  EXPECT_FALSE(ready_.has_before(Priority::latency));
}

// A lane with a long program, held until unblock(), and the outcome of its work.
struct Busy {
  Busy(const World& world, Priority priority) : stream(world.device, {.priority = priority}) {
    const StreamScope scope(stream);
    held.emplace(world.device);
    Tensor x = world.f32({0});
    for (int i = 0; i < 200; ++i) {
      x = std::move(x) + 1;
    }
    done = world.device.sync_later();
  }

  Stream stream;
  std::optional<HeldStream> held;
  Pending<void> done;
};

TEST(StreamPriority, ALatencyStreamOvertakesLongPrograms) {
  stepped([](const World& world) {
    Busy background(world, Priority::background);
    Busy normal(world, Priority::normal);
    Busy latency(world, Priority::latency);
    background.held->unblock();
    normal.held->unblock();
    latency.held->unblock();
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(latency.done, Deadline::in(1s)));
    EXPECT_FALSE(normal.done.is_ready());
    EXPECT_FALSE(background.done.is_ready());
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(normal.done, Deadline::in(1s)));
    EXPECT_FALSE(background.done.is_ready());
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(background.done, Deadline::in(1s)))
        << "nothing starves";
  });
}

// The actor sees the message about the priority and the first record in one visit.
TEST(StreamPriority, ThatOfANewStreamHoldsForItsFirstTurn) {
  stepped([](const World& world) {
    const auto work = [&](int count) {
      Tensor x = world.f32({0});
      for (int i = 0; i < count; ++i) {
        x = std::move(x) + 1;
      }
      return world.device.sync_later();
    };
    Stream first(world.device);
    auto token = std::make_unique<testing::HeldToken>(world.device);
    Pending<void> normal;
    {
      const StreamScope scope(first);
      normal = work(3);
    }
    Stream urgent(world.device, {.priority = Priority::latency});
    Pending<void> latency;
    {
      const StreamScope scope(urgent);
      latency = work(3);
    }
    bool was_first = false;
    Pending<void> seen = std::move(latency).then(world.runtime.continuations(),
                                                 [&] { was_first = !normal.is_ready(); });
    token.reset();
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(normal, Deadline::in(1s)));
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(seen, Deadline::in(1s)));
    EXPECT_TRUE(was_first);
  });
}

TEST(StreamPriority, ALatencyStreamMayNeedWhatABackgroundStreamMakes) {
  stepped([](const World& world) {
    Busy background(world, Priority::background);
    Tensor made;
    {
      const StreamScope scope(background.stream);
      made = world.f32({7});
    }
    Stream urgent(world.device, {.priority = Priority::latency});
    const StreamScope scope(urgent);
    const Pending<double> needed = (made + 1).item_later();
    background.held->unblock();
    ASSERT_TRUE(detail::PendingAccess::is_ready_by(needed, Deadline::in(1s)));
    EXPECT_EQ(needed.wait().has_value(), true);
  });
}

}  // namespace
}  // namespace hearth
