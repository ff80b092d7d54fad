// Exceptions of a program's own code in the device's loop: from callbacks and from memory
// strategies.
#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <hearth/runtime/update_group.hpp>

#include "tests/runtime/held_token.hpp"
#include "tests/runtime/throwing_strategy.hpp"

namespace hearth::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr SgdUpdate kPlain{.learning_rate = 1};
constexpr SgdUpdate kMomentum{.learning_rate = 1, .momentum = 0.5};

void refuse_everything(const Result<LentRegion>& region) {
  static_cast<void>(region);
  throw std::runtime_error("not now");
}

/// More tensors than a stream's free slots, each with its own value.
void expect_every_tensor_has_its_own_slot(const World& world) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 600; ++i) {
    tensors.push_back(world.f32({static_cast<float>(i)}));
  }
  for (int i = 0; i < 600; ++i) {
    ASSERT_EQ(tensors[static_cast<std::size_t>(i)].item(), i);
  }
}

// ---- callbacks ----

TEST(Throwing, ATakerThatThrowsAtAnErrorLeavesEverySlotWithOneTensor) {
  stepped({.faults = {{"sim:0", {.failing_submits = {1}}}}}, [](const World& world) {
    {
      const Tensor lent = lend(world.f32({1}) + 1, refuse_everything, Deadline::never());
      EXPECT_EQ(read_error(lent).code, ErrorCode::kernel_failed) << "the first cause stays";
    }
    world.device.sync();
    expect_every_tensor_has_its_own_slot(world);
    EXPECT_EQ(live_tensors(world.device), 0);
  });
}

TEST(Throwing, ATakerThatThrowsAtTheDevicesEndEndsNothingElse) {
  Pending<std::vector<std::byte>> read;
  std::optional<HeldStream> held;
  stepped({.shutdown_limit = 1s}, [&](const World& world) {
    held.emplace(world.device);
    const Tensor lent = lend(world.f32({1}), refuse_everything, Deadline::never());
    read = lent.read_bytes();
  });
  EXPECT_EQ(code_of(read.wait()), ErrorCode::device_closed);
}

TEST(Throwing, ATakerThatKeepsTheRegionAndThrowsKeepsItsBytesFromOthers) {
  stepped([](const World& world) {
    const std::int64_t before = world.device.memory().live_bytes;
    LentRegion kept;
    const Tensor lent = lend(
        world.f32({1, 2}),
        [&](Result<LentRegion> region) {
          kept = std::move(region).value();
          throw std::runtime_error("afterwards");
        },
        Deadline::never());
    const Error error = read_error(lent);
    EXPECT_EQ(error.code, ErrorCode::worker_failed);
    EXPECT_THAT(error.text, HasSubstr("afterwards"));
    ASSERT_TRUE(kept.is_valid());
    for (int i = 0; i < 50; ++i) {
      const Tensor fresh = world.f32({7, 7});
      world.device.sync();
      std::fill(kept.bytes().begin(), kept.bytes().end(), std::byte{0});
      ASSERT_THAT(fresh.to_vector<float>(), ElementsAre(7, 7));
    }
    kept.done();
    EXPECT_EQ(live_tensors(world.device), 1) << "the poisoned one";
    EXPECT_EQ(world.device.memory().live_bytes, before);
  });
}

TEST(Throwing, AListenerThatThrowsAtARefusedUpdateChangesNothing) {
  stepped({.faults = {{"sim:0", {.failing_submits = {1}}}}}, [](const World& world) {
    const auto decision = std::make_shared<UpdateDecision>();
    Tensor parameter = world.f32({1, 2});
    Tensor none;
    Tensor failed = parameter + 1;
    UpdateGroup group(world.device);
    group.sgd(parameter, std::move(failed), none, kPlain);
    ErrorRef heard;
    group.commit(
        [&](ErrorRef error) {
          heard = std::move(error);
          throw std::runtime_error("not this either");
        },
        {.decision = decision,
         .prepared = [](const Result<PreparedUpdate>&) { throw std::runtime_error("not now"); }});
    EXPECT_THROW(world.device.sync(), DeviceError) << "nobody has read the tensor that failed";
    ASSERT_TRUE(heard);
    EXPECT_EQ(heard->code, ErrorCode::kernel_failed);
    EXPECT_FALSE(decision->commit());
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_EQ(live_tensors(world.device), 1);
  });
}

