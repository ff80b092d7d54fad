// Fine print 4 to 8 of the design: uses, drops, names and homes of tensors across lanes.
#include "tests/runtime/stepped_runtime.hpp"

#include <array>
#include <cstring>
#include <functional>
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

constexpr std::uint64_t kSeeds = 30;

// Fine print 4.
TEST(Lifetime, AUseThatArrivesBeforeItsCreationWaitsForIt) {
  stepped([](const World& world) {
    Stream producer(world.device);
    std::optional<HeldStream> held;
    Tensor x;
    {
      const StreamScope scope(producer);
      held.emplace(world.device);
      x = world.f32({1, 2});
    }
    const Tensor sum = x + 1;
    const Pending<std::vector<std::byte>> bytes = sum.read_bytes();
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(bytes, Deadline::in(1s)));
    held->unblock();
    EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 3));
  });
}

TEST(Lifetime, TensorsMadeOnOneThreadAreUsedOnAnotherAtOnce) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    stepped({.seed = seed}, [seed](const World& world) {
      std::optional<Tensor> handed;
      const auto producer = world.spawn("maker", [&] { handed = world.f32({1, 2}) * 3; });
      while (!handed) {
        detail::schedule_point();
      }
      const Tensor mine = std::move(*handed) + 1;
      EXPECT_THAT(mine.to_vector<float>(), ElementsAre(4, 7)) << "seed " << seed;
      producer->join();
    });
  }
}

// Fine print 5.
void drop_while_others_use(int users, std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << users << " users, seed " << seed);
  stepped({.seed = seed}, [users](const World& world) {
    const std::int64_t before = live_tensors(world.device);
    std::vector<std::unique_ptr<detail::Joinable>> threads;
    std::vector<std::vector<float>> results(static_cast<std::size_t>(users));
    {
      const Tensor shared = world.f32({1, 2, 3});
      for (int user = 0; user < users; ++user) {
        threads.push_back(world.spawn("user", [&results, user, mine = shared]() mutable {
          Tensor sum = mine + user;
          mine = Tensor();
          for (int i = 0; i < 3; ++i) {
            sum = std::move(sum) + 1;  // reuses the bytes that an early drop would have freed
          }
          results[static_cast<std::size_t>(user)] = sum.to_vector<float>();
        }));
      }
    }
    for (const auto& thread : threads) {
      thread->join();
    }
    for (int user = 0; user < users; ++user) {
      const auto base = static_cast<float>(user + 3);
      EXPECT_THAT(results[static_cast<std::size_t>(user)],
                  ElementsAre(base + 1, base + 2, base + 3));
    }
    EXPECT_EQ(live_tensors(world.device), before);
  });
}

TEST(Lifetime, ADropNeverOvertakesAUseOnFourLanes) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    drop_while_others_use(4, seed);
  }
}

TEST(Lifetime, MoreUsersThanATensorRemembersKeepItAliveToo) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    drop_while_others_use(9, seed);
  }
}

// Reads of other streams are uses too, and the dropping stream does not know them.
void drop_while_another_stream_reads(
    const std::function<Pending<std::vector<std::byte>>(const Tensor&)>& read) {
  stepped([&](const World& world) {
    Stream slow(world.device);
    std::optional<HeldStream> held;
    Tensor x = world.f32({1, 2, 3, 4});
    world.device.sync();
    Pending<std::vector<std::byte>> bytes;
    {
      const StreamScope scope(slow);
      held.emplace(world.device);
      bytes = read(x);
    }
    x = Tensor();
    world.device.sync();
    const Tensor other = world.f32({5, 6, 7, 8});  // takes the bytes if they are free
    world.device.sync();
    held->unblock();
    const std::vector<std::byte> got = bytes.get({.deadline = Deadline::in(1h)});
    std::array<float, 4> values{};
    ASSERT_EQ(got.size(), sizeof(values));
    std::memcpy(values.data(), got.data(), sizeof(values));
    EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
  });
}

