// Fine print 10 of the design: bytes on loan.
#include "lent.hpp"

#include <cstring>
#include <optional>
#include <string>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::lend_out;
using testing::Lent;
using testing::live_tensors;
using testing::pass;
using testing::stepped;
using testing::World;

std::span<float> floats(const LentRegion& region) {
  return {reinterpret_cast<float*>(region.bytes().data()),  // NOLINT: bytes become elements
          region.bytes().size() / sizeof(float)};
}

TEST(Lend, TheBorrowerSeesTheValuesAndTheResultWhatItWrote) {
  stepped([](const World& world) {
    Lent lent = lend_out(world.f32({1, 2}) + 1);
    LentRegion region = std::move(lent.region).get();
    EXPECT_EQ(region.dtype(), DType::f32);
    EXPECT_THAT(floats(region), ElementsAre(2, 3));
    floats(region)[0] = 9;
    region.done();
    EXPECT_FALSE(region.is_valid());
    EXPECT_THAT(lent.result.to_vector<float>(), ElementsAre(9, 3));
  });
}

// Its bytes were never written.
TEST(Lend, WhatAKernelThatHangsWouldHaveMadeIsNotLent) {
  stepped({.faults = {{"sim:0", {.hanging_submit = 1}}}}, [](const World& world) {
    const Lent lent = lend_out(ones(world.device, {2}));
    const Status status = lent.region.wait();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
    EXPECT_THROW(static_cast<void>(lent.result.to_vector<float>()), Exception);
  });
}

TEST(Lend, ATensorThatSomeoneElseHoldsIsCopied) {
  stepped([](const World& world) {
    const Tensor kept = world.f32({1, 2});
    Lent lent = lend_out(kept);
    LentRegion region = std::move(lent.region).get();
    floats(region)[0] = 9;
    region.done();
    EXPECT_THAT(lent.result.to_vector<float>(), ElementsAre(9, 2));
    EXPECT_THAT(kept.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST(Lend, AViewIsLentWithoutItsNeighbours) {
  stepped([](const World& world) {
    const Tensor base = world.f32({1, 2, 3, 4});
    Lent lent = lend_out(slice(base, 0, {.start = 3, .stop = 0, .step = -1}));
    LentRegion region = std::move(lent.region).get();
    EXPECT_THAT(floats(region), ElementsAre(4, 3, 2));
    region.done();
    EXPECT_THAT(lent.result.to_vector<float>(), ElementsAre(4, 3, 2));
    EXPECT_THAT(base.to_vector<float>(), ElementsAre(1, 2, 3, 4));
  });
}

TEST(Lend, TheResultIsNotVisibleBeforeDone) {
  stepped([](const World& world) {
    Lent lent = lend_out(world.f32({1, 2}));
    LentRegion region = std::move(lent.region).get();
    Pending<std::vector<std::byte>> own = lent.result.read_bytes();
    Stream other(world.device);
    const StreamScope scope(other);
    const Tensor sum = lent.result + 1;
    const Pending<std::vector<std::byte>> foreign = sum.read_bytes();
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(own, Deadline::in(1s)));
    EXPECT_FALSE(foreign.is_ready());
    floats(region)[1] = 5;
    region.done();
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(own, Deadline::in(1s)));
    EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 6));
  });
}

TEST(Lend, AnErrorInDonePoisonsTheResult) {
  stepped([](const World& world) {
    Lent lent = lend_out(world.f32({1}));
    std::move(lent.region)
        .get()
        .done(Error{.code = ErrorCode::collective_failed, .text = "a rank is gone"});
    const Error error = testing::read_error(lent.result + 1);
    EXPECT_EQ(error.code, ErrorCode::collective_failed);
    EXPECT_EQ(error.text, "a rank is gone");
    EXPECT_EQ(live_tensors(world.device), 1);
    EXPECT_EQ(world.device.memory().live_bytes, 0);
  });
}

TEST(Lend, ARegionThatIsDroppedPoisonsTheResult) {
  stepped([](const World& world) {
    Lent lent = lend_out(world.f32({1}));
    { const LentRegion dropped = std::move(lent.region).get(); }
    EXPECT_EQ(testing::read_error(lent.result).code, ErrorCode::cancelled);
  });
}

TEST(Lend, APoisonedTensorReachesTheBorrowerAsAnError) {
  stepped({.faults = {{"sim:0", {.failing_submits = {1}}}}}, [](const World& world) {
    Lent lent = lend_out(world.f32({1}) + 1);
    const Status status = lent.region.wait();
    ASSERT_EQ(testing::code_of(status), ErrorCode::kernel_failed);
    EXPECT_EQ(testing::read_error(lent.result).code, ErrorCode::kernel_failed);
    EXPECT_EQ(world.f32({2}).item(), 2) << "the lane is not held up";
  });
}

