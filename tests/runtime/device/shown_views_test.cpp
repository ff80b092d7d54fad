// Views that are made when their record joins a window, before their turn, and events between the
// two: a restart, a cancelled lane, an operand that fails or is dropped.
#include <algorithm>
#include <deque>
#include <optional>

#include "tests/runtime/held_token.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HeldStream;
using testing::HeldToken;
using testing::live_tensors;
using testing::pass;
using testing::read_error;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

constexpr std::int64_t kMiB = 1 << 20;

SteppedOptions fusing(FaultPlan faults = {}) {
  SteppedOptions options{.devices = {{.name = "sim:0", .memory_budget_bytes = 8 * kMiB}},
                         .fusion = Fusion::on};
  options.faults = {{"sim:0", std::move(faults)}};
  return options;
}

/// The actor visits its lanes, and lingers.
void look(const World& world) {
  world.device.endpoint().wake_if_free();
  pass(20us);
}

Tensor matrix(const World& world) {
  Tensor x = Tensor::from<float>(world.device, {1, 2, 3, 4, 5, 6}, {2, 3});
  world.device.sync();
  return x;
}
const auto kTurned = ElementsAre(1, 4, 2, 5, 3, 6);

/// The records of lanes that the actor has not finished.
std::uint64_t waiting_records(const World& world) {
  std::uint64_t count = 0;
  for (const Lane* lane : world.device.endpoint().lanes.open_lanes()) {
    count += lane->pushed_seen() - lane->consumed();
  }
  return count;
}

// The subject of these tests: its lane waits for more ops, and another lane has the view already.
TEST(ShownViews, AreThereBeforeTheirTurn) {
  stepped(fusing(), [](const World& world) {
    const Tensor x = matrix(world);
    const Tensor before = x * 2;
    const Tensor turned = transpose(x);
    look(world);
    {
      const HeldToken token(world.device);
      EXPECT_GE(waiting_records(world), 2U);
    }
    Stream other(world.device);
    const StreamScope scope(other);
    EXPECT_THAT((turned * 1).to_vector<float>(), kTurned);
    const HeldToken token(world.device);
    EXPECT_GE(waiting_records(world), 2U) << "the window that has the view was not cut";
  });
}

// One lane has reached a reader of the view before another lane reached the view.
TEST(ShownViews, WakeWhoWaitsForThem) {
  stepped(fusing(), [](const World& world) {
    const Tensor x = matrix(world);
    x.publish();
    world.device.sync();
    Stream first(world.device);
    Stream second(world.device);
    std::optional<HeldStream> held;
    Tensor before;
    Tensor turned;
    {
      const StreamScope scope(first);
      held.emplace(world.device);
      before = x * 2;
      turned = transpose(x);
    }
    const StreamScope scope(second);
    const Tensor sum = turned + 1;
    look(world);
    held->unblock();
    EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 5, 3, 6, 4, 7));
  });
}

TEST(ShownViews, AreLostWithTheirDevice) {
  stepped(fusing(), [](const World& world) {
    const Tensor x = matrix(world);
    const Tensor before = x * 2;
    const Tensor turned = transpose(x);
    Tensor behind = turned + 1;
    look(world);
    world.device.restart();
    for (const Tensor& each : {turned, behind, before, turned + 1}) {
      EXPECT_EQ(read_error(each).code, ErrorCode::device_lost);
    }
    EXPECT_THAT(transpose(matrix(world)).to_vector<float>(), kTurned);
  });
}

// With this number of streams the restart is answered before the lane's turn: its records belong to
// the new generation, and the finished view to the old one.
TEST(ShownViews, WhoseTurnComesAfterARestartAreLostToo) {
  stepped(fusing(), [](const World& world) {
    constexpr std::size_t kStreams = 1100;  // more than the turns that a question waits
    std::deque<Stream> streams;
    for (std::size_t i = 0; i < kStreams; ++i) {
      streams.emplace_back(world.device);
    }
    {
      const Tensor x = matrix(world);
      x.publish();
      world.device.sync();
      const Tensor before = x * 2;
      const Tensor turned = transpose(x);
      const Tensor behind = turned + 1;
      look(world);
      std::vector<Tensor> busy;
      {
        const HeldToken token(world.device);
        for (Stream& stream : streams) {
          const StreamScope scope(stream);
          busy.push_back(transpose(x) * 2);
        }
      }
      for (int i = 0; i < 10; ++i) {
        detail::schedule_point();  // the actor has seen them all before the restart
      }
      world.device.restart();
      EXPECT_GT(waiting_records(world), 0U) << "some lanes' turns come now";
      const Lane& own = *world.device.endpoint().lanes.open_lanes().front();
      EXPECT_GT(own.pushed_seen(), own.consumed()) << "that of the view among them";
      for (const Tensor& each : {before, turned, behind, busy[1], busy.back()}) {
        EXPECT_EQ(read_error(each).code, ErrorCode::device_lost);
      }
      EXPECT_THAT(transpose(matrix(world)).to_vector<float>(), kTurned);
    }
    EXPECT_EQ(live_tensors(world.device), 0);
    EXPECT_EQ(world.device.memory().live_bytes, 0);
  });
}

