// Work that can be given up: cancel(), deadlines and stops of streams. What has not begun does not
// run and carries the reason; what has begun ends; lifetimes and open update groups go on as ever.
#include "runtime/client/device_endpoint.hpp"
#include "stepped_runtime.hpp"
#include "stuck_backend.hpp"

#include <optional>
#include <stop_token>

#include <hearth/runtime/update_group.hpp>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::code_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HeldStream;
using testing::live_tensors;
using testing::pass;
using testing::read_error;
using testing::stepped;
using testing::World;

constexpr SgdUpdate kPlain{.learning_rate = 1};

std::uint64_t kernels(const World& world) {
  return world.device.statistics().kernels;
}

/// Three kernels.
Tensor request(const World& world) {
  return relu(world.f32({1, 2}) * 2 + 1);
}

/// How the work of a stream is given up. Each behaves alike.
struct Way {
  std::string name;
  ErrorCode code;
  const char* text;
  /// Sets the limit up, before anything is submitted; returns what gives up.
  std::function<std::function<void()>(Stream&)> arm;

  // NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
  friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
};

class GivenUp : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Limits,
                         GivenUp,
                         ::testing::Values(Way{"cancel",
                                               ErrorCode::cancelled,
                                               "its stream was cancelled",
                                               [](Stream& stream) {
                                                 return [&stream] { stream.cancel(); };
                                               }},
                                           Way{"stop",
                                               ErrorCode::cancelled,
                                               "a stop was requested",
                                               [](Stream& stream) {
                                                 auto stop = std::make_shared<std::stop_source>();
                                                 stream.set_limits({.stop = stop->get_token()});
                                                 return [stop] { stop->request_stop(); };
                                               }},
                                           Way{"deadline",
                                               ErrorCode::deadline_exceeded,
                                               "the deadline of its stream has passed",
                                               [](Stream& stream) {
                                                 stream.set_limits({.deadline = Deadline::in(5ms)});
                                                 return [] { pass(6ms); };
                                               }}),
                         [](const auto& way) { return way.param.name; });

TEST_P(GivenUp, RequestsRunNoKernel) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    const auto give_up = GetParam().arm(stream);
    const std::uint64_t before = kernels(world);
    std::vector<Tensor> answers;
    answers.reserve(20);
    for (int i = 0; i < 20; ++i) {
      answers.push_back(request(world));
    }
    give_up();
    held.let_go();
    for (const Tensor& answer : answers) {
      const Error error = read_error(answer);
      EXPECT_EQ(error.code, GetParam().code);
      EXPECT_THAT(error.text, HasSubstr(GetParam().text));
      EXPECT_EQ(error.op, "upload");
      EXPECT_EQ(error.lane, stream.id());
      EXPECT_THAT(error.to_string(), HasSubstr("called at"));
    }
    EXPECT_EQ(kernels(world), before);
    EXPECT_GE(world.device.statistics().given_up_ops, 20U * 4U);
    answers.clear();
    EXPECT_EQ(live_tensors(world.device), 1) << "that of the loan";
  });
}

TEST_P(GivenUp, WhatIsThereStays) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    const auto give_up = GetParam().arm(stream);
    const Tensor made = request(world);
    EXPECT_THAT(made.to_vector<float>(), ElementsAre(3, 5));
    give_up();
    stream.set_limits({});
    EXPECT_THAT(made.to_vector<float>(), ElementsAre(3, 5));
    EXPECT_THAT((made + 1).to_vector<float>(), ElementsAre(4, 6));
  });
}

TEST_P(GivenUp, TheStreamServesTheNextRequest) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    for (int round = 0; round < 3; ++round) {
      std::optional<HeldStream> held(std::in_place, world.device);
      const auto give_up = GetParam().arm(stream);
      const Tensor late = request(world);
      give_up();
      stream.set_limits({.deadline = Deadline::in(1h)});
      const Tensor next = request(world);
      held->let_go();
      EXPECT_THAT(next.to_vector<float>(), ElementsAre(3, 5));
      EXPECT_EQ(read_error(late).code, GetParam().code);
      stream.set_limits({});
    }
  });
}

