// Update groups on a device whose work is in flight when submit returns. They are issued after
// kernels that may still fail, and the device decides.
#include <optional>

#include <hearth/backends/sim/async_sim.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/update_group.hpp>

#include "tests/runtime/stepped_runtime.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::code_of;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::pass;
using testing::read_error;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

constexpr SgdUpdate kPlain{.learning_rate = 1};

SteppedOptions asynchronous(std::uint64_t seed = 0, FaultPlan faults = {}) {
  const SimSchedule schedule{.queues = 2, .reorder_seed = seed, .cost_seed = seed};
  return {.devices = {{.name = "sim:0", .faults = std::move(faults), .sim_schedule = schedule}},
          .seed = seed};
}

/// The device's submits, and whether its time is stopped.
struct HeldTime {
  bool is_held = true;
  std::size_t launches = 0;
  std::size_t guarded = 0;
  std::size_t most_guards = 0;
};

/// An asynchronous sim on which no op ends before the test releases it.
class HeldSim final : public testing::ForwardingBackend {
 public:
  HeldSim(std::unique_ptr<Backend> sim, HeldTime& time)
      : ForwardingBackend(std::move(sim)), time_(time) {}

  [[nodiscard]] Status wait(Points any_of, Deadline deadline) override {
    while (time_.is_held && !deadline.has_passed()) {
      detail::current_context().parker().park(Deadline::in(1ms));
    }
    if (time_.is_held) {
      return Error{.code = ErrorCode::deadline_exceeded, .text = "time is held"};
    }
    return ForwardingBackend::wait(any_of, deadline);
  }

 private:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    ++time_.launches;
    time_.guarded += launch.guards.empty() ? 0U : 1U;
    time_.most_guards = std::max(time_.most_guards, launch.guards.size());
    return ForwardingBackend::submit_one(launch, after);
  }

  HeldTime& time_;
};

template <class Body>
void with_held_time(Body body) {
  HeldTime time;
  const detail::BackendFactory factory{.make = [&](const BackendRequest& request) {
    return std::make_unique<HeldSim>(testing::make_sim(request, {}), time);
  }};
  SteppedOptions options = asynchronous();
  options.backends = factory;
  stepped(options, [&](const World& world) {
    body(world, time);
    time.is_held = false;
  });
}

/// A gradient of `value` per element, by a kernel that may fail while it runs, and fails unless
/// `is_good`.
Tensor gradient(const World& world, double value, bool is_good) {
  const Tensor two = Tensor::from<std::int32_t>(world.device, {2, 2}, {2});
  const Tensor divisor = Tensor::from<std::int32_t>(world.device, {2, is_good ? 2 : 0}, {2});
  return cast(two / divisor, DType::f32) * value;
}

