// Fine print 8 of the design: the uses for which a tensor's new home waits, and the rights of its
// former users.
#include "tests/runtime/lent.hpp"

#include <array>
#include <optional>
#include <vector>

#include "runtime/client/device_endpoint.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::HeldStream;
using testing::live_tensors;
using testing::pass;
using testing::stepped;
using testing::World;

std::int64_t in_place(const World& world) {
  return world.device.memory().in_place_count;
}

TEST(Lifetime, AdoptWaitsForTheUsesOfOtherLanes) {
  stepped([](const World& world) {
    Stream reader(world.device);
    std::optional<HeldStream> held;
    Tensor x = world.f32({1, 2});
    Tensor seen;
    {
      const StreamScope scope(reader);
      held.emplace(world.device);
      seen = x + 10;
    }
    x.adopt();
    const Tensor changed = std::move(x) + 1;  // would change bytes in use by the other lane
    const Pending<std::vector<std::byte>> bytes = changed.read_bytes();
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(bytes, Deadline::in(1s)));
    held->unblock();
    EXPECT_THAT(changed.to_vector<float>(), ElementsAre(2, 3));
    EXPECT_THAT(seen.to_vector<float>(), ElementsAre(11, 12));
  });
}

TEST(Lifetime, AdoptWaitsUpToTheWaitLimit) {
  stepped({.wait_limit = 1h}, [](const World& world) {
    Stream producer(world.device);
    std::optional<HeldStream> held;
    Tensor x;
    {
      const StreamScope scope(producer);
      held.emplace(world.device);
      x = world.f32({1, 2});
    }
    x.adopt();
    const Tensor changed = std::move(x) + 1;
    const Pending<std::vector<std::byte>> bytes = changed.read_bytes();
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(bytes, Deadline::in(10min)));
    held->unblock();
    EXPECT_THAT(changed.to_vector<float>(), ElementsAre(2, 3));
    EXPECT_EQ(live_tensors(world.device), 2) << "the result and the lent tensor";
  });
}

// The reader's stream does not run in time. The adopter's stream does, and overwrites no bytes that
// are still to be read.
TEST(Lifetime, AnAdoptThatWaitedInVainNeitherHoldsItsLaneUpNorHurtsTheOthers) {
  stepped({.wait_limit = 5s}, [](const World& world) {
    Stream reader(world.device);
    std::optional<HeldStream> held;
    Tensor x = world.f32({1, 2});
    Tensor seen;
    {
      const StreamScope scope(reader);
      held.emplace(world.device);
      seen = x + 10;
    }
    x.adopt();
    const Tensor changed = std::move(x) + 1;
    const Pending<std::vector<std::byte>> bytes = changed.read_bytes();
    ASSERT_TRUE(detail::PendingAccess::is_ready_by(bytes, Deadline::in(6s)));
    const Tensor others = world.f32({7, 7}) * 2;  // gets no bytes that are still to be read
    EXPECT_THAT(others.to_vector<float>(), ElementsAre(14, 14));
    held->unblock();
    EXPECT_THAT(changed.to_vector<float>(), ElementsAre(2, 3));
    EXPECT_THAT(seen.to_vector<float>(), ElementsAre(11, 12));
    EXPECT_EQ(live_tensors(world.device), 4) << "seen, changed, others, and the lent tensor";
  });
}

TEST(Lifetime, AnAdoptedTensorThatIsNotMadeInTimeFailsItsUsersAndIsFreedOnceItIsMade) {
  for (const bool is_dropped : {false, true}) {
    stepped({.wait_limit = 5s}, [&](const World& world) {
      Stream producer(world.device);
      std::optional<HeldStream> held;
      Tensor x;
      {
        const StreamScope scope(producer);
        held.emplace(world.device);
        x = world.f32({1, 2});
      }
      x.adopt();
      if (is_dropped) {
        x = Tensor();
      } else {
        EXPECT_EQ(testing::read_error(std::move(x) + 1).op, "add");
      }
      pass(20s);
      EXPECT_EQ(world.f32({3}).item(), 3) << "the lane goes on";
      held->unblock();
      EXPECT_EQ(live_tensors(world.device), 1) << "the lent tensor";
      for (float i = 0; i < 300; ++i) {
        ASSERT_EQ(world.f32({i}).item(), i) << "its slot is used again";
      }
    });
  }
}

