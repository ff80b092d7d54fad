#include "stepped_runtime.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/fiber_mark.hpp>

#include "tests/support/forwarding_backend.hpp"
#include "tests/support/sanitizers.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HeldStream;
using testing::stepped;
using testing::World;

TEST(Stream, AScopeMakesItTheThreadsCurrentOneAndScopesNest) {
  stepped([](const World& world) {
    Stream first(world.device);
    Stream second(world.device);
    EXPECT_NE(first.id(), second.id());
    const auto stream_of_error = [&] {
      const Tensor bad = full(world.device, {1}, 7, DType::i64);
      const Tensor row = zeros(world.device, {1, 2});
      return testing::read_error(cross_entropy_per_row(row, bad)).stream;
    };
    const std::uint64_t own = stream_of_error();
    {
      const StreamScope outer(first);
      EXPECT_EQ(stream_of_error(), first.id());
      {
        const StreamScope inner(second);
        EXPECT_EQ(stream_of_error(), second.id());
      }
      EXPECT_EQ(stream_of_error(), first.id());
    }
    EXPECT_EQ(stream_of_error(), own);
  });
}

TEST(Stream, TwoThreadsMayNotUseItAtOnce) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const auto use = [&] { const StreamScope scope(stream); };
    {
      const StreamScope scope(stream);
      use();  // the same thread may use it
      world
          .spawn("other",
                 [&] {
                   try {
                     use();
                     ADD_FAILURE() << "two threads used one stream";
                   } catch (const Exception& error) {
                     EXPECT_EQ(error.code(), ErrorCode::stream_misuse);
                     EXPECT_THAT(error.what(), HasSubstr("in use by another thread"));
                   }
                 })
          ->join();
    }
    world.spawn("other", [&] { EXPECT_NO_THROW(use()); })->join();
  });
}

TEST(Stream, MayBeMovedToAnotherThread) {
  stepped([](const World& world) {
    Stream stream(world.device);
    Tensor x;
    {
      const StreamScope scope(stream);
      x = world.f32({1});
    }
    world
        .spawn("other",
               [&world, &x, moved = std::move(stream)]() mutable {
                 const StreamScope scope(moved);
                 x = std::move(x) + 1;
                 EXPECT_EQ(x.item(), 2);
                 EXPECT_EQ(world.device.statistics().foreign_uses, 0U);
               })
        ->join();
  });
}

TEST(Stream, AMovedFromStreamIsRefused) {
  stepped([](const World& world) {
    Stream stream(world.device);
    const Stream moved(std::move(stream));
    EXPECT_THROW(const StreamScope scope(stream),
                 ArgumentError);  // NOLINT(bugprone-use-after-move)
  });
}

TEST(Stream, WhatAnEndedStreamSubmittedStillRuns) {
  stepped([](const World& world) {
    Tensor x;
    {
      Stream stream(world.device);
      const StreamScope scope(stream);
      x = world.f32({0});
      for (int i = 0; i < 100; ++i) {
        x = std::move(x) + 1;
      }
    }
    EXPECT_EQ(x.item(), 100);
  });
}

/// A sim that records the size of each op's result.
class NotingBackend final : public testing::ForwardingBackend {
 public:
  explicit NotingBackend(std::vector<std::int64_t>& sizes)
      : ForwardingBackend(std::make_unique<sim::SimBackend>(sim::SimOptions{.name = "sim:0"})),
        sizes_(sizes) {}
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    sizes_.push_back(launch.call.outputs[0].element_count());
    return ForwardingBackend::submit_one(launch, after);
  }

 private:
  std::vector<std::int64_t>& sizes_;
};

// The ops are independent, and all are queued before the first runs.
TEST(Stream, OpsOfOneStreamRunInProgramOrder) {
  std::vector<std::int64_t> sizes;
  const detail::BackendFactory factory{
      .make = [&](const BackendRequest&) { return std::make_unique<NotingBackend>(sizes); }};
  ManualExecutor executor(1, {.max_steps = 1'000'000});
  executor.run([&] {
    const Runtime runtime({.devices = {{.name = "sim:0"}}, .executor = &executor}, factory);
    const Device device = runtime.device("sim:0");
    std::vector<std::int64_t> wanted;
    std::vector<Tensor> results;
    HeldStream held(device);
    sizes.clear();
    for (std::int64_t size = 1; size <= 40; ++size) {
      wanted.push_back(7 * size % 41);  // each size once, in no order
      results.push_back(zeros(device, {wanted.back()}));
    }
    EXPECT_THAT(sizes, ::testing::IsEmpty());
    held.unblock();
    device.sync();
    EXPECT_EQ(sizes, wanted);
  });
}

