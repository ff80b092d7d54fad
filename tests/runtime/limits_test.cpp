// Cancelling work: cancel(), deadlines and stops of streams. Work that has not begun does not run
// and carries the reason; the stream goes on. limits_whole_test.cpp covers work that has begun.
#include "limits_ways.hpp"

#include <hearth/runtime/autodiff.hpp>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::code_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HeldClient;
using testing::HeldStream;
using testing::kernels;
using testing::LateTensor;
using testing::live_tensors;
using testing::pass;
using testing::read_error;
using testing::request;
using testing::stepped;
using testing::World;

class GivenUp : public ::testing::TestWithParam<testing::Way> {};
INSTANTIATE_TEST_SUITE_P(Limits, GivenUp, testing::every_way(), testing::name_of_way);

TEST_P(GivenUp, RequestsRunNoKernel) {
  stepped([](const World& world) {
    HeldClient client(world);
    const auto give_up = GetParam().arm(client.stream);
    const std::uint64_t before = kernels(world);
    std::vector<Tensor> answers;
    answers.reserve(20);
    for (int i = 0; i < 20; ++i) {
      answers.push_back(request(world));
    }
    give_up();
    client.held.unblock();
    for (const Tensor& answer : answers) {
      const Error error = read_error(answer);
      EXPECT_EQ(error.code, GetParam().code);
      EXPECT_THAT(error.text, HasSubstr(GetParam().text));
      EXPECT_EQ(error.op, "upload");
      EXPECT_EQ(error.stream, client.stream.id());
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
      held->unblock();
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
    HeldClient client(world);
    const Tensor failed = world.f32({1}) + 1;
    client.held.unblock();
    EXPECT_EQ(read_error(failed).code, ErrorCode::kernel_failed);
    HeldStream again(world.device);
    const auto give_up = GetParam().arm(client.stream);
    const Tensor depends = failed * 2;
    give_up();
    again.unblock();
    EXPECT_EQ(read_error(depends).code, ErrorCode::kernel_failed);
  });
}

// ---- waiting work ----

TEST_P(GivenUp, AnOpThatWaitsForAnotherStreamWaitsNoLonger) {
  stepped([](const World& world) {
    LateTensor needed(world);
    Stream stream(world.device);
    const StreamScope scope(stream);
    const auto give_up = GetParam().arm(stream);
    const Tensor waits = needed.tensor + 1;
    pass(1ms);
    give_up();
    const detail::TimePoint start = testing::now();
    EXPECT_EQ(read_error(waits).code, GetParam().code);
    EXPECT_LE(testing::now() - start, 1ms);
    needed.unblock();
    stream.set_limits({});
    EXPECT_THAT(needed.tensor.to_vector<float>({.deadline = Deadline::in(1s)}), ElementsAre(1, 2))
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
    const detail::TimePoint start = testing::now();
    {
      const StreamScope there(stream);
      EXPECT_EQ(read_error(needed).code, GetParam().code);
    }
    EXPECT_LE(testing::now() - start, 1ms);
    held->unblock();
    world.device.sync();
    needed = Tensor();
    EXPECT_EQ(live_tensors(other), 0);
  });
}

TEST_P(GivenUp, ACopyToAnotherDeviceCarriesTheReason) {
  stepped([](const World& world) {
    const Device other = world.runtime.device("sim:1");
    HeldClient client(world);
    const auto give_up = GetParam().arm(client.stream);
    const Tensor copy = world.f32({1, 2}).to(other);
    give_up();
    client.held.unblock();
    EXPECT_EQ(read_error(copy).code, GetParam().code);
  });
}

// ---- a full stream ----

TEST(Limits, AFullStreamThrowsAtItsDeadline) {
  stepped([](const World& world) {
    HeldClient client(world);
    client.stream.set_limits({.deadline = Deadline::in(5ms)});
    const detail::TimePoint start = testing::now();
    std::vector<Tensor> kept;
    try {
      while (kept.size() < 10'000) {
        kept.push_back(zeros(world.device, {1}));
      }
      ADD_FAILURE() << "the lane took everything";
    } catch (const DeadlineExceeded& error) {
      EXPECT_EQ(testing::now() - start, 5ms);
      EXPECT_THAT(error.what(), HasSubstr("stayed full until its deadline"));
      EXPECT_EQ(error.error().op, "zeros");
      EXPECT_THAT(error.error().location.file, HasSubstr("limits_test.cpp"));
      EXPECT_TRUE(error.error().report.empty());
    }
    client.held.unblock();
    client.stream.set_limits({.deadline = Deadline::in(1s)});
    EXPECT_EQ(zeros(world.device, {1}).item(), 0) << "the stream goes on";
  });
}

TEST(Limits, AFullStreamThrowsAtAStop) {
  stepped([](const World& world) {
    HeldClient client(world);
    std::stop_source stop;
    client.stream.set_limits({.stop = stop.get_token()});
    const auto stopper = world.spawn("client", [&] {
      pass(3ms);
      stop.request_stop();
    });
    const detail::TimePoint start = testing::now();
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
    stopper->join();
    client.held.unblock();
  });
}

TEST(Limits, AnOpThatAFullStreamRefusesKeepsNothingForItsGradient) {
  stepped([](const World& world) {
    HeldClient client(world);
    const auto loss = [&](const std::vector<Tensor>& in) {
      {
        const Tensor operand = in[0] * 2.0;
        client.stream.set_limits({.deadline = Deadline::in(5ms)});
        std::vector<Tensor> kept;
        EXPECT_THROW(
            {
              while (kept.size() < 10'000) {
                kept.push_back(zeros(world.device, {1}));
              }
            },
            DeadlineExceeded);
        EXPECT_THROW(kept.push_back(square(operand)), DeadlineExceeded);
      }
      client.held.unblock();
      client.stream.set_limits({.deadline = Deadline::in(1s)});
      world.device.sync();
      EXPECT_EQ(live_tensors(world.device), 2) << "x, and what held the stream";
      return sum(square(in[0]));
    };
    const Tensor x = full(world.device, {2}, 3.0F);
    EXPECT_THAT(grad(loss, std::vector<Tensor>{x}).front().to_vector<float>(), ElementsAre(6, 6));
  });
}

// The waiting push belongs to the next request: it goes on once the cancelled ones are gone.
TEST(Limits, ACancelMakesRoomInAFullStream) {
  stepped([](const World& world) {
    HeldClient client(world);
    const std::uint64_t before = kernels(world);
    std::vector<Tensor> kept;
    kept.reserve(250);
    for (int i = 0; i < 250; ++i) {
      kept.push_back(zeros(world.device, {1}));
    }
    client.stream.cancel();
    client.held.unblock();
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
    HeldClient client(world);
    const Tensor answer = request(world);
    client.stream.set_limits({.deadline = Deadline::in(5ms)});
    const detail::TimePoint start = testing::now();
    EXPECT_THROW(static_cast<void>(answer.to_vector<float>()), DeadlineExceeded);
    EXPECT_EQ(testing::now() - start, 5ms);
    EXPECT_THROW(static_cast<void>(sum(answer).item()), DeadlineExceeded);
    EXPECT_EQ(testing::now() - start, 5ms);
    client.held.unblock();
    client.stream.set_limits({});
    EXPECT_THAT(answer.to_vector<float>(), ElementsAre(3, 5)) << "it was submitted before";
  });
}

TEST(Limits, ToVectorAndItemTakeADeadline) {
  stepped([](const World& world) {
    HeldClient client(world);
    const Tensor answer = request(world);
    const Tensor total = sum(answer);
    const detail::TimePoint start = testing::now();
    EXPECT_THROW(static_cast<void>(answer.to_vector<float>({.deadline = Deadline::in(5ms)})),
                 DeadlineExceeded);
    EXPECT_EQ(testing::now() - start, 5ms);
    EXPECT_THROW(static_cast<void>(total.item({.deadline = Deadline::in(2ms)})), DeadlineExceeded);
    EXPECT_EQ(testing::now() - start, 7ms);
    client.held.unblock();
    EXPECT_THAT(answer.to_vector<float>({.deadline = Deadline::in(1s)}), ElementsAre(3, 5));
    EXPECT_EQ(total.item<int>({.deadline = Deadline::in(1s)}), 8);
  });
}

TEST_P(GivenUp, AReaderWhoWaitsLearnsOfItAtOnce) {
  stepped([](const World& world) {
    LateTensor needed(world);
    std::optional<Stream> stream(std::in_place, world.device);
    std::function<void()> give_up;
    Promise<void> armed;
    const Pending<void> is_armed = armed.pending();
    const auto reader = world.spawn("reader", [&] {
      const StreamScope scope(*stream);
      give_up = GetParam().arm(*stream);
      const detail::TimePoint start = testing::now();
      const Tensor waits = needed.tensor + 1;
      armed.set_value();
      try {
        static_cast<void>(waits.to_vector<float>());
        ADD_FAILURE() << "it was read";
      } catch (const Exception& error) {
        EXPECT_EQ(error.code(), GetParam().code);
        EXPECT_LE(testing::now() - start, 6ms);
      }
    });
    ASSERT_TRUE(detail::PendingAccess::is_ready_by(is_armed, Deadline::in(1s)));
    give_up();
    reader->join();
    needed.unblock();
  });
}

}  // namespace
}  // namespace hearth