TEST(Throwing, AListenerThatThrowsAtTheDevicesEndEndsNothingElse) {
  const auto decision = std::make_shared<UpdateDecision>();
  ErrorRef heard;
  std::optional<HeldStream> held;
  stepped({.shutdown_limit = 1s}, [&](const World& world) {
    held.emplace(world.device);
    Tensor parameter = world.f32({1, 2});
    Tensor none;
    UpdateGroup group(world.device);
    group.sgd(parameter, world.f32({1, 1}), none, kPlain);
    group.commit(
        [&](ErrorRef error) {
          heard = std::move(error);
          throw std::runtime_error("not this either");
        },
        {.decision = decision,
         .prepared = [](const Result<PreparedUpdate>&) { throw std::runtime_error("not now"); }});
  });
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->code, ErrorCode::device_closed);
  EXPECT_FALSE(decision->commit());
}

// ---- memory strategies ----

class ThrowingMemory : public ::testing::Test {
 protected:
  template <class Body>
  void run(Body body) {
    stepped({.devices = {{.name = "sim:0",
                          .memory_budget_bytes = 8 * kMiB,
                          .make_memory = throwing_memory(throws_at)}}},
            body);
  }

  int throws_at = 0;
};

TEST_F(ThrowingMemory, FailsTheOpAloneAndNamesIt) {
  run([&](const World& world) {
    const Tensor x = world.f32({1});
    world.device.sync();
    throws_at = 1;
    const Error error = read_error(x + 1);
    EXPECT_EQ(error.code, ErrorCode::internal);
    EXPECT_EQ(error.op, "add");
    EXPECT_THAT(error.text, HasSubstr("bad_alloc"));
    EXPECT_EQ((x + 1).item(), 2);
  });
}

TEST_F(ThrowingMemory, ThatAnswersOkAndGivesNoBytesFailsTheOpAlone) {
  run([&](const World& world) {
    const Tensor x = world.f32({1});
    world.device.sync();
    throws_at = -1;
    EXPECT_THAT(read_error(x + 1).text, HasSubstr("it answered ok and gave no bytes"));
    EXPECT_EQ((x + 1).item(), 2);
  });
}

TEST_F(ThrowingMemory, OfAnOpThatMightHaveWaitedLeavesALaterOneAloneItsShortage) {
  run([&](const World& world) {
    Stream first(world.device);
    Stream second(world.device);
    Tensor failed;
    Pending<void> other;
    {
      const HeldToken held(world.device);
      {
        const StreamScope scope(first);
        failed = zeros(world.device, {4});
      }
      {
        const StreamScope scope(second);
        other = world.device.sync_later();
      }
      throws_at = 1;
    }
    EXPECT_EQ(read_error(failed).code, ErrorCode::internal);
    other.get();
    const Tensor large = ones(world.device, {5 * kMiB / 4});
    EXPECT_EQ(read_error(large + 1).code, ErrorCode::out_of_memory);
    EXPECT_EQ((world.f32({1}) + 1).item(), 2);
  });
}

