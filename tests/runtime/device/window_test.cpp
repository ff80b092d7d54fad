// Devices that look ahead in their streams: the ends of a window, the delay of its ops, and that no
// thread waits for it.
#include <hearth/runtime/update_group.hpp>
#include <hearth/streams/fusion_window.hpp>

#include "tests/runtime/held_token.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::HeldStream;
using testing::HeldToken;
using testing::live_tensors;
using testing::pass;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

constexpr std::int64_t kMiB = 1 << 20;
/// f32 elements of one tensor; a budget of 8 MiB fits only one such tensor.
constexpr std::int64_t kLarge = 20 * kMiB / 16;

SteppedOptions looking_ahead(std::uint64_t seed = 0) {
  return {.devices = {{.name = "sim:0", .memory_budget_bytes = 8 * kMiB}, {.name = "sim:1"}},
          .seed = seed,
          .fusion = Fusion::single};
}

Tensor some(const World& world) {
  return zeros(world.device, {4}) + 1;
}

/// The actor visits its lanes, and lingers.
void look(const World& world) {
  world.device.endpoint().wake_if_free();  // it may sleep for a millisecond
  pass(20us);
}

struct Reason {
  WindowEnd why = WindowEnd::read;
  void (*program)(const World&) = nullptr;
  FaultPlan faults = {};
};

void read(const World& world) {
  EXPECT_THAT(some(world).to_vector<float>(), Each(1.0F));
}
void sync(const World& world) {
  const Tensor x = some(world);
  world.device.sync();
}
void lend_some(const World& world) {
  HeldStream held(world.device);
  held.unblock();
}
void publish(const World& world) {
  some(world).publish();
}
void upload(const World& world) {
  const Tensor x = some(world);
  const Tensor y = world.f32({2});
  EXPECT_EQ(y.item(), 2);
}
void adopt(const World& world) {
  Tensor x;
  {
    Stream other(world.device);
    const StreamScope scope(other);
    x = some(world);
  }
  const Tensor y = some(world);
  x.adopt();
  EXPECT_THAT(x.to_vector<float>(), Each(1.0F));
}
void update(const World& world) {
  Tensor parameter = world.f32({1, 2, 3, 4});
  Tensor none;
  const Tensor gradient = some(world);
  UpdateGroup group(world.device);
  group.sgd(parameter, gradient, none, {.learning_rate = 1});
  group.commit().get();
  EXPECT_EQ(parameter.to_vector<float>()[3], 3);
}
void limit(const World& world) {
  Stream stream(world.device);
  const StreamScope scope(stream);
  const Tensor x = some(world);
  stream.set_limits({.deadline = Deadline::in(1h)});
  EXPECT_THAT((x + some(world)).to_vector<float>(), Each(2.0F));
}
void fill_up(const World& world) {
  Tensor x = some(world);
  for (std::uint64_t i = 0; i < FusionWindow::kMostOps; ++i) {
    x = x + 1;
  }
  EXPECT_THAT(x.to_vector<float>(), Each(1.0F + FusionWindow::kMostOps));
}
void use_elsewhere(const World& world) {
  const Tensor x = some(world);
  look(world);
  Stream other(world.device);
  const StreamScope scope(other);
  EXPECT_THAT((x * 2).to_vector<float>(), Each(2.0F));
}
void adopt_elsewhere(const World& world) {
  Tensor x;
  {
    Stream maker(world.device);
    const StreamScope scope(maker);
    x = some(world);
    world.device.sync();
  }
  const Tensor y = x + 1;
  look(world);
  Stream other(world.device);
  const StreamScope scope(other);
  x.adopt();
  EXPECT_THAT(x.to_vector<float>(), Each(1.0F));
}
void drop_elsewhere(const World& world) {
  Tensor x = some(world);
  world.device.sync();
  Stream other(world.device);
  Tensor y;
  {
    const StreamScope scope(other);
    y = x + 1;
  }
  look(world);
  x = Tensor();
  const StreamScope scope(other);
  EXPECT_THAT(y.to_vector<float>(), Each(2.0F));
}
void wait_for_another(const World& world) {
  Stream other(world.device);
  HeldStream held(world.device);
  const Tensor late = some(world);
  Tensor sum;
  {
    const StreamScope scope(other);
    sum = some(world) + late;
  }
  look(world);
  held.unblock();
  EXPECT_THAT(sum.to_vector<float>(), Each(2.0F));
}
void fail(const World& world) {
  const Tensor bad = zeros(world.device, {4});
  EXPECT_EQ(testing::read_error(bad).code, ErrorCode::kernel_failed);
  const Tensor good = ones(world.device, {4});
  const Tensor sum = good + bad;
  EXPECT_EQ(testing::read_error(sum).code, ErrorCode::kernel_failed);
  EXPECT_THAT(good.to_vector<float>(), Each(1.0F));
}
void run_short(const World& world) {
  Tensor large = ones(world.device, {kLarge});
  world.device.sync();
  const Tensor small = some(world);
  large = Tensor();  // waits in the window
  look(world);
  Stream other(world.device);
  const StreamScope scope(other);
  EXPECT_EQ(sum(full(world.device, {kLarge}, 2.0)).item(), 2.0 * kLarge);
}
void pause(const World& world) {
  const Tensor x = some(world);
  pass(1ms);
}
void ask(const World& world) {
  const Tensor x = some(world);
  look(world);
  EXPECT_EQ(world.device.memory().live_tensor_count, 1);
}
void leave(const World& world) {
  Stream stream(world.device);
  const StreamScope scope(stream);
  const Tensor x = some(world);
}