TEST(Lend, ThePassedDeadlinePoisonsTheResultAndQuarantinesTheBytes) {
  stepped([](const World& world) {
    Lent lent = lend_out(world.f32({1, 2}), Deadline::in(5s));
    LentRegion region = std::move(lent.region).get();
    const Tensor after = world.f32({3}) + 1;
    EXPECT_EQ(testing::read_error(lent.result).code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(after.item(), 4) << "the lane goes on";
    const std::vector<float> values(64, 1);
    for (int i = 0; i < 50; ++i) {  // new tensors must not get the borrower's bytes
      const Tensor fresh = world.f32({7, 7});
      floats(region)[0] = 9;
      ASSERT_THAT(fresh.to_vector<float>(), ElementsAre(7, 7));
    }
    constexpr std::int64_t kGranule = 64;  // the size of `after`
    EXPECT_GT(world.device.memory().live_bytes, kGranule);
    region.done();  // late: only frees the bytes
    EXPECT_EQ(testing::read_error(lent.result).code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(after.item(), 4);
    EXPECT_EQ(world.device.memory().live_bytes, kGranule);
  });
}

// The lend has left its lane long before the tensor exists.
TEST(Lend, TheResultMayBeDroppedElsewhereBeforeDone) {
  for (const bool has_lane : {true, false}) {
    stepped([has_lane](const World& world) {
      Lent lent = lend_out(world.f32({1, 2}));
      LentRegion region = std::move(lent.region).get();
      world
          .spawn("dropper",
                 [&world, result = std::move(lent.result), has_lane]() mutable {
                   if (has_lane) {
                     EXPECT_EQ(world.f32({4}).item(), 4);
                   }
                   result = Tensor();
                 })
          ->join();
      pass(10ms);
      EXPECT_EQ(floats(region)[1], 2);
      region.done();
      pass(10ms);
      EXPECT_EQ(live_tensors(world.device), 0);
      for (float i = 0; i < 300; ++i) {
        ASSERT_EQ(world.f32({i}).item(), i);
      }
    });
  }
}

TEST(Lend, WorkOnTheDevicesCoresRunsWhileTheBytesAreLent) {
  stepped([](const World& world) {
    Lent lent = lend_out(world.f32({1, 2}));
    LentRegion region = std::move(lent.region).get();
    Promise<void> ran;
    Pending<void> done = ran.pending();
    region.run_on_device([&region, ran = std::move(ran)]() mutable {
      floats(region)[0] += floats(region)[1];
      ran.set_value();
    });
    done.get();
    region.done();
    EXPECT_THAT(lent.result.to_vector<float>(), ElementsAre(3, 2));
  });
}

// The taker of a region runs in the device's loop: its wait for the device could never end.
TEST(Lend, AWaitForTheDeviceInsideItsOwnLoopIsRefusedAtOnce) {
  stepped([](const World& world) {
    const Tensor x = world.f32({1});
    std::string refusal;
    const detail::TimePoint start = testing::now();
    const Tensor lent = lend(
        world.f32({2}),
        [&](Result<LentRegion> region) {
          try {
            static_cast<void>(x.item());
          } catch (const ArgumentError& error) {
            refusal = error.what();
          }
          region.value().done();
        },
        Deadline::never());
    EXPECT_EQ(lent.item(), 2);
    EXPECT_EQ(testing::now(), start);
    EXPECT_THAT(refusal,
                ::testing::HasSubstr("a readback is waited for inside the loop of device sim:0"));
    EXPECT_EQ(x.item(), 1);
  });
}

TEST(Lend, AWaitAfterALoanHasItsFullTime) {
  stepped([](const World& world) {
    Stream stuck(world.device);
    std::optional<testing::HeldStream> held;
    Tensor first;
    {
      const StreamScope scope(stuck);
      held.emplace(world.device);
      first = world.f32({1});
    }
    std::optional<testing::HeldStream> second;
    Lent lent = lend_out(first);
    const Tensor late = first + 1;
    pass(50s);
    held->unblock();
    LentRegion region = std::move(lent.region).get();
    region.done();
    EXPECT_EQ(late.item(), 2);
  });
}

TEST(Lend, EmptyAndTrackedTensorsAreRefused) {
  EXPECT_THROW(static_cast<void>(lend(
                   Tensor(), [](const Result<LentRegion>&) {}, Deadline::never())),
               ArgumentError);
}

}  // namespace
}  // namespace hearth
