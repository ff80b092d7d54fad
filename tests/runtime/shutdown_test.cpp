// Fine print 11 of the design, and the close of a runtime.
#include "stepped_runtime.hpp"

#include <optional>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/device/device_actor.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::HeldStream;
using testing::pass;
using testing::stepped;
using testing::World;

// Runs a body with a runtime that the body may close.
template <class Body>
void with_runtime(Body body, std::chrono::nanoseconds limit = 30s) {
  ManualExecutor executor;
  executor.run([&] {
    std::optional<Runtime> runtime;
    runtime.emplace(RuntimeOptions{
        .devices = {{.name = "sim:0"}}, .shutdown_limit = limit, .executor = &executor});
    body(runtime, runtime->device("sim:0"));
  });
}

TEST(Shutdown, WhatIsQueuedIsStillRun) {
  with_runtime([](std::optional<Runtime>& runtime, const Device& device) {
    Tensor x = zeros(device, {1});
    for (int i = 0; i < 100; ++i) {
      x = std::move(x) + 1;
    }
    const Pending<double> value = x.item_later();
    runtime.reset();
    ASSERT_TRUE(value.is_ready());
    EXPECT_TRUE(value.wait().has_value());
  });
}

TEST(Shutdown, TensorsDevicesAndPendingsOutliveTheRuntime) {
  with_runtime([](std::optional<Runtime>& runtime, Device device) {
    const Tensor x = zeros(device, {2});
    Tensor dropped = x + 1;
    Pending<std::vector<std::byte>> read = x.read_bytes();
    runtime.reset();
    dropped = Tensor();
    EXPECT_EQ(std::move(read).get().size(), 8U);
    EXPECT_EQ(x.shape(), Shape{2});
    EXPECT_EQ(device.name(), "sim:0");
    const auto is_closed = [](const auto& use) {
      try {
        use();
        ADD_FAILURE() << "a closed device answered";
      } catch (const DeviceError& error) {
        EXPECT_EQ(error.code(), ErrorCode::device_closed);
        EXPECT_THAT(error.what(), HasSubstr("sim:0 is closed"));
        EXPECT_THAT(error.error().location.file, EndsWith("shutdown_test.cpp")) << error.what();
      }
    };
    is_closed([&] { static_cast<void>(x + 1); });
    is_closed([&] { static_cast<void>(x.to_vector<float>()); });
    is_closed([&] { static_cast<void>(zeros(device, {1})); });
    is_closed([&] { static_cast<void>(Tensor::from(device, {1.0, 2.0})); });
    is_closed([&] { x.publish(); });
    is_closed([&] { device.sync(); });
    is_closed([&] { const Stream stream(device); });
    is_closed([&] { const UpdateGroup group(device); });
    is_closed([&] { static_cast<void>(device.memory()); });
    is_closed([&] { static_cast<void>(device.largest_tensors()); });
    is_closed([&] { device.restart(); });
    const Tensor copy = x;
    device = Device();
  });
}

TEST(Shutdown, AThreadWithoutALaneMeetsAClosedDevice) {
  with_runtime([](std::optional<Runtime>& runtime, const Device& device) {
    Tensor x = zeros(device, {2});
    detail::Executor& executor = runtime->executor();
    runtime.reset();
    executor
        .spawn({.name = "late"},
               [x = std::move(x)]() mutable {
                 EXPECT_THROW(static_cast<void>(x + 1), DeviceError);
                 x = Tensor();
               })
        ->join();
  });
}

TEST(Shutdown, AReaderBehindALoanHearsOfItAtTheLimit) {
  with_runtime(
      [](std::optional<Runtime>& runtime, const Device& device) {
        const Tensor x = zeros(device, {2});
        HeldStream held(device);
        const Pending<std::vector<std::byte>> read = x.read_bytes();
        const detail::TimePoint start = testing::now();
        runtime.reset();
        EXPECT_EQ(testing::now() - start, 5s);
        ASSERT_TRUE(read.is_ready());
        EXPECT_EQ(testing::code_of(read.wait()), ErrorCode::device_closed);
      },
      5s);
}

TEST(Shutdown, ALoanThatEndsMeanwhileLetsTheRestRun) {
  with_runtime([](std::optional<Runtime>& runtime, const Device& device) {
    const Tensor x = zeros(device, {2});
    HeldStream held(device);
    const Pending<std::vector<std::byte>> read = x.read_bytes();
    const auto lender = runtime->executor().spawn({.name = "borrower"}, [&] {
      pass(3s);
      held.unblock();
    });
    const detail::TimePoint start = testing::now();
    runtime.reset();
    EXPECT_EQ(testing::now() - start, 3s);
    EXPECT_TRUE(read.wait().has_value());
    lender->join();
  });
}

TEST(Shutdown, TheLargestDurationMeansNoLimit) {
  with_runtime(
      [](std::optional<Runtime>& runtime, const Device& device) {
        const Tensor x = zeros(device, {2});
        HeldStream held(device);
        const Pending<std::vector<std::byte>> read = x.read_bytes();
        const auto lender = runtime->executor().spawn({.name = "borrower"}, [&] {
          pass(3h);
          held.unblock();
        });
        const detail::TimePoint start = testing::now();
        runtime.reset();
        EXPECT_EQ(testing::now() - start, 3h);
        EXPECT_TRUE(read.wait().has_value());
        lender->join();
      },
      std::chrono::nanoseconds::max());
}