TEST_P(GivenUp, AnEarlierCauseIsKept) {
  testing::SteppedOptions options;
  options.faults = {{"sim:0", {.failing_submits = {2}}}};  // the first is the loan's zeros
  stepped(options, [](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    const Tensor failed = world.f32({1}) + 1;
    held.let_go();
    EXPECT_EQ(read_error(failed).code, ErrorCode::kernel_failed);
    HeldStream again(world.device);
    const auto give_up = GetParam().arm(stream);
    const Tensor depends = failed * 2;
    give_up();
    again.let_go();
    EXPECT_EQ(read_error(depends).code, ErrorCode::kernel_failed);
  });
}

// ---- what waits ----

TEST_P(GivenUp, AnOpThatWaitsForAnotherStreamWaitsNoLonger) {
  stepped([](const World& world) {
    Stream slow(world.device);
    std::optional<HeldStream> held;
    Tensor needed;
    {
      const StreamScope scope(slow);
      held.emplace(world.device);
      needed = world.f32({1, 2});
    }
    Stream stream(world.device);
    const StreamScope scope(stream);
    const auto give_up = GetParam().arm(stream);
    const Tensor waits = needed + 1;
    pass(1ms);
    give_up();
    const TimePoint start = testing::now();
    EXPECT_EQ(read_error(waits).code, GetParam().code);
    EXPECT_LE(testing::now() - start, 1ms);
    held->let_go();
    stream.set_limits({});
    EXPECT_THAT(needed.to_vector<float>(Deadline::in(1s)), ElementsAre(1, 2))
        << "the other's stays";
  });
}

TEST_P(GivenUp, AnOpThatWaitsForAnotherDeviceWaitsNoLonger) {
  stepped([](const World& world) {
    const Device other = world.runtime.device("sim:1");
    Stream slow(world.device);
    std::optional<HeldStream> held;
    Tensor needed;
    Stream stream(other);
    const auto give_up = GetParam().arm(stream);
    {
      const StreamScope scope(slow);
      held.emplace(world.device);
      const StreamScope there(stream);
      needed = world.f32({1, 2}).to(other) + 1;
    }
    pass(1ms);
    give_up();
    const TimePoint start = testing::now();
    {
      const StreamScope there(stream);
      EXPECT_EQ(read_error(needed).code, GetParam().code);
    }
    EXPECT_LE(testing::now() - start, 1ms);
    held->let_go();
    world.device.sync();
    needed = Tensor();
    EXPECT_EQ(live_tensors(other), 0);
  });
}

TEST_P(GivenUp, ACopyToAnotherDeviceCarriesTheReason) {
  stepped([](const World& world) {
    const Device other = world.runtime.device("sim:1");
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    const auto give_up = GetParam().arm(stream);
    const Tensor copy = world.f32({1, 2}).to(other);
    give_up();
    held.let_go();
    EXPECT_EQ(read_error(copy).code, GetParam().code);
  });
}

// ---- a full stream ----

TEST(Limits, AFullStreamThrowsAtItsDeadline) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    stream.set_limits({.deadline = Deadline::in(5ms)});
    const TimePoint start = testing::now();
    std::vector<Tensor> kept;
    try {
      while (kept.size() < 10'000) {
        kept.push_back(zeros(world.device, {1}));
      }
      ADD_FAILURE() << "the lane took everything";
    } catch (const DeadlineExceeded& error) {
      EXPECT_EQ(testing::now() - start, 5ms);
      EXPECT_THAT(error.what(), HasSubstr("stayed full until its deadline"));
      EXPECT_EQ(error.error().op, "fill");
      EXPECT_THAT(error.error().location.file, HasSubstr("limits_test.cpp"));
      EXPECT_TRUE(error.error().report.is_empty());
    }
    held.let_go();
    stream.set_limits({.deadline = Deadline::in(1s)});
    EXPECT_EQ(zeros(world.device, {1}).item(), 0) << "the stream goes on";
  });
}

