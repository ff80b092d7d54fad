// A device whose work is in flight when submit returns: values, late failures, hangs and losses in
// flight, and the waits for them.
#include <set>
#include <string>

#include <hearth/runtime/update_group.hpp>

#include "tests/runtime/held_token.hpp"
#include "tests/runtime/lent.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::code_of;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::lend_out;
using testing::Lent;
using ::testing::Not;
using testing::read_error;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

SteppedOptions asynchronous(FaultPlan faults = {}, std::uint64_t seed = 0) {
  const SimSchedule schedule{.queues = 2, .reorder_seed = seed, .cost_seed = seed};
  return {.devices = {{.name = "sim:0", .faults = std::move(faults), .sim_schedule = schedule},
                      {.name = "sim:1", .sim_schedule = schedule},
                      {.name = "reference:0"}},
          .seed = seed,
          .wait_limit = 2s};
}

/// Class 7 of 3 does not exist.
Tensor bad_loss(const World& world, const Tensor& logits) {
  return cross_entropy(logits, Tensor::from<std::int32_t>(world.device, {0, 7}, {2}));
}

TEST(AsyncDevice, ValuesAreThoseOfTheOpsInProgramOrder) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    stepped(asynchronous({}, seed), [](const World& world) {
      Tensor x = world.f32({1, 2, 3, 4});
      for (int i = 0; i < 20; ++i) {
        x = reshape(transpose(reshape(x + 1, {2, 2}), 0, 1), {4}) * 0.5;
      }
      const Tensor there = x.to(world.runtime.device("reference:0"));
      const Tensor part = slice(x, 0, {.start = 3, .stop = 0, .step = -1});
      const std::vector<float> values = x.to_vector<float>();
      EXPECT_EQ(there.to_vector<float>(), values);
      EXPECT_THAT(part.to_vector<float>(), ElementsAre(values[3], values[2], values[1]));
      EXPECT_NEAR(values[0], 1.0F, 1e-5F);
      x = Tensor();
    });
  }
}

TEST(AsyncDevice, HostBytesAndMemoryAreFreeOnceTheDeviceIsDoneWithThem) {
  stepped(asynchronous(), [](const World& world) {
    for (int i = 0; i < 300; ++i) {
      const Tensor x = world.f32({1, 2, 3}) + world.f32({3, 2, 1});
      EXPECT_THAT(x.to_vector<float>(), Each(4.0F));
    }
    world.device.sync();
    EXPECT_EQ(world.device.memory().live_bytes, 0);
    EXPECT_LT(world.device.memory().reserved_bytes, std::int64_t{32} << 20);
  });
}

TEST(AsyncDevice, ALongQueueIsBounded) {
  stepped(asynchronous(), [](const World& world) {
    Tensor x = zeros(world.device, {1});
    for (int i = 0; i < 5000; ++i) {
      x = x + 1;
    }
    EXPECT_EQ(x.item<float>(), 5000);
  });
}

TEST(AsyncDevice, AFailureFoundLateSpoilsWhatDependsOnItAndNothingElse) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    stepped(asynchronous({}, seed), [](const World& world) {
      const Tensor logits = zeros(world.device, {2, 3});
      const Tensor loss = bad_loss(world, logits);
      const std::uint32_t line = __LINE__ - 1;
      static_cast<void>(line);
      const Tensor after = reshape(loss * 2, {1}) + 1;
      const Tensor other = logits + 1;
      const Error error = read_error(after);
      EXPECT_EQ(error.code, ErrorCode::out_of_range);
      EXPECT_THAT(error.op, HasSubstr("cross_entropy"));
      EXPECT_THAT(error.location.file, EndsWith("async_device_test.cpp"));
      EXPECT_EQ(read_error(loss).code, ErrorCode::out_of_range);
      EXPECT_THAT(other.to_vector<float>(), Each(1.0F));
      EXPECT_EQ(read_error(after * 3).code, ErrorCode::out_of_range) << "known by now";
    });
  }
}

TEST(AsyncDevice, AFailureThatNobodyReadIsThrownBySync) {
  stepped(asynchronous(), [](const World& world) {
    { const Tensor lost = bad_loss(world, zeros(world.device, {2, 3})); }
    EXPECT_EQ(code_of(world.device.sync_later().wait()), ErrorCode::out_of_range);
    world.device.sync();
  });
}

