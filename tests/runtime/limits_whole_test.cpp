// State that limits of streams leave whole: update groups, lifetimes, loans, kernels under way, and
// other streams.
#include "limits_ways.hpp"
#include "stuck_backend.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::code_of;
using ::testing::ElementsAre;
using testing::HeldClient;
using testing::HeldStream;
using testing::kernels;
using testing::LateTensor;
using testing::live_tensors;
using testing::pass;
using testing::read_error;
using testing::request;
using testing::stepped;
using testing::Trained;
using testing::World;

class GivenUpWhole : public ::testing::TestWithParam<testing::Way> {};
INSTANTIATE_TEST_SUITE_P(Limits, GivenUpWhole, testing::every_way(), testing::name_of_way);

// ---- update groups ----

TEST_P(GivenUpWhole, AnUpdateThatHasNotBegunLeavesEverythingAsItWas) {
  stepped([](const World& world) {
    Trained trained(world);
    HeldClient client(world);
    const auto give_up = GetParam().arm(client.stream);
    const std::uint32_t opened_at = __LINE__ + 1;
    UpdateGroup group(world.device);
    trained.add_to(group);
    give_up();
    client.stream.set_limits({});
    Tensor other = world.f32({3, 4});
    trained.add_to(group, other);  // submitted after the cancel
    const Pending<void> done = group.commit();
    client.held.unblock();
    const Status status = done.wait();
    ASSERT_EQ(code_of(status), GetParam().code);
    EXPECT_EQ(status.error().op, "update group");
    EXPECT_EQ(status.error().location.line, opened_at) << "the line that opened it";
    EXPECT_THAT(trained.parameter.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_THAT(other.to_vector<float>(), ElementsAre(3, 4));
    UpdateGroup next(world.device);
    trained.add_to(next);
    next.commit().get();
    EXPECT_THAT(trained.parameter.to_vector<float>(), ElementsAre(0, 1));
  });
}

// The value that the group preserves may still be pending in another stream.
TEST_P(GivenUpWhole, AnUpdateThatHasNotBegunKeepsAParameterThatIsStillToCome) {
  stepped([](const World& world) {
    LateTensor parameter(world);
    Tensor none;
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream own(world.device);
    const auto give_up = GetParam().arm(stream);
    UpdateGroup group(world.device);
    group.sgd(parameter.tensor, world.f32({1, 1}), none, {.learning_rate = 1});
    const Pending<void> done = group.commit();
    give_up();
    own.unblock();
    pass(1ms);
    EXPECT_FALSE(done.is_ready());
    parameter.unblock();
    EXPECT_EQ(code_of(done.wait()), GetParam().code);
    stream.set_limits({});
    EXPECT_THAT(parameter.tensor.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST_P(GivenUpWhole, AnUpdateThatHasBegunRunsAsAWhole) {
  stepped([](const World& world) {
    Tensor other = world.f32({3, 4});
    Trained trained(world);
    Stream stream(world.device);
    const StreamScope scope(stream);
    const auto give_up = GetParam().arm(stream);
    UpdateGroup group(world.device);
    trained.add_to(group);
    pass(3ms);
    give_up();
    trained.add_to(group, other);
    group.commit().get({.deadline = Deadline::in(1s)});
    stream.set_limits({});
    EXPECT_THAT(trained.parameter.to_vector<float>(), ElementsAre(0, 1));
    EXPECT_THAT(other.to_vector<float>(), ElementsAre(2, 3));
  });
}

TEST_P(GivenUpWhole, AJointUpdateThatHasNotBegunSaysNoToAll) {
  stepped([](const World& world) {
    Trained trained(world);
    HeldClient client(world);
    const auto give_up = GetParam().arm(client.stream);
    const auto decision = std::make_shared<UpdateDecision>();
    Promise<Status> prepared;
    Pending<Status> answer = prepared.pending();
    Promise<Status> finished;
    Pending<Status> end = finished.pending();
    UpdateGroup group(world.device);
    trained.add_to(group);
    group.commit([&](ErrorRef error) { finished.set_value(Status(std::move(error))); },
                 {.decision = decision, .prepared = [&](Result<PreparedUpdate> update) {
                    prepared.set_value(update.status());
                  }});
    give_up();
    client.held.unblock();
    EXPECT_EQ(code_of(answer.get({.deadline = Deadline::in(1s)})), GetParam().code);
    EXPECT_EQ(code_of(end.get({.deadline = Deadline::in(1s)})), GetParam().code);
    EXPECT_FALSE(decision->commit());
    client.stream.set_limits({});
    EXPECT_THAT(trained.parameter.to_vector<float>(), ElementsAre(1, 2));
  });
}

// In a full stream, an open group still gets its end; otherwise the stream would stay inside the
// group for ever.
TEST(Limits, AnOpenGroupGetsItsEndThoughTheDeadlineHasPassed) {
  stepped([](const World& world) {
    Trained trained(world);
    HeldClient client(world);
    client.stream.set_limits({.deadline = Deadline::in(5ms)});
    std::vector<Tensor> kept;
    const auto waker = world.spawn("waker", [&] {
      pass(20ms);
      client.held.unblock();
    });
    {
      UpdateGroup group(world.device);
      trained.add_to(group);
      EXPECT_THROW(
          while (true) { kept.push_back(zeros(world.device, {1})); }, DeadlineExceeded);
      EXPECT_LT(kept.size(), 300U);
    }
    waker->join();
    client.stream.set_limits({});
    EXPECT_THAT(trained.parameter.to_vector<float>(), ElementsAre(1, 2));
    UpdateGroup next(world.device);
    trained.add_to(next);
    next.commit().get();
    EXPECT_THAT(trained.parameter.to_vector<float>(), ElementsAre(0, 1));
  });
}

// ---- lifetimes ----

TEST_P(GivenUpWhole, MemoryIsGivenBackAndTensorsMayMoveOn) {
  stepped([](const World& world) {
    Tensor handed = world.f32({1, 2});
    handed.publish();
    Stream stream(world.device);
    std::optional<HeldStream> held;
    {
      const StreamScope scope(stream);
      held.emplace(world.device);
      const auto give_up = GetParam().arm(stream);
      const Tensor moved = request(world) + request(world);
      handed.adopt();
      Tensor dropped = request(world);
      dropped = std::move(dropped) + 1;
      give_up();
      held->unblock();
      stream.set_limits({});
      handed = std::move(handed) + 1;
      EXPECT_THAT(handed.to_vector<float>(), ElementsAre(2, 3));
    }
    held.reset();
    EXPECT_EQ(live_tensors(world.device), 1);
  });
}

TEST_P(GivenUpWhole, ALoanThatHasNotBegunIsRefusedAndOneThatHasGoesOn) {
  stepped([](const World& world) {
    HeldClient client(world);
    const auto give_up = GetParam().arm(client.stream);
    Promise<Status> taken;
    Pending<Status> taker = taken.pending();
    const Tensor lent = lend(
        world.f32({1, 2}),
        [&](Result<LentRegion> region) { taken.set_value(region.status()); },
        Deadline::never());
    give_up();
    EXPECT_TRUE(client.held.region().is_valid());
    client.held.unblock();
    EXPECT_EQ(code_of(taker.get({.deadline = Deadline::in(1s)})), GetParam().code);
    EXPECT_EQ(read_error(lent).code, GetParam().code);
    client.stream.set_limits({});
    EXPECT_THAT(client.held.tensor().to_vector<float>(), ElementsAre(0));
  });
}

TEST_P(GivenUpWhole, ADeviceThatShutsDownAsksNobody) {
  stepped({.shutdown_limit = 1ms}, [](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    const HeldStream held(world.device);
    const auto give_up = GetParam().arm(stream);
    const Tensor never = request(world);
    const std::stop_source another;
    stream.set_limits({.stop = another.get_token()});
    const Tensor later = request(world);
    give_up();
  });
}

TEST(Limits, SyncWaitsForWhatWasGivenUpToo) {
  stepped([](const World& world) {
    HeldClient client(world);
    const Tensor late = request(world);
    client.stream.cancel();
    const Pending<void> done = world.device.sync_later();
    pass(1ms);
    EXPECT_FALSE(done.is_ready());
    client.held.unblock();
    EXPECT_TRUE(done.wait().has_value()) << "nothing failed: it was given up";
  });
}

TEST(Limits, AStreamMadeWithLimitsHasThem) {
  stepped([](const World& world) {
    std::stop_source stop;
    stop.request_stop();
    Stream stopped(world.device, {.stop = stop.get_token()});
    Stream late(world.device, {.deadline = Deadline::in(0ns)});
    const std::uint64_t before = kernels(world);
    {
      const StreamScope scope(stopped);
      EXPECT_EQ(read_error(request(world)).code, ErrorCode::cancelled);
    }
    const StreamScope scope(late);
    EXPECT_EQ(read_error(request(world)).code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(kernels(world), before);
  });
}

TEST(Limits, OtherStreamsNoticeNothing) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const Tensor weights = world.f32({1, 2});
    {
      const StreamScope scope(stream);
      HeldStream held(world.device);
      const Tensor late = weights + 1;
      stream.cancel();
      held.unblock();
      EXPECT_EQ(read_error(late).code, ErrorCode::cancelled);
    }
    EXPECT_THAT((weights + 1).to_vector<float>(), ElementsAre(2, 3));
  });
}

// The kernel that runs while the limit passes ends, and its value stays; the next one does not
// begin.
TEST_P(GivenUpWhole, AKernelUnderWayEnds) {
  testing::StuckControl control(1);
  stepped({.devices = {{.name = "sim:0"}}, .backends = testing::stuck(control)},
          [&](const World& world) {
            Stream stream(world.device);
            const StreamScope scope(stream);
            const auto give_up = GetParam().arm(stream);
            const Tensor first = zeros(world.device, {1});
            const Tensor second = first + 1;
            world.device.endpoint().wake_if_free();
            ASSERT_TRUE(detail::PendingAccess::is_ready_by(control.is_in, Deadline::in(1s)));
            give_up();
            control.release.set_value();
            stream.set_limits({});
            EXPECT_EQ(first.item(), 0);
            EXPECT_EQ(read_error(second).code, GetParam().code);
            EXPECT_EQ(kernels(world), 1U);
          });
}

}  // namespace
}  // namespace hearth