// The drop waits only for the adoption, which times out after it. The drop then waits for the uses
// for which the adoption waited.
TEST(Lifetime, ADropOfAThirdLaneWaitsForTheMakerOfATensorThatWasAdoptedInVain) {
  stepped({.wait_limit = 5s}, [](const World& world) {
    Stream producer(world.device);
    Stream adopter(world.device);
    std::optional<HeldStream> held;
    Tensor x;
    {
      const StreamScope scope(producer);
      held.emplace(world.device);
      x = world.f32({1, 2});
    }
    {
      const StreamScope scope(adopter);
      x.adopt();
    }
    x = Tensor();
    pass(20s);
    held->unblock();
    EXPECT_EQ(live_tensors(world.device), 1) << "the lent tensor";
    for (float i = 0; i < 300; ++i) {
      ASSERT_EQ(world.f32({i}).item(), i) << "its slot is used again";
    }
  });
}

// A lend waits for its loan, while the drop that it caused has nothing left to wait for.
TEST(Lifetime, ALentTensorThatWasAdoptedInVainGoesOnceItsGuestsAreDone) {
  stepped({.wait_limit = 5s}, [](const World& world) {
    Stream reader(world.device);
    std::optional<HeldStream> held;
    Tensor x = world.f32({1, 2});
    Tensor seen;
    {
      const StreamScope scope(reader);
      held.emplace(world.device);
      seen = x + 10;
    }
    x.adopt();
    pass(20s);
    held->unblock();
    EXPECT_THAT(seen.to_vector<float>(), ElementsAre(11, 12));
    testing::Lent loan = testing::lend_out(std::move(x));
    const LentRegion region = std::move(loan.region).get();
    EXPECT_EQ(live_tensors(world.device), 2) << "seen, and the tensor that held up the reader";
  });
}

TEST(Lifetime, AnAdoptedTensorOfManyUsersIsFreedWithoutFurtherWorkInItsNewLane) {
  stepped([](const World& world) {
    const std::int64_t before = live_tensors(world.device);
    for (int i = 0; i < 100; ++i) {
      static_cast<void>(world.f32({1}));  // the old home's numbers run ahead of the new one's
    }
    Tensor x = world.f32({1, 2});
    for (int user = 0; user < 6; ++user) {
      Stream stream(world.device);
      const StreamScope scope(stream);
      static_cast<void>((x + 1).to_vector<float>());
    }
    Stream adopter(world.device);
    {
      const StreamScope scope(adopter);
      x.adopt();
    }
    const auto dropper = world.spawn("dropper", [x = std::move(x)]() mutable { x = Tensor(); });
    dropper->join();
    EXPECT_EQ(live_tensors(world.device), before);
  });
}

TEST(Lifetime, AnAdoptedTensorIsReusedInPlace) {
  stepped([](const World& world) {
    std::optional<Tensor> handed;
    world
        .spawn("maker",
               [&] {
                 handed = world.f32({1, 2});
                 handed->publish();
               })
        ->join();
    handed->adopt();
    const std::int64_t before = in_place(world);
    const Tensor sum = std::move(*handed) + 1;
    EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 3));
    EXPECT_EQ(in_place(world), before + 1);
    EXPECT_EQ(world.device.statistics().foreign_uses, 0U);
  });
}

TEST(Lifetime, ATensorThatIsMovedAcrossThreadsBareIsAForeignUse) {
  stepped([](const World& world) {
    std::optional<Tensor> handed;
    world.spawn("maker", [&] { handed = world.f32({1, 2}); })->join();
    const std::int64_t before = in_place(world);
    const Tensor sum = std::move(*handed) + 1;
    EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 3));
    EXPECT_EQ(in_place(world), before);
    EXPECT_EQ(world.device.statistics().foreign_uses, 1U);
  });
}

TEST(Lifetime, ATensorWithCopiesStaysForeignWhenAdopted) {
  stepped([](const World& world) {
    std::optional<Tensor> handed;
    world.spawn("maker", [&] { handed = world.f32({1, 2}); })->join();
    std::optional<Tensor> copy = *handed;
    handed->adopt();
    copy.reset();
    const std::int64_t before = in_place(world);
    const Tensor sum = std::move(*handed) + 1;
    EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 3));
    EXPECT_EQ(in_place(world), before);
  });
}

}  // namespace
}  // namespace hearth