TEST(Lifetime, ADropNeverOvertakesAReadOnAnotherStream) {
  drop_while_another_stream_reads([](const Tensor& x) { return x.read_bytes(); });
}

TEST(Lifetime, ADropNeverOvertakesAReadOfAResultOnAnotherStream) {
  drop_while_another_stream_reads([](const Tensor& x) { return (x * 1).read_bytes(); });
}

TEST(Lifetime, DropsThatWaitForALaneAreLookedAtOnceATurn) {
  stepped([](const World& world) {
    const std::int64_t before = live_tensors(world.device);
    Stream slow(world.device);
    std::optional<HeldStream> held;
    std::vector<Tensor> shared;
    for (float i = 0; i < 20; ++i) {
      shared.push_back(world.f32({i}));
    }
    {
      const StreamScope scope(slow);
      held.emplace(world.device);
      Tensor x = world.f32({0});
      for (int i = 0; i < 180; ++i) {
        x = std::move(x) + 1;
      }
      for (const Tensor& tensor : shared) {
        x = std::move(x) + tensor;
      }
    }
    shared.clear();  // twenty drops here wait for the other lane, through a dozen of its turns
    world.device.sync();
    EXPECT_GT(live_tensors(world.device), before + 19);
    held->unblock();
    held->tensor() = Tensor();
    pass(10ms);
    EXPECT_EQ(live_tensors(world.device), before);
  });
}

TEST(Lifetime, AThreadsExitLeavesItsQueueToTheActorAndEndsItsLane) {
  stepped([](const World& world) {
    std::optional<Tensor> result;
    world
        .spawn("short",
               [&] {
                 Tensor x = world.f32({0});
                 for (int i = 0; i < 200; ++i) {
                   x = std::move(x) + 1;
                 }
                 result = std::move(x);
               })
        ->join();
    EXPECT_EQ(result->item(), 200);
    EXPECT_EQ(world.device.endpoint().lanes.open_lanes().size(), 1U) << "only main's lane is left";
  });
}

TEST(Lifetime, AUseInAnEndedLaneCountsAsDone) {
  stepped([](const World& world) {
    const std::int64_t before = live_tensors(world.device);
    Tensor x = world.f32({1});
    world.spawn("short", [&] { EXPECT_EQ((x + 1).item(), 2); })->join();
    pass(10ms);
    x = Tensor();
    EXPECT_EQ(live_tensors(world.device), before);
  });
}

// Fine print 6.
TEST(Lifetime, ADropThatFindsItsLaneFullNeitherWaitsNorIsLost) {
  stepped([](const World& world) {
    const std::int64_t before = live_tensors(world.device);
    {
      HeldStream held(world.device);
      std::vector<Tensor> tensors;
      for (std::uint64_t i = 0; i < Lane::kCapacity; ++i) {
        tensors.push_back(full(world.device, {4}, static_cast<double>(i)));
      }
      const detail::TimePoint start = testing::now();
      tensors.clear();
      EXPECT_EQ(testing::now(), start);
      held.unblock();
      EXPECT_EQ(world.f32({7}).item(), 7) << "the drops go out before the next push";
    }
    world.device.sync();
    EXPECT_EQ(live_tensors(world.device), before);
  });
}

TEST(Lifetime, DropsThatFoundNoRoomOutliveTheirThread) {
  stepped([](const World& world) {
    const std::int64_t before = live_tensors(world.device);
    std::optional<HeldStream> held;
    world
        .spawn("short",
               [&] {
                 held.emplace(world.device);
                 std::vector<Tensor> tensors;
                 for (std::uint64_t i = 0; i < Lane::kCapacity; ++i) {
                   tensors.push_back(full(world.device, {4}, static_cast<double>(i)));
                 }
               })
        ->join();
    held->unblock();
    held.reset();
    pass(10ms);
    EXPECT_EQ(live_tensors(world.device), before);
  });
}