TEST(Limits, AFullStreamThrowsAtAStop) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    std::stop_source stop;
    stream.set_limits({.stop = stop.get_token()});
    const auto client = world.spawn("client", [&] {
      pass(3ms);
      stop.request_stop();
    });
    const TimePoint start = testing::now();
    std::vector<Tensor> kept;
    try {
      while (kept.size() < 10'000) {
        kept.push_back(zeros(world.device, {1}));
      }
      ADD_FAILURE() << "the lane took everything";
    } catch (const DeviceError& error) {
      EXPECT_EQ(testing::now() - start, 3ms);
      EXPECT_EQ(error.code(), ErrorCode::cancelled);
      EXPECT_THAT(error.what(), HasSubstr("stayed full until a stop was requested"));
    }
    client->join();
    held.let_go();
  });
}

// The push that waits is of the next request: it goes on once the given-up ones are out of its way.
TEST(Limits, ACancelMakesRoomInAFullStream) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    const std::uint64_t before = kernels(world);
    std::vector<Tensor> kept;
    kept.reserve(250);
    for (int i = 0; i < 250; ++i) {
      kept.push_back(zeros(world.device, {1}));
    }
    stream.cancel();
    held.let_go();
    for (int i = 0; i < 250; ++i) {
      kept.push_back(zeros(world.device, {1}));
    }
    world.device.sync();
    EXPECT_EQ(kernels(world) - before, 250U);
  });
}

// ---- reads ----

TEST(Limits, AReadWaitsUntilTheDeadlineOfItsStream) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    const Tensor answer = request(world);
    stream.set_limits({.deadline = Deadline::in(5ms)});
    const TimePoint start = testing::now();
    EXPECT_THROW(static_cast<void>(answer.to_vector<float>()), DeadlineExceeded);
    EXPECT_EQ(testing::now() - start, 5ms);
    EXPECT_THROW(static_cast<void>(sum(answer).item()), DeadlineExceeded);
    EXPECT_EQ(testing::now() - start, 5ms);
    held.let_go();
    stream.set_limits({});
    EXPECT_THAT(answer.to_vector<float>(), ElementsAre(3, 5)) << "it was submitted before";
  });
}

TEST(Limits, ToVectorAndItemTakeADeadline) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    const Tensor answer = request(world);
    const Tensor total = sum(answer);
    const TimePoint start = testing::now();
    EXPECT_THROW(static_cast<void>(answer.to_vector<float>(Deadline::in(5ms))), DeadlineExceeded);
    EXPECT_EQ(testing::now() - start, 5ms);
    EXPECT_THROW(static_cast<void>(total.item(Deadline::in(2ms))), DeadlineExceeded);
    EXPECT_EQ(testing::now() - start, 7ms);
    held.let_go();
    EXPECT_THAT(answer.to_vector<float>(Deadline::in(1s)), ElementsAre(3, 5));
    EXPECT_EQ(total.item<int>(Deadline::in(1s)), 8);
  });
}

TEST_P(GivenUp, AReaderWhoWaitsLearnsOfItAtOnce) {
  stepped([](const World& world) {
    Stream slow(world.device);
    std::optional<HeldStream> held;
    Tensor needed;
    {
      const StreamScope scope(slow);
      held.emplace(world.device);
      needed = world.f32({1, 2});
    }
    std::optional<Stream> stream(std::in_place, world.device);
    std::function<void()> give_up;
    Promise<void> armed;
    const Pending<void> is_armed = armed.pending();
    const auto reader = world.spawn("reader", [&] {
      const StreamScope scope(*stream);
      give_up = GetParam().arm(*stream);
      const TimePoint start = testing::now();
      const Tensor waits = needed + 1;
      armed.set_value();
      try {
        static_cast<void>(waits.to_vector<float>());
        ADD_FAILURE() << "it was read";
      } catch (const Exception& error) {
        EXPECT_EQ(error.code(), GetParam().code);
        EXPECT_LE(testing::now() - start, 6ms);
      }
    });
    ASSERT_TRUE(is_armed.wait_for(1s));
    give_up();
    reader->join();
    held->let_go();
  });
}