TEST_F(ThrowingMemory, OfAnUpdateEndsTheGroupAndKeepsTheOldValues) {
  run([&](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor momentum = world.f32({0, 0});
    const Tensor kept = parameter;  // so that the update needs memory
    const Tensor kept_momentum = momentum;
    for (const int output : {1, 2}) {
      Tensor gradient = world.f32({1, 1});
      world.device.sync();
      const std::int64_t before = world.device.memory().live_bytes;
      throws_at = output;
      UpdateGroup group(world.device);
      group.sgd(parameter, gradient, momentum, kMomentum);
      const Pending<void> done = group.commit();
      EXPECT_EQ(code_of(done.wait({.deadline = Deadline::in(1h)})), ErrorCode::internal);
      EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
      EXPECT_THAT(momentum.to_vector<float>(), Each(0));
      EXPECT_EQ(world.device.memory().live_bytes, before) << "what it had got came back";
    }
    UpdateGroup group(world.device);
    group.sgd(parameter, world.f32({1, 1}), momentum, kMomentum);
    group.commit().get();
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(0, 1)) << "the stream goes on";
    EXPECT_THAT(kept.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST_F(ThrowingMemory, OfAJointUpdateSaysNoToAll) {
  run([&](const World& world) {
    const auto decision = std::make_shared<UpdateDecision>();
    Tensor parameter = world.f32({1, 2});
    const Tensor kept = parameter;
    Tensor gradient = world.f32({1, 1});
    Tensor none;
    world.device.sync();
    throws_at = 1;
    UpdateGroup group(world.device);
    group.sgd(parameter, gradient, none, kPlain);
    ErrorRef heard;
    std::optional<ErrorCode> prepared;
    group.commit([&](ErrorRef error) { heard = std::move(error); },
                 {.decision = decision, .prepared = [&](const Result<PreparedUpdate>& update) {
                    prepared = update.has_value() ? ErrorCode::cancelled : update.error().code;
                  }});
    world.device.sync();
    EXPECT_EQ(prepared, ErrorCode::internal);
    EXPECT_FALSE(decision->commit());
    ASSERT_TRUE(heard);
    EXPECT_EQ(heard->code, ErrorCode::internal);
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST_F(ThrowingMemory, OfALoanReachesTheTaker) {
  run([&](const World& world) {
    const Tensor x = world.f32({1, 2});
    world.device.sync();
    throws_at = 1;
    std::optional<ErrorCode> heard;
    const Tensor lent = lend(
        x,
        [&](const Result<LentRegion>& region) { heard = region.error().code; },
        Deadline::never());
    EXPECT_EQ(read_error(lent).code, ErrorCode::internal);
    EXPECT_EQ(heard, ErrorCode::internal);
    EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST_F(ThrowingMemory, OfAReadReachesTheReader) {
  run([&](const World& world) {
    const Tensor x = slice(world.f32({1, 2, 3}), 0, {.start = 2, .stop = 0, .step = -1});
    world.device.sync();
    throws_at = 1;
    EXPECT_EQ(read_error(x).code, ErrorCode::internal);
    EXPECT_THAT(x.to_vector<float>(), ElementsAre(3, 2));
  });
}

TEST_F(ThrowingMemory, OfAViewsCopyFailsTheView) {
  run([&](const World& world) {
    const Tensor x = transpose(Tensor::from(world.device, {1.0F, 2.0F, 3.0F, 4.0F}, {2, 2}));
    world.device.sync();
    throws_at = 1;
    EXPECT_EQ(read_error(reshape(x, {4})).code, ErrorCode::internal);
    EXPECT_THAT(reshape(x, {4}).to_vector<float>(), ElementsAre(1, 3, 2, 4));
  });
}

/// Throws a type without what() when the program queries its statistics.
class OddStrategy final : public ForwardingStrategy {
 public:
  using ForwardingStrategy::ForwardingStrategy;
  [[nodiscard]] MemoryReport report() const override { throw 7; }
};

TEST(Throwing, WhatIsNoExceptionReachesTheOneWhoAskedAndTheDeviceGoesOn) {
  const std::vector<DeviceOptions> devices{
      {.name = "sim:0", .make_memory = [](PageProvider& pages, std::int64_t budget_bytes) {
         return std::make_unique<OddStrategy>(pages, budget_bytes);
       }}};
  stepped({.devices = devices}, [](const World& world) {
    try {
      static_cast<void>(world.device.memory());
      ADD_FAILURE() << "nobody was told";
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), ErrorCode::internal);
      EXPECT_THAT(error.error().text, HasSubstr("no std::exception"));
    }
    EXPECT_THAT(world.f32({1, 2}).to_vector<float>(), ElementsAre(1, 2));
  });
}

}  // namespace
}  // namespace hearth::testing