TEST(AsyncDevice, AFailedKernelsCellIsFreeForTheNextOne) {
  stepped(asynchronous(), [](const World& world) {
    const Tensor logits = zeros(world.device, {2, 3});
    const Tensor good = Tensor::from<std::int32_t>(world.device, {0, 2}, {2});
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(read_error(bad_loss(world, logits)).code, ErrorCode::out_of_range);
      EXPECT_NEAR(cross_entropy(logits, good).item<float>(), 1.0986F, 1e-3F);
    }
  });
}

TEST(AsyncDevice, AHangIsFoundByEveryWaitAndNamesTheOp) {
  stepped(asynchronous({.hanging_submit = 2}), [](const World& world) {
    const Tensor before = zeros(world.device, {1});
    world.device.sync();
    const Tensor hung = exp(before);
    const std::uint32_t line = __LINE__ - 1;
    const Status status = world.device.sync_later().wait({.deadline = Deadline::in(60s)});
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
    EXPECT_THAT(status.error().text, HasSubstr("does not answer"));
    EXPECT_THAT(status.error().text, HasSubstr("exp"));
    EXPECT_THAT(status.error().text, HasSubstr("async_device_test.cpp:" + std::to_string(line)));
    EXPECT_EQ(read_error(hung).code, ErrorCode::deadline_exceeded);
    EXPECT_FALSE(world.device.is_lost());
    world.device.restart();
    EXPECT_EQ((zeros(world.device, {1}) + 1).item<float>(), 1);
    EXPECT_EQ(read_error(hung).code, ErrorCode::device_lost);
  });
}

TEST(AsyncDevice, ALossNamesWhatTheProgramCalled) {
  std::set<std::string> named;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    stepped(asynchronous({.lost_at = 1us * (seed + 1)}, seed), [&](const World& world) {
      Tensor x = zeros(world.device, {100, 4});
      const Tensor index = zeros(world.device, {100}, DType::i64);
      for (int i = 0; i < 100; ++i) {
        x = embedding(x, index);
      }
      const Error error = read_error(x);
      EXPECT_EQ(error.code, ErrorCode::device_lost);
      named.insert(error.op);
    });
  }
  EXPECT_THAT(named, Contains("embedding"));
  EXPECT_THAT(named, Not(Contains("index_select")));
}

TEST(AsyncDevice, ALossFailsAllThatIsInFlightAtOnce) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    stepped(asynchronous({.lost_at = 1us * (seed + 1)}, seed), [](const World& world) {
      const detail::TimePoint start = testing::now();
      Tensor x = zeros(world.device, {1000});
      std::vector<Pending<std::vector<std::byte>>> reads;
      for (int i = 0; i < 100; ++i) {
        x = exp(x);
        reads.push_back(x.read_bytes());
      }
      EXPECT_EQ(code_of(reads.back().wait()), ErrorCode::device_lost);
      EXPECT_LT(testing::now() - start, 1s);
      EXPECT_TRUE(world.device.is_lost());
      world.device.restart();
      EXPECT_EQ((zeros(world.device, {1}) + 1).item<float>(), 1);
    });
  }
}

/// Records its destruction.
class Watched final : public testing::ForwardingBackend {
 public:
  Watched(std::unique_ptr<Backend> inner, int& alive)
      : ForwardingBackend(std::move(inner)), alive_(alive) {
    ++alive_;
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() override { --alive_; }

 private:
  int& alive_;
};

TEST(AsyncDevice, ARestartLetsGoOfABackendThatHangs) {
  int alive = 0;
  ManualExecutor executor;
  executor.run([&] {
    const detail::BackendFactory factory{.make = [&](const BackendRequest& request) {
      return std::make_unique<Watched>(
          testing::make_sim(request, {.hanging_submit = alive == 0 ? 1U : 0U}), alive);
    }};
    const Runtime runtime(
        {.devices = {{.name = "sim:0", .sim_schedule = SimSchedule{}}}, .executor = &executor},
        factory);
    const Device device = runtime.device("sim:0");
    const Tensor hung = zeros(device, {1});
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(hung.read_bytes(), Deadline::in(1s)));
    device.restart();
    testing::pass(1s);
    EXPECT_EQ(alive, 1) << "nobody waits for the old one";
    EXPECT_EQ((zeros(device, {1}) + 1).item<float>(), 1);
  });
}