TEST(AsyncUpdates, AGroupIsIssuedBehindKernelsThatMayStillFail) {
  with_held_time([](const World& world, HeldTime& time) {
    Tensor first = world.f32({1, 2});
    Tensor second = world.f32({3, 4});
    Tensor none;
    std::vector<Pending<void>> done;
    for (const bool is_good : {true, false, true}) {
      UpdateGroup group(world.device);
      group.sgd(first, gradient(world, 1, true), none, kPlain);
      group.sgd(second, gradient(world, 1, is_good), none, kPlain);
      done.push_back(group.commit());
    }
    pass(10ms);
    EXPECT_EQ(time.guarded, 6U) << "all three steps are on the device, where nothing has ended";
    EXPECT_EQ(time.most_guards, 2U) << "each looks at its own gradients alone";
    EXPECT_FALSE(done[0].is_ready());
    time.is_held = false;
    done[0].get();
    EXPECT_EQ(code_of(done[1].wait()), ErrorCode::kernel_failed);
    done[2].get();
    EXPECT_THAT(first.to_vector<float>(), ElementsAre(-1, 0));
    EXPECT_THAT(second.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST(AsyncUpdates, OneSpoiltGradientKeepsAllMembersAndTheirState) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    stepped(asynchronous(seed), [seed](const World& world) {
      Tensor first = world.f32({1, 2});
      Tensor second = world.f32({3, 4});
      const Tensor copy = seed % 2 == 0 ? second : Tensor();  // otherwise it is written in place
      Tensor momentum = world.f32({7, 8});
      Tensor none;
      UpdateGroup group(world.device);
      group.sgd(first, gradient(world, 1, true), none, kPlain);
      group.sgd(second, gradient(world, 1, false), momentum, {.learning_rate = 1, .momentum = 0.5});
      const Status status = group.commit().wait();
      EXPECT_EQ(code_of(status), ErrorCode::kernel_failed);
      EXPECT_EQ(status.error().op, "div");
      EXPECT_THAT(status.error().location.file, EndsWith("async_updates_test.cpp"));
      EXPECT_THAT(first.to_vector<float>(), ElementsAre(1, 2));
      EXPECT_THAT(second.to_vector<float>(), ElementsAre(3, 4));
      EXPECT_THAT(momentum.to_vector<float>(), ElementsAre(7, 8));
    });
  }
}

// The group waits for ops that the stream recorded while it was open, also where they fuse.
TEST(AsyncUpdates, OpsOfTheStreamBetweenBeginAndEndRunBeforeTheGroup) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    stepped(asynchronous(seed), [](const World& world) {
      Tensor first = world.f32({1, 2});
      Tensor second = world.f32({3, 4});
      Tensor none;
      Tensor mean = world.f32({0, 0});
      Tensor variance = world.f32({0, 0});
      UpdateGroup group(world.device);
      group.sgd(first, square(world.f32({1, 2}) + 1.0), none, kPlain);
      const Tensor loss = sum(square(second));
      group.adam(second, abs(second * loss), mean, variance, {.learning_rate = 1});
      group.commit().get();
      EXPECT_THAT(first.to_vector<float>(), ElementsAre(-3, -7));
      EXPECT_THAT(second.to_vector<float>(),
                  ElementsAre(::testing::FloatEq(2), ::testing::FloatEq(3)));
      EXPECT_EQ(loss.item<float>(), 25);
    });
  }
}

TEST(AsyncUpdates, OpsOfTheStreamBetweenBeginAndEndRunBeforeAJointGroup) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    stepped(asynchronous(seed), [](const World& world) {
      const auto decision = std::make_shared<UpdateDecision>();
      Promise<PreparedUpdate> promise;
      Pending<PreparedUpdate> prepared = promise.pending();
      Tensor parameter = world.f32({1, 2});
      Tensor none;
      UpdateGroup group(world.device);
      group.sgd(parameter, gradient(world, 1, true) + square(parameter * 2), none, kPlain);
      group.commit(
          [](const ErrorRef& error) { EXPECT_EQ(error, nullptr); },
          {.decision = decision,
           .prepared = [promise = std::move(promise)](Result<PreparedUpdate> update) mutable {
             promise.set_value(std::move(update).value());
           }});
      PreparedUpdate waiting = std::move(prepared).get();
      EXPECT_TRUE(decision->commit());
      waiting.settle();
      EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(-4, -15));
    });
  }
}

// Refuses the first record, before which no record has begun, and each later one.
TEST(AsyncUpdates, ARefusalInMidGroupLeavesNothingOfTheStepAndOneBeforeItChangesNothing) {
  for (const std::uint64_t refused : {1U, 2U, 3U}) {
    stepped(asynchronous(0, {.failing_submits = {refused}}), [refused](const World& world) {
      std::vector<Tensor> parameters = {world.f32({1, 2}), world.f32({3, 4}), world.f32({5, 6})};
      const Tensor gradient = world.f32({1, 1});
      Tensor none;
      UpdateGroup group(world.device);
      for (Tensor& parameter : parameters) {
        group.sgd(parameter, gradient, none, kPlain);
      }
      const Status status = group.commit().wait();
      ASSERT_EQ(code_of(status), ErrorCode::kernel_failed);
      EXPECT_EQ(status.error().op, "sgd_step");
      float first = 1;
      for (const Tensor& parameter : parameters) {
        if (refused == 1) {
          EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(first, first + 1));
        } else {
          EXPECT_EQ(read_error(parameter).code, ErrorCode::kernel_failed);
        }
        first += 2;
      }
    });
  }
}