TEST(Window, EveryReasonEndsOneAndIsCounted) {
  const std::array<Reason, kWindowEndCount> reasons = {{
      {WindowEnd::read, read},
      {WindowEnd::sync, sync},
      {WindowEnd::lend, lend_some},
      {WindowEnd::publish, publish},
      {WindowEnd::upload, upload},
      {WindowEnd::adopt, adopt},
      {WindowEnd::group, update},
      {WindowEnd::limit, limit},
      {WindowEnd::full, fill_up},
      {WindowEnd::foreign_use, use_elsewhere},
      {WindowEnd::watched, adopt_elsewhere},
      {WindowEnd::wait, wait_for_another},
      {WindowEnd::failure, fail, {.failing_submits = {1}}},
      {WindowEnd::shortage, run_short},
      {WindowEnd::idle, pause},
      {WindowEnd::duty, ask},
      {WindowEnd::stream_end, leave},
  }};
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const Reason& reason = reasons[i];
    ASSERT_EQ(static_cast<std::size_t>(reason.why), i) << "one for each, in their order";
    SteppedOptions options = looking_ahead();
    options.faults = {{"sim:0", reason.faults}};
    stepped(options, [&](const World& world) {
      reason.program(world);
      pass(10ms);
      const DeviceStatistics done = world.device.statistics();
      EXPECT_GE(done.ends(reason.why), 1U) << name_of(reason.why);
      EXPECT_EQ(live_tensors(world.device), 0) << name_of(reason.why);
    });
  }
}

TEST(Window, ThereIsNoneWhereTheDeviceDoesNotLookAhead) {
  SteppedOptions options = looking_ahead();
  options.fusion = Fusion::off;
  stepped(options, [](const World& world) {
    read(world);
    pause(world);
    EXPECT_THAT(world.device.statistics().window_ends, Each(0U));
  });
}

// Long enough that a steady producer is never cut off, and no longer.
TEST(Window, AnOpIsHeldUpForAFifthOfAMillisecondAtMost) {
  stepped(looking_ahead(), [](const World& world) {
    const Tensor x = some(world);
    look(world);
    pass(150us);
    {
      const HeldToken token(world.device);
      EXPECT_EQ(world.device.endpoint().lanes.open_lanes().front()->consumed(), 0U);
    }
    pass(150us);
    const HeldToken token(world.device);
    EXPECT_EQ(world.device.endpoint().lanes.open_lanes().front()->consumed(),
              world.device.endpoint().lanes.open_lanes().front()->pushed_seen());
  });
}

// Ends that depend on program order do not depend on time.
TEST(Window, ACutDoesNotMoveWhereTheNextOneIsFull) {
  for (const bool pauses : {false, true}) {
    stepped(looking_ahead(), [&](const World& world) {
      Tensor x = zeros(world.device, {4});
      world.device.sync();
      const DeviceStatistics before = world.device.statistics();
      const auto add = [&](std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
          x = x + 1;
        }
      };
      add(40);
      if (pauses) {
        pass(1ms);
      }
      add(23);
      look(world);
      add(2);
      x.read_bytes().get();
      const DeviceStatistics after = world.device.statistics();
      EXPECT_EQ(after.ends(WindowEnd::full) - before.ends(WindowEnd::full), 1U);
      EXPECT_EQ(after.ends(WindowEnd::idle) - before.ends(WindowEnd::idle), pauses ? 1U : 0U);
      EXPECT_EQ(after.whole_windows - before.whole_windows, pauses ? 1U : 2U)
          << "the one that was cut is no whole one, the next is";
    });
  }
}

TEST(Window, NoneIsCutByTimeWhereTheRuntimeIsDeterministic) {
  std::vector<DeviceStatistics> runs;
  for (const bool pauses : {false, true}) {
    SteppedOptions options = looking_ahead();
    options.deterministic = true;
    stepped(options, [&](const World& world) {
      Tensor x = zeros(world.device, {4}, DType::f16);
      for (int i = 0; i < 200; ++i) {
        x = x * 1.125 + 0.5;
        if (pauses && i % 7 == 0) {
          pass(1ms);
        }
      }
      x.read_bytes().get();
      Tensor unread = x + 1;
      pass(10ms);
      runs.push_back(world.device.statistics());
      EXPECT_EQ(runs.back().ends(WindowEnd::idle), 0U);
      unread = unread * 2;  // the runtime closes with an open window
    });
  }
  EXPECT_EQ(runs[0].window_ends, runs[1].window_ends);
  EXPECT_EQ(runs[0].fused_kernels, runs[1].fused_kernels);
  EXPECT_EQ(runs[0].kernels, runs[1].kernels);
}