TEST(Lifetime, AThreadWithoutALaneMayDropATensor) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    stepped({.seed = seed}, [](const World& world) {
      const std::int64_t before = live_tensors(world.device);
      Tensor x = world.f32({1});
      const Tensor sum = x + 1;
      const auto dropper = world.spawn("dropper", [x = std::move(x)]() mutable { x = Tensor(); });
      EXPECT_EQ(sum.item(), 2);
      dropper->join();
      EXPECT_EQ(live_tensors(world.device), before + 1);
    });
  }
}

TEST(Lifetime, SlotsAreUsedAgain) {
  stepped([](const World& world) {
    for (int i = 0; i < 5000; ++i) {
      static_cast<void>(full(world.device, {1}, i));
    }
    EXPECT_LE(world.device.endpoint().slots.block_count(), 3U);
  });
}

// Fine print 7.
std::int64_t in_place(const World& world) {
  return world.device.memory().in_place_count;
}

TEST(Lifetime, TheLastUseOfATensorIsReusedInPlace) {
  stepped([](const World& world) {
    Tensor x = world.f32({1, 2});
    const std::int64_t before = in_place(world);
    const Tensor sum = std::move(x) + 1;
    EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 3));
    EXPECT_EQ(in_place(world), before + 1);
  });
}

TEST(Lifetime, AViewKeepsItsTensorFromBeingReusedInPlace) {
  stepped([](const World& world) {
    Tensor x = world.f32({1, 2});
    const Tensor view = slice(x, 0, {.start = 1});
    const std::int64_t before = in_place(world);
    const Tensor sum = std::move(x) + 1;
    EXPECT_THAT(view.to_vector<float>(), ElementsAre(2));
    EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 3));
    EXPECT_EQ(in_place(world), before);
  });
}

TEST(Lifetime, AViewThatIsMovedInIsNotReusedWhileItsTensorLives) {
  stepped([](const World& world) {
    const Tensor x = world.f32({1, 2});
    const Tensor sum = reshape(x, {2, 1}) + 1;
    EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 3));
    EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST(Lifetime, ACopyKeepsItsTensorFromBeingReusedInPlace) {
  stepped([](const World& world) {
    Tensor x = world.f32({1, 2});
    const Tensor copy = x;
    const std::int64_t before = in_place(world);
    const Tensor sum = std::move(x) + 1;
    EXPECT_THAT(copy.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_EQ(in_place(world), before);
  });
}

TEST(Lifetime, OneTensorOnBothSidesIsNotReusedTooEarly) {
  stepped([](const World& world) {
    Tensor x = world.f32({1, 2});
    const Tensor product = std::move(x) * x;  // NOLINT(bugprone-use-after-move): that is the point
    EXPECT_THAT(product.to_vector<float>(), ElementsAre(1, 4));
  });
}

TEST(Lifetime, APoisonedOpStillConsumesItsOperands) {
  stepped({.faults = {{"sim:0", {.failing_submits = {1}}}}, .fusion = Fusion::off},
          [](const World& world) {
            const std::int64_t before = live_tensors(world.device);
            {
              Tensor x = world.f32({1});
              Tensor bad = std::move(x) + 1;
              Tensor worse = std::move(bad) * 2;
              const Tensor view = reshape(std::move(worse), {1, 1});
              EXPECT_EQ(testing::read_error(view).code, ErrorCode::kernel_failed);
              EXPECT_EQ(live_tensors(world.device), before + 1);
            }
            EXPECT_EQ(live_tensors(world.device), before);
            EXPECT_EQ(world.device.memory().live_bytes, 0);
          });
}

// The result would begin where the block does, and the slice further on.
TEST(Lifetime, APartOfATensorIsNotOverwrittenByAResultThatBeginsBeforeIt) {
  stepped([](const World& world) {
    Tensor x = world.f32({1, 2, 3, 4, 5, 6});
    Tensor part = slice(std::move(x), 0, {.start = 2, .stop = 6});
    const std::int64_t before = in_place(world);
    const Tensor doubled = std::move(part) * 2;
    EXPECT_THAT(doubled.to_vector<float>(), ElementsAre(6, 8, 10, 12));
    EXPECT_EQ(in_place(world), before);
  });
}

}  // namespace
}  // namespace hearth