TEST(Shutdown, ThePassedLimitEndsQueuedWorkToo) {
  with_runtime(
      [](std::optional<Runtime>& runtime, const Device& device) {
        HeldStream held(device);
        const Pending<double> value = zeros(device, {1}).item_later();
        held.unblock();  // so that the actor sees this and the close at once
        runtime.reset();
        EXPECT_EQ(testing::code_of(value.wait()), ErrorCode::device_closed);
      },
      0s);
}

TEST(Shutdown, AUserWhoWaitsForRoomIsLetGo) {
  with_runtime(
      [](std::optional<Runtime>& runtime, const Device& device) {
        const auto user = runtime->executor().spawn({.name = "user"}, [&] {
          HeldStream held(device);
          std::vector<Tensor> kept;
          try {
            for (int i = 0; i < 1000; ++i) {
              kept.push_back(zeros(device, {1}));
            }
            ADD_FAILURE() << "a closed device took everything";
          } catch (const DeviceError& error) {
            EXPECT_EQ(error.code(), ErrorCode::device_closed);
          }
        });
        pass(1s);
        runtime.reset();
        user->join();
      },
      5s);
}

TEST(Shutdown, ARuntimeThatCannotOpenADeviceEndsThoseItHad) {
  ManualExecutor executor;
  executor.run([&] {
    const auto open = [&](const char* second) {
      const Runtime runtime(
          {.devices = {{.name = "sim:0"}, {.name = second}}, .executor = &executor});
    };
    try {
      open("abacus:0");
      FAIL() << "an unknown device was opened";
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr("no device 'abacus:0'"));
    }
    EXPECT_THROW(open("sim:0"), ArgumentError);
  });
}

// A thread has pushed a record and is about to ring while the actor ends: only that thread may
// reject the record.
TEST(Shutdown, AnActorThatEndsLeavesLanesAloneThatAreNotInItsHands) {
  const auto tables = std::make_shared<RuntimeTables>(RuntimeId{1'000'000}, detail::LogOptions{});
  auto backend = std::make_unique<sim::SimBackend>();
  const auto endpoint = make_intrusive<DeviceEndpoint>(
      "sim:0", "", tables, std::uint64_t{1'000'000}, true, std::vector<int>{});
  DeviceActor actor(endpoint, std::move(backend), {.budget_bytes = 1 << 20});
  endpoint->attach_loop(actor, IntrusivePtr<detail::Parker>(&detail::current_context().parker()));
  Lane& rung = endpoint->lanes.open();
  Lane& about_to_ring = endpoint->lanes.open();
  OpRecord record;
  record.kind = OpKind::publish;
  record.input_count = 1;
  ASSERT_TRUE(rung.try_push(record, {}));
  ASSERT_TRUE(about_to_ring.try_push(record, {}));
  ASSERT_TRUE(rung.needs_ring());
  endpoint->ring(rung);
  endpoint->post(StopDevice{.limit = Deadline::in(0s)});
  actor.thread_main();
  EXPECT_EQ(rung.consumed(), 1U);
  EXPECT_EQ(about_to_ring.consumed(), 0U);
  ASSERT_TRUE(about_to_ring.needs_ring());
  endpoint->ring(about_to_ring);
  EXPECT_EQ(about_to_ring.consumed(), 1U);
}

TEST(Shutdown, WhatAnActorReceivesAtItsEndMeetsLanesThatAreStillItsOwn) {
  const auto tables = std::make_shared<RuntimeTables>(RuntimeId{1'000'001}, detail::LogOptions{});
  const auto endpoint = make_intrusive<DeviceEndpoint>(
      "sim:0", "", tables, std::uint64_t{1'000'001}, true, std::vector<int>{});
  DeviceActor actor(endpoint, std::make_unique<sim::SimBackend>(), {.budget_bytes = 1 << 20});
  endpoint->attach_loop(actor, IntrusivePtr<detail::Parker>(&detail::current_context().parker()));
  Lane& lane = endpoint->lanes.open();
  std::uint64_t consumed_meanwhile = 0;
  endpoint->post(StopDevice{.limit = Deadline::in(0s)});
  // The work of the first message sends the second, which arrives after the actor has ended its
  // loop.
  endpoint->post(RunOnLoan{.lane = LaneId{}, .work = [&] {
                             endpoint->post(RunOnLoan{.lane = LaneId{}, .work = [&] {
                                                        OpRecord record;
                                                        record.kind = OpKind::publish;
                                                        record.input_count = 1;
                                                        ASSERT_TRUE(lane.try_push(record, {}));
                                                        ASSERT_TRUE(lane.needs_ring());
                                                        // If the lane's producer were its consumer
                                                        // now, it would reject the record.
                                                        endpoint->ring(lane);
                                                        consumed_meanwhile = lane.consumed();
                                                      }});
                           }});
  actor.thread_main();
  EXPECT_EQ(consumed_meanwhile, 0U);
  EXPECT_EQ(lane.consumed(), 1U);
}

}  // namespace
}  // namespace hearth