/// Writes one byte too far.
class StraySim final : public testing::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

 private:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    Issue issue = ForwardingBackend::submit_one(launch, after);
    if (launch.call.op.kind() == OpKind::expression) {
      const TensorView& out = launch.call.outputs[0];
      out.data[out.element_count() * size_bytes(out.dtype)] = std::byte{1};
    }
    return issue;
  }
};

// The strategy checks memory after the first kernel, when that has written.
TEST(AsyncUpdates, AFirstKernelThatWroteAstrayDidNotLeaveTheOldValues) {
  SteppedOptions options = asynchronous();
  options.devices[0].memory = MemoryPooling::debug;
  options.backends = detail::BackendFactory{.make = [](const BackendRequest& request) {
    return std::make_unique<StraySim>(testing::make_sim(request, {}));
  }};
  stepped(options, [](const World& world) {
    Tensor first = world.f32({1, 2});
    Tensor second = world.f32({3, 4});
    const Tensor gradient = world.f32({1, 1});
    Tensor none;
    UpdateGroup group(world.device);
    group.sgd(first, gradient, none, kPlain);
    group.sgd(second, gradient, none, kPlain);
    EXPECT_FALSE(group.commit().wait().has_value());
    EXPECT_FALSE(read_error(first).text.empty());
    EXPECT_FALSE(read_error(second).text.empty());
    EXPECT_EQ(world.device.statistics().poisoned_ops, 2U);
  });
}

TEST(AsyncUpdates, NewTensorsCarryOnWhatThoseCarriedThatTheyReplace) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    stepped(asynchronous(seed), [](const World& world) {
      Tensor good = world.f32({1, 2});
      Tensor bad = gradient(world, 1, false);  // a parameter that may be poisoned itself
      Tensor none;
      UpdateGroup group(world.device);
      group.sgd(good, gradient(world, 1, true), none, kPlain);
      group.sgd(bad, gradient(world, 1, true), none, kPlain);
      const Pending<void> done = group.commit();
      EXPECT_EQ(read_error(bad).code, ErrorCode::kernel_failed);
      EXPECT_EQ(code_of(done.wait()), ErrorCode::kernel_failed);
      EXPECT_THAT(good.to_vector<float>(), ElementsAre(1, 2));
    });
  }
}

TEST(AsyncUpdates, AGroupThatWasDiscardedLeavesNoSpoiltTensorReadable) {
  with_held_time([](const World& world, HeldTime& time) {
    Tensor bad = gradient(world, 1, false);
    Tensor none;
    {
      UpdateGroup group(world.device);
      group.sgd(bad, ones(world.device, {2}), none, kPlain);
    }
    const Pending<std::vector<std::byte>> read = bad.read_bytes();
    pass(10ms);
    time.is_held = false;
    EXPECT_EQ(code_of(read.wait()), ErrorCode::kernel_failed);
  });
}

TEST(AsyncUpdates, ACountStaysWhereItsGroupDoesNotHappen) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    stepped(asynchronous(seed), [seed](const World& world) {
      Tensor weight = world.f32({0, 0});
      Tensor count = make_update_count(world.device, 5);
      Tensor none;
      int good = 0;
      std::vector<Pending<void>> done;
      for (std::uint64_t i = 0; i < 10; ++i) {
        const bool is_good = (seed + i * i) % 3 != 0;
        good += is_good ? 1 : 0;
        UpdateGroup group(world.device);
        group.sgd(weight, gradient(world, 1, is_good), none, kPlain);
        group.count(count);
        done.push_back(group.commit());
      }
      EXPECT_EQ(count.item<double>(), 5 + good);
      EXPECT_THAT(weight.to_vector<float>(), Each(static_cast<float>(-good)));
      int happened = 0;
      for (const Pending<void>& each : done) {
        happened += each.wait().has_value() ? 1 : 0;
      }
      EXPECT_EQ(happened, good);
    });
  }
}