// ---- update groups ----

TEST_P(GivenUp, AnUpdateThatHasNotBegunLeavesEverythingAsItWas) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor gradient = world.f32({1, 1});
    Tensor none;
    world.device.sync();
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    const auto give_up = GetParam().arm(stream);
    const std::uint32_t opened_at = __LINE__ + 1;
    UpdateGroup group(world.device);
    group.sgd(parameter, gradient, none, kPlain);
    give_up();
    stream.set_limits({});
    Tensor other = world.f32({3, 4});
    group.sgd(other, gradient, none, kPlain);  // submitted after the cancel
    const Pending<void> done = group.commit();
    held.let_go();
    const Status status = done.wait();
    ASSERT_EQ(code_of(status), GetParam().code);
    EXPECT_EQ(status.error().op, "update group");
    EXPECT_EQ(status.error().location.line, opened_at) << "the line that opened it";
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_THAT(other.to_vector<float>(), ElementsAre(3, 4));
    UpdateGroup next(world.device);
    next.sgd(parameter, gradient, none, kPlain);
    next.commit().get();
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(0, 1));
  });
}

// What the group keeps as it was may still be on its way, in another stream.
TEST_P(GivenUp, AnUpdateThatHasNotBegunKeepsAParameterThatIsStillToCome) {
  stepped([](const World& world) {
    Stream slow(world.device);
    std::optional<HeldStream> held;
    Tensor parameter;
    {
      const StreamScope scope(slow);
      held.emplace(world.device);
      parameter = world.f32({1, 2});
    }
    Tensor none;
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream own(world.device);
    const auto give_up = GetParam().arm(stream);
    UpdateGroup group(world.device);
    group.sgd(parameter, world.f32({1, 1}), none, kPlain);
    const Pending<void> done = group.commit();
    give_up();
    own.let_go();
    pass(1ms);
    EXPECT_FALSE(done.is_ready());
    held->let_go();
    EXPECT_EQ(code_of(done.wait()), GetParam().code);
    stream.set_limits({});
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST_P(GivenUp, AnUpdateThatHasBegunRunsAsAWhole) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor other = world.f32({3, 4});
    Tensor gradient = world.f32({1, 1});
    Tensor none;
    world.device.sync();
    Stream stream(world.device);
    const StreamScope scope(stream);
    const auto give_up = GetParam().arm(stream);
    UpdateGroup group(world.device);
    group.sgd(parameter, gradient, none, kPlain);
    pass(3ms);
    give_up();
    group.sgd(other, gradient, none, kPlain);
    group.commit().get(Deadline::in(1s));
    stream.set_limits({});
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(0, 1));
    EXPECT_THAT(other.to_vector<float>(), ElementsAre(2, 3));
  });
}

TEST_P(GivenUp, AJointUpdateThatHasNotBegunSaysNoToAll) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor gradient = world.f32({1, 1});
    Tensor none;
    world.device.sync();
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    const auto give_up = GetParam().arm(stream);
    const auto decision = std::make_shared<UpdateDecision>();
    Promise<Status> prepared;
    Pending<Status> answer = prepared.pending();
    Promise<Status> finished;
    Pending<Status> end = finished.pending();
    UpdateGroup group(world.device);
    group.sgd(parameter, gradient, none, kPlain);
    group.commit([&](ErrorRef error) { finished.set_value(Status(std::move(error))); },
                 {.decision = decision, .prepared = [&](Result<PreparedUpdate> update) {
                    prepared.set_value(update.status());
                  }});
    give_up();
    held.let_go();
    EXPECT_EQ(code_of(answer.get(Deadline::in(1s))), GetParam().code);
    EXPECT_EQ(code_of(end.get(Deadline::in(1s))), GetParam().code);
    EXPECT_FALSE(decision->commit());
    stream.set_limits({});
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
  });
}