TEST(Stream, AReadIsAnsweredBeforeWhatItsStreamWasGivenLater) {
  stepped([](const World& world) {
    const Tensor first = world.f32({1}) + 1;
    const Pending<std::vector<std::byte>> early = first.read_bytes();
    const Tensor second = world.f32({1}) + 1;
    EXPECT_EQ(second.item(), 2);
    EXPECT_TRUE(early.is_ready());
  });
}

TEST(Stream, ALoanHoldsUpItsOwnStreamOnly) {
  stepped([](const World& world) {
    Stream stuck(world.device);
    std::optional<HeldStream> held;
    Tensor behind;
    {
      const StreamScope scope(stuck);
      held.emplace(world.device);
      behind = world.f32({1});
    }
    EXPECT_EQ(world.f32({2}).item(), 2);
    held->unblock();
    EXPECT_EQ(behind.item(), 1);
  });
}

void fill_until_refused(const World& world, const std::function<Tensor()>& push) {
  HeldStream held(world.device);
  const detail::TimePoint start = testing::now();
  std::vector<Tensor> kept;
  try {
    while (kept.size() < 10'000) {
      kept.push_back(push());
    }
    ADD_FAILURE() << "the lane took everything";
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("stayed full"));
    EXPECT_EQ(testing::now() - start, kDefaultWait);
  }
  held.unblock();
  EXPECT_EQ(push().rank(), 1) << "the stream goes on";
  world.device.sync();
}

TEST(Stream, AFullLaneMakesItsUserWaitUpToTheDeadline) {
  stepped([](const World& world) {
    fill_until_refused(world, [&] { return zeros(world.device, {1}); });
  });
}

// Thirty operands do not fit into a record: their overflow fills long before the ring.
TEST(Stream, AFullOverflowRingMakesItsUserWaitUpToTheDeadline) {
  stepped([](const World& world) {
    const std::vector<Tensor> parts(60, world.f32({1}));
    fill_until_refused(world, [&] { return concat(parts, 0); });
  });
}

TEST(Stream, BackPressureLetsAllThrough) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    stepped({.seed = seed}, [](const World& world) {
      const std::vector<Tensor> parts(60, world.f32({1}));
      Tensor total = zeros(world.device, {1});
      for (int i = 0; i < 400; ++i) {
        total = std::move(total) + sum(concat(parts, 0), {0}, {.keep_dims = true});
      }
      EXPECT_EQ(total.item(), 60 * 400);
    });
  }
}

// For a separate process: limits its address space to hardly more than it uses.
[[noreturn]] void open_streams_without_room() {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  std::vector<Stream> streams;
  streams.reserve(1000);
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t limit = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (1U << 20U);
  const rlimit room{.rlim_cur = limit, .rlim_max = limit};
  setrlimit(RLIMIT_AS, &room);
  try {
    while (streams.size() < 1000) {
      streams.push_back(Stream(device));
    }
  } catch (const OutOfMemory& error) {
    std::fputs(error.what(), stderr);
    std::_Exit(0);
  }
  std::_Exit(1);
}

TEST(StreamDeathTest, AStreamThatFindsNoMemoryIsTheLibrarysOwnError) {
  if (testing::kSanitizerTakesAddresses) {
    GTEST_SKIP() << "a sanitizer needs the address space";
  }
  EXPECT_EXIT(open_streams_without_room(),
              ::testing::ExitedWithCode(0),
              "Stream: the program has no memory for a stream of cpu:0.*stream_test.cpp");
}

// A fiber of a server that awaited here would let other fibers enter the scope.
TEST(Stream, AFiberSwitchesNoScopeOfItsThread) {
  const Runtime runtime;
  const Device device = runtime.device();
  const detail::FiberMark mark;
  EXPECT_NO_THROW(detail::require_no_thread_scope());
  {
    Stream stream(device);
    const StreamScope scope(stream);
    EXPECT_THROW(detail::require_no_thread_scope(), ArgumentError);
  }
  EXPECT_NO_THROW(detail::require_no_thread_scope());
  static_cast<void>(grad(
      [](const std::vector<Tensor>& in) {
        EXPECT_THROW(detail::require_no_thread_scope(), ArgumentError);
        return sum(in[0]);
      },
      {full(device, {2}, 1.0)}));
  EXPECT_NO_THROW(detail::require_no_thread_scope());
}

}  // namespace
}  // namespace hearth