TEST(AsyncUpdates, AnOpThatMayFailHasNoPlaceInAGroup) {
  UpdateRule rule({.name = "halved", .state_count = 0}, [](const UpdateRule::Operands& o) {
    const Tensor whole = cast(o.gradient, DType::i32) / 2;
    return std::vector<Tensor>{o.parameter - cast(whole, DType::f32)};
  });
  stepped(asynchronous(), [&](const World& world) {
    Tensor weight = world.f32({1, 2});
    UpdateGroup group(world.device);
    group.update(rule, weight, world.f32({4, 6}), {}, {});
    const Status status = group.commit().wait();
    ASSERT_EQ(code_of(status), ErrorCode::unsupported);
    EXPECT_THAT(status.error().text, HasSubstr("may fail while it runs"));
    EXPECT_EQ(status.error().op, "halved");
    EXPECT_THAT(weight.to_vector<float>(), ElementsAre(1, 2));
  });
}

// The host decides whether the other devices commit, so it must know the outcome.
TEST(AsyncUpdates, AJointGroupIsPreparedOnceItsGradientsAreKnown) {
  for (const bool is_good : {true, false}) {
    stepped(asynchronous(), [is_good](const World& world) {
      Tensor weight = world.f32({1, 2});
      Tensor none;
      Promise<PreparedUpdate> heard;
      Pending<PreparedUpdate> prepared = heard.pending();
      const auto decision = std::make_shared<UpdateDecision>();
      UpdateGroup group(world.device);
      group.sgd(weight, gradient(world, 1, is_good), none, kPlain);
      group.commit([](const ErrorRef&) {},
                   {.decision = decision, .prepared = [&heard](Result<PreparedUpdate> update) {
                      if (update.has_value()) {
                        heard.set_value(std::move(update).value());
                      } else {
                        heard.set_error(update.shared_error());
                      }
                    }});
      EXPECT_EQ(prepared.wait().has_value(), is_good);
      EXPECT_EQ(decision->commit(), is_good);
      if (is_good) {
        std::move(prepared).get().settle();
      }
      EXPECT_THAT(weight.to_vector<float>(), ElementsAre(is_good ? 0 : 1, is_good ? 1 : 2));
    });
  }
}

TEST(AsyncUpdates, AStreamsSyncTellsOfAStepThatTheDeviceHasSkipped) {
  stepped(asynchronous(), [](const World& world) {
    Tensor weight = world.f32({1, 2});
    Tensor none;
    UpdateGroup group(world.device);
    group.sgd(weight, gradient(world, 1, false), none, kPlain);
    { const Pending<void> dropped = group.commit(); }
    const Status status = world.device.sync_later().wait();
    EXPECT_EQ(code_of(status), ErrorCode::kernel_failed);
    EXPECT_EQ(status.error().op, "div");
    world.device.sync();
  });
}

TEST(AsyncUpdates, AHangOrALossBehindTheGroupIsItsEnd) {
  for (const bool hangs : {false, true}) {
    for (std::uint64_t submit = 1; submit < 12; ++submit) {
      const FaultPlan faults =
          hangs ? FaultPlan{.hanging_submit = submit} : FaultPlan{.lost_at_submit = submit};
      stepped(asynchronous(submit, faults), [&](const World& world) {
        Tensor weight = world.f32({1, 2});
        Tensor none;
        std::vector<Pending<void>> done;
        for (int i = 0; i < 3; ++i) {
          UpdateGroup group(world.device);
          group.sgd(weight, gradient(world, 1, true), none, kPlain);
          done.push_back(group.commit());
        }
        bool has_ended = false;
        for (const Pending<void>& each : done) {
          const Status status = each.wait({.deadline = Deadline::in(1h)});
          EXPECT_TRUE(!has_ended || !status.has_value());
          has_ended = has_ended || !status.has_value();
          if (!status.has_value()) {
            EXPECT_EQ(status.error().code,
                      hangs ? ErrorCode::deadline_exceeded : ErrorCode::device_lost);
          }
        }
        world.device.restart();
        EXPECT_EQ(read_error(weight).code, ErrorCode::device_lost);
      });
    }
  }
}

}  // namespace
}  // namespace hearth