TEST(AsyncDevice, BytesAreLentWhenTheyAreThere) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    stepped(asynchronous({}, seed), [](const World& world) {
      const Tensor kept = world.f32({1, 2});
      for (const bool is_kept : {false, true}) {
        Lent lent = lend_out(is_kept ? kept : kept + 1);
        LentRegion region = std::move(lent.region).get();
        const std::span<float> values{reinterpret_cast<float*>(region.bytes().data()), 2};
        EXPECT_THAT(values, ElementsAre(is_kept ? 1 : 2, is_kept ? 2 : 3));
        values[0] = 9;
        region.done();
        EXPECT_THAT((lent.result + 1).to_vector<float>(), ElementsAre(10, is_kept ? 3 : 4));
      }
      EXPECT_THAT(kept.to_vector<float>(), ElementsAre(1, 2));
    });
  }
}

TEST(AsyncDevice, ALoanThatWasGivenUpLeavesNothingToTheNext) {
  int given_up = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    stepped(asynchronous({}, seed), [&given_up, seed](const World& world) {
      Stream stream(world.device);
      const StreamScope scope(stream);
      Lent first = lend_out(world.f32({1, 2}) + 1);
      for (std::uint64_t i = 0; i < seed; ++i) {
        detail::schedule_point();  // the actor may reach the loan, or the device may close first
      }
      stream.cancel();
      if (first.region.wait().has_value()) {
        std::move(first.region).get().done();
      } else {
        ++given_up;
      }
      Lent second = lend_out(world.f32({5, 6}) + 1);
      LentRegion region = std::move(second.region).get();
      const std::span<float> values{reinterpret_cast<float*>(region.bytes().data()), 2};
      EXPECT_THAT(values, ElementsAre(6, 7)) << "seed " << seed;
      region.done();
      EXPECT_THAT(second.result.to_vector<float>(), ElementsAre(6, 7)) << "seed " << seed;
    });
  }
  EXPECT_GT(given_up, 0);
}

TEST(AsyncDevice, WhatMayHaveFailedIsNotLent) {
  stepped(asynchronous(), [](const World& world) {
    const Lent lent = lend_out(bad_loss(world, zeros(world.device, {2, 3})));
    EXPECT_EQ(code_of(lent.region.wait()), ErrorCode::out_of_range);
    EXPECT_EQ(read_error(lent.result).code, ErrorCode::out_of_range);
  });
}

TEST(AsyncDevice, AnUpdateGroupWithASpoiltGradientChangesNothing) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    stepped(asynchronous({}, seed), [](const World& world) {
      Tensor first = world.f32({1, 2});
      Tensor second = world.f32({3, 4});
      const Tensor good = world.f32({1, 1});
      const Tensor bad = zeros(world.device, {2}) + bad_loss(world, zeros(world.device, {2, 3}));
      UpdateGroup group(world.device);
      Tensor none;
      group.sgd(first, good, none, {.learning_rate = 1});
      group.sgd(second, bad, none, {.learning_rate = 1});
      EXPECT_EQ(code_of(group.commit().wait()), ErrorCode::out_of_range);
      EXPECT_THAT(first.to_vector<float>(), ElementsAre(1, 2));
      EXPECT_THAT(second.to_vector<float>(), ElementsAre(3, 4));
    });
  }
}

TEST(AsyncDevice, AnUpdateBehindAHangDidNotHappen) {
  stepped(asynchronous({.hanging_submit = 2}), [](const World& world) {
    Tensor weight = world.f32({1, 2});
    const Tensor gradient = ones(world.device, {2}) + 1;
    UpdateGroup group(world.device);
    Tensor none;
    group.sgd(weight, gradient, none, {.learning_rate = 1});
    EXPECT_EQ(code_of(group.commit().wait({.deadline = Deadline::in(60s)})),
              ErrorCode::deadline_exceeded);
  });
}

TEST(AsyncDevice, TheRuntimeEndsWithWorkInFlight) {
  for (const std::uint64_t hanging : {0U, 3U}) {
    stepped(asynchronous({.hanging_submit = hanging}), [](const World& world) {
      Tensor x = zeros(world.device, {1});
      for (int i = 0; i < 10; ++i) {
        x = x + 1;
      }
    });
  }
}

}  // namespace
}  // namespace hearth