// A window holds at most half of the ring, and a quarter of the bytes for attributes.
TEST(Window, AProducerWithoutRoomDoesNotWaitForALinger) {
  for (const std::int64_t parts : {1, 300}) {
    stepped(looking_ahead(), [&](const World& world) {
      const std::vector<Tensor> inputs(static_cast<std::size_t>(parts), ones(world.device, {1}));
      world.device.sync();
      const detail::TimePoint start = testing::now();
      std::vector<Tensor> results;
      const int count = parts == 1 ? 1000 : 40;  // more than there is room for
      results.reserve(static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) {
        results.push_back(parts == 1 ? inputs.front() + i : concat(inputs, 0));
      }
      EXPECT_LT(testing::now() - start, 200us);
      EXPECT_EQ(results.back().element_count(), parts);
    });
  }
}

// Drops count too.
TEST(Window, RecordsFillIt) {
  stepped(looking_ahead(), [](const World& world) {
    std::vector<Tensor> many(200);
    for (Tensor& each : many) {
      each = ones(world.device, {1});
    }
    world.device.sync();
    const DeviceStatistics before = world.device.statistics();
    Tensor x;
    {
      const HeldToken token(world.device);
      x = some(world);
      many.clear();
    }
    EXPECT_THAT(x.to_vector<float>(), Each(1.0F));
    EXPECT_EQ(world.device.statistics().ends(WindowEnd::full) - before.ends(WindowEnd::full), 1U);
  });
}

// No stream is delayed by another's window: a needed op is cut free at once.
TEST(Window, NobodyWaitsForALinger) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    stepped(looking_ahead(seed), [](const World& world) {
      const Tensor shared = some(world);
      const auto user = world.spawn("user", [&] {
        const detail::TimePoint start = testing::now();
        for (int i = 0; i < 20; ++i) {
          EXPECT_THAT((shared + i).to_vector<float>(), Each(1.0F + static_cast<float>(i)));
        }
        EXPECT_LT(testing::now() - start, 100us);
      });
      user->join();
    });
  }
}

// The waiter came first.
TEST(Window, AnOpThatSomebodyWaitsForIsNotHeldUp) {
  stepped(looking_ahead(), [](const World& world) {
    Stream other(world.device);
    HeldStream held(world.device);
    const Tensor late = some(world);
    Pending<std::vector<std::byte>> read;
    {
      const StreamScope scope(other);
      read = (late + 1).read_bytes();
    }
    look(world);
    const detail::TimePoint start = testing::now();
    held.unblock();
    read.get();
    EXPECT_LT(testing::now() - start, 100us);
    EXPECT_EQ(world.device.statistics().ends(WindowEnd::watched), 1U);
  });
}

// A stream that waits for one of many records.
TEST(Window, OnlyTheRecordThatIsWatchedCutsAWindow) {
  stepped(looking_ahead(), [](const World& world) {
    Tensor x;
    {
      Stream maker(world.device);
      const StreamScope scope(maker);
      x = some(world);
      world.device.sync();
    }
    Stream other(world.device, {.priority = Priority::latency});  // has its turn first
    Tensor y = some(world);
    world.device.sync();
    const DeviceStatistics before = world.device.statistics();
    {
      const HeldToken token(world.device);
      for (int i = 0; i < 10; ++i) {
        y = y + 1;
      }
      y = y + x;
      for (int i = 0; i < 10; ++i) {
        y = y + 1;
      }
      const StreamScope scope(other);
      x.adopt();
    }
    EXPECT_THAT(y.to_vector<float>(), Each(22.0F));
    EXPECT_EQ(world.device.statistics().ends(WindowEnd::watched) - before.ends(WindowEnd::watched),
              1U);
  });
}

TEST(Window, ADropInAnotherStreamCutsNone) {
  stepped(looking_ahead(), [](const World& world) {
    drop_elsewhere(world);
    EXPECT_EQ(live_tensors(world.device), 0);
    EXPECT_EQ(world.device.statistics().ends(WindowEnd::watched), 0U);
  });
}

TEST(Window, AShutdownWaitsForNone) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::optional<Tensor> left;
    const detail::TimePoint start = testing::now();
    stepped(looking_ahead(seed), [&](const World& world) { left = some(world); });
    EXPECT_LT(testing::now() - start, 1s);
  }
}

// Ops in the window come after a restart too, and carry the loss.
TEST(Window, ARestartEndsAll) {
  stepped(looking_ahead(), [](const World& world) {
    const Tensor x = some(world);
    look(world);
    world.device.restart();
    EXPECT_EQ(testing::read_error(x).code, ErrorCode::device_lost);
    EXPECT_THAT(some(world).to_vector<float>(), Each(1.0F));
  });
}

TEST(Window, AReportSaysWhatWasLookedAt) {
  stepped(looking_ahead(), [](const World& world) {
    const Tensor x = some(world);
    look(world);
    Promise<std::string> answer;
    Pending<std::string> text = answer.pending();
    world.device.endpoint().post(DescribeWaits{.answer = std::move(answer)});
    EXPECT_THAT(std::move(text).get(), HasSubstr("of them looked at"));
  });
}

}  // namespace
}  // namespace hearth