// Work that has begun is not cancelled, and the view had begun: it is right, and the later ops are
// cancelled.
TEST(ShownViews, OfALaneThatIsGivenUpAreRight) {
  stepped(fusing(), [](const World& world) {
    {
      Stream stream(world.device);
      const StreamScope scope(stream);
      const Tensor x = matrix(world);
      const Tensor before = x * 2;
      const Tensor turned = transpose(x);
      const Tensor behind = turned + 1;
      look(world);
      stream.cancel();
      EXPECT_EQ(read_error(before).code, ErrorCode::cancelled);
      EXPECT_EQ(read_error(behind).code, ErrorCode::cancelled);
      EXPECT_THAT(turned.to_vector<float>(), kTurned);
      EXPECT_THAT((turned * 1).to_vector<float>(), kTurned) << "the stream goes on";
    }
    EXPECT_EQ(live_tensors(world.device), 0);
  });
}

// Under limits no view is made ahead, because its turn decides whether it is cancelled.
TEST(ShownViews, ThereAreNoneUnderLimits) {
  stepped(fusing(), [](const World& world) {
    const Tensor x = matrix(world);
    x.publish();
    world.device.sync();
    Stream stream(world.device);
    const StreamScope scope(stream);
    std::stop_source stop;
    stream.set_limits({.stop = stop.get_token()});
    const Tensor before = x * 2;
    const Tensor turned = transpose(x);
    look(world);
    stop.request_stop();
    stream.set_limits({});  // so that the reads are not cancelled too
    EXPECT_EQ(read_error(before).code, ErrorCode::cancelled);
    EXPECT_EQ(read_error(turned).code, ErrorCode::cancelled);
  });
}

// The front of the lane finds no memory, while the view after it is computed.
TEST(ShownViews, BehindAnOpThatFailsForMemoryAreRight) {
  stepped(fusing(), [](const World& world) {
    const Tensor x = matrix(world);
    const Tensor large = ones(world.device, {5 * kMiB / 4});
    world.device.sync();
    const Tensor none = large * 2;
    const Tensor turned = transpose(x);
    const Tensor behind = turned + 1;
    EXPECT_EQ(read_error(none).code, ErrorCode::out_of_memory);
    EXPECT_THAT(turned.to_vector<float>(), kTurned);
    EXPECT_THAT(behind.to_vector<float>(), ElementsAre(2, 5, 3, 6, 4, 7));
  });
}

// A view of a tensor that has failed, or soon will, is not made ahead: its error has the failure's
// line.
TEST(ShownViews, OfATensorThatFailsCarryItsCause) {
  for (const bool is_known : {false, true}) {
    stepped(fusing({.failing_submits = {1}}), [&](const World& world) {
      const Tensor x = matrix(world);
      const Tensor bad = cumsum({x, {"here", 7}}, 1);
      if (is_known) {
        static_cast<void>(world.device.catch_up_later().wait());
      }
      const Tensor good = x * 2;
      const Tensor turned = transpose({bad, {"here", 8}});
      const Tensor right = transpose(x);
      const Tensor behind = add({turned, {"here", 9}}, {1, {"here", 9}});
      look(world);
      for (const Tensor& each : {bad, turned, behind}) {
        const Error error = read_error(each);
        EXPECT_EQ(error.code, ErrorCode::kernel_failed);
        EXPECT_THAT(error.to_string(), HasSubstr("here:7"));
      }
      EXPECT_THAT(right.to_vector<float>(), kTurned);
      EXPECT_THAT(good.to_vector<float>(), ElementsAre(2, 4, 6, 8, 10, 12));
    });
  }
}

// The tensor's last use is in another lane, and precedes the view's turn.
TEST(ShownViews, AreNotOverwrittenByALastUseElsewhere) {
  stepped(fusing(), [](const World& world) {
    {
      Tensor x = matrix(world);
      x.publish();
      world.device.sync();
      Stream other(world.device);
      const Tensor before = x * 2;
      const Tensor turned = transpose(x);
      look(world);
      {
        const StreamScope scope(other);
        const Tensor sum = std::move(x) + 1;
        EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 3, 4, 5, 6, 7));
      }
      EXPECT_THAT(turned.to_vector<float>(), kTurned);
      EXPECT_THAT(before.to_vector<float>(), ElementsAre(2, 4, 6, 8, 10, 12));
    }
    EXPECT_EQ(live_tensors(world.device), 0);
    EXPECT_EQ(world.device.memory().live_bytes, 0);
  });
}

TEST(ShownViews, KeepTheirBytesFromALoanOfTheirTensor) {
  stepped(fusing(), [](const World& world) {
    Tensor x = matrix(world);
    x.publish();
    world.device.sync();
    const Tensor before = x * 2;
    const Tensor turned = transpose(x);
    look(world);
    Stream other(world.device);
    Tensor lent;
    {
      const StreamScope scope(other);
      lent = lend(
          std::move(x),
          [](Result<LentRegion> region) {
            std::ranges::fill(region.value().bytes(), std::byte{0});
            std::move(region).value().done();
          },
          Deadline::never());
      EXPECT_THAT(lent.to_vector<float>(), Each(0.0F));
    }
    EXPECT_THAT(turned.to_vector<float>(), kTurned);
    EXPECT_THAT(before.to_vector<float>(), ElementsAre(2, 4, 6, 8, 10, 12));
  });
}

}  // namespace
}  // namespace hearth