// Where the stream is full, an open group still gets its end: the stream would be in mid-group for
// ever.
TEST(Limits, AnOpenGroupGetsItsEndThoughTheDeadlineHasPassed) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor gradient = world.f32({1, 1});
    Tensor none;
    world.device.sync();
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    stream.set_limits({.deadline = Deadline::in(5ms)});
    std::vector<Tensor> kept;
    const auto waker = world.spawn("waker", [&] {
      pass(20ms);
      held.let_go();
    });
    {
      UpdateGroup group(world.device);
      group.sgd(parameter, gradient, none, kPlain);
      EXPECT_THROW(
          while (true) { kept.push_back(zeros(world.device, {1})); }, DeadlineExceeded);
      EXPECT_LT(kept.size(), 300U);
    }
    waker->join();
    stream.set_limits({});
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
    UpdateGroup next(world.device);
    next.sgd(parameter, gradient, none, kPlain);
    next.commit().get();
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(0, 1));
  });
}

// ---- lifetimes ----

TEST_P(GivenUp, MemoryIsGivenBackAndTensorsMayMoveOn) {
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
      held->let_go();
      stream.set_limits({});
      handed = std::move(handed) + 1;
      EXPECT_THAT(handed.to_vector<float>(), ElementsAre(2, 3));
    }
    held.reset();
    EXPECT_EQ(live_tensors(world.device), 1);
  });
}

TEST_P(GivenUp, ALoanThatHasNotBegunIsRefusedAndOneThatHasGoesOn) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    const auto give_up = GetParam().arm(stream);
    Promise<Status> taken;
    Pending<Status> taker = taken.pending();
    const Tensor lent = lend(
        world.f32({1, 2}),
        [&](Result<LentRegion> region) { taken.set_value(region.status()); },
        Deadline::never());
    give_up();
    EXPECT_TRUE(held.region().is_valid());
    held.let_go();
    EXPECT_EQ(code_of(taker.get(Deadline::in(1s))), GetParam().code);
    EXPECT_EQ(read_error(lent).code, GetParam().code);
    stream.set_limits({});
    EXPECT_THAT(held.tensor().to_vector<float>(), ElementsAre(0));
  });
}

TEST_P(GivenUp, ADeviceThatShutsDownAsksNobody) {
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
    Stream stream(world.device);
    const StreamScope scope(stream);
    HeldStream held(world.device);
    const Tensor late = request(world);
    stream.cancel();
    const Pending<void> done = world.device.sync_later();
    pass(1ms);
    EXPECT_FALSE(done.is_ready());
    held.let_go();
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
      held.let_go();
      EXPECT_EQ(read_error(late).code, ErrorCode::cancelled);
    }
    EXPECT_THAT((weights + 1).to_vector<float>(), ElementsAre(2, 3));
  });
}

// The kernel that runs while the limit passes ends, and its value stays; the next one does not
// begin.
TEST_P(GivenUp, AKernelUnderWayEnds) {
  testing::StuckControl control(1);
  const BackendFactory factory = testing::stuck(control);
  ManualExecutor executor(1, {.max_steps = 1'000'000});
  executor.run([&] {
    Runtime runtime(
        {.devices = {{.name = "sim:0"}}, .executor = &executor, .backend_factory = &factory});
    const World world{runtime, executor, runtime.device("sim:0")};
    Stream stream(world.device);
    const StreamScope scope(stream);
    const auto give_up = GetParam().arm(stream);
    const Tensor first = zeros(world.device, {1});
    const Tensor second = first + 1;
    world.device.endpoint().wake_if_free();
    ASSERT_TRUE(control.is_in.wait_for(1s));
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
