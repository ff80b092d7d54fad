// Fine print 9 of the design: an optimizer step is all or nothing.
#include "stepped_runtime.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hearth/runtime/update_group.hpp>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::HeldStream;
using testing::live_tensors;
using testing::pass;
using testing::stepped;
using testing::World;

constexpr SgdUpdate kPlain{.learning_rate = 1};
constexpr SgdUpdate kMomentum{.learning_rate = 1, .momentum = 0.5, .first = true};

TEST(UpdateGroup, ReplacesParametersAndState) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor momentum = world.f32({0, 0});
    UpdateGroup group(world.device);
    group.sgd(parameter, world.f32({1, 1}), momentum, kMomentum);
    group.commit().get();
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(0, 1));
    EXPECT_THAT(momentum.to_vector<float>(), ElementsAre(1, 1));
  });
}

TEST(UpdateGroup, WritesInPlaceWhereNobodyElseHoldsTheTensor) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor none;
    const std::int64_t before = world.device.memory().in_place_count;
    UpdateGroup group(world.device);
    group.sgd(parameter, world.f32({1, 1}), none, kPlain);
    group.commit().get();
    EXPECT_EQ(world.device.memory().in_place_count, before + 1);
    EXPECT_EQ(live_tensors(world.device), 1);
  });
}

TEST(UpdateGroup, NeverOverwritesStorageThatSomeoneElseHolds) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor other = world.f32({5, 6});
    Tensor none;
    const Tensor copy = parameter;
    const Tensor view = slice(other, 0, {.stop = 1});
    UpdateGroup group(world.device);
    group.sgd(parameter, world.f32({1, 1}), none, kPlain);
    group.sgd(other, world.f32({1, 1}), none, kPlain);
    group.commit().get();
    EXPECT_THAT(copy.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_THAT(view.to_vector<float>(), ElementsAre(5));
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(0, 1));
    EXPECT_THAT(other.to_vector<float>(), ElementsAre(4, 5));
  });
}

TEST(UpdateGroup, MayBeLongerThanTheLane) {
  stepped([](const World& world) {
    std::vector<Tensor> parameters;
    Tensor none;
    for (int i = 0; i < 600; ++i) {
      parameters.push_back(full(world.device, {1}, i));
    }
    UpdateGroup group(world.device);
    for (Tensor& parameter : parameters) {
      group.sgd(parameter, ones(world.device, {1}), none, kPlain);
    }
    group.commit().get();
    for (int i = 0; i < 600; ++i) {
      ASSERT_EQ(parameters[static_cast<std::size_t>(i)].item(), i - 1);
    }
  });
}

TEST(UpdateGroup, OnePoisonedGradientKeepsEverythingAsItWas) {
  stepped({.faults = {{"sim:0", {.failing_submits = {1}}}}}, [](const World& world) {
    Tensor bad = world.f32({1, 1}) * 1;
    Tensor first = world.f32({1, 2});
    Tensor second = world.f32({3, 4});
    Tensor momentum = world.f32({7, 8});
    Tensor none;
    const std::int64_t kernels = static_cast<std::int64_t>(world.device.statistics().kernels);
    UpdateGroup group(world.device);
    group.sgd(first, world.f32({1, 1}), none, kPlain);
    group.sgd(second, std::move(bad), momentum, kMomentum);
    const Status status = group.commit().wait();
    ASSERT_EQ(testing::code_of(status), ErrorCode::kernel_failed);
    EXPECT_EQ(status.error().op, "mul");
    EXPECT_THAT(first.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_THAT(second.to_vector<float>(), ElementsAre(3, 4));
    EXPECT_THAT(momentum.to_vector<float>(), ElementsAre(7, 8));
    EXPECT_EQ(static_cast<std::int64_t>(world.device.statistics().kernels), kernels);
    EXPECT_EQ(live_tensors(world.device), 3);

    UpdateGroup next(world.device);  // the model survives the bad step
    next.sgd(first, world.f32({1, 1}), none, kPlain);
    next.commit().get();
    EXPECT_THAT(first.to_vector<float>(), ElementsAre(0, 1));
  });
}

TEST(UpdateGroup, AGroupThatIsNotCommittedKeepsEverythingAsItWas) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    const Tensor copy = parameter;
    Tensor none;
    {
      UpdateGroup group(world.device);
      group.sgd(parameter, world.f32({1, 1}), none, kPlain);
    }
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_THAT(copy.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_THAT((std::move(parameter) + 1).to_vector<float>(), ElementsAre(2, 3));
    EXPECT_THAT(copy.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST(UpdateGroup, AStreamThatEndsInMidGroupDiscardsIt) {
  stepped([](const World& world) {
    Tensor parameter;
    Tensor none;
    std::optional<UpdateGroup> group;
    {
      Stream stream(world.device);
      const StreamScope scope(stream);
      parameter = world.f32({1, 2});
      group.emplace(world.device);
      group->sgd(parameter, world.f32({1, 1}), none, kPlain);
    }
    const detail::TimePoint start = testing::now();
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_EQ(testing::now(), start) << "a reader waited for nothing";
    group.reset();
    pass(10ms);
    EXPECT_EQ(live_tensors(world.device), 1);
  });
}

TEST(UpdateGroup, OutOfMemoryKeepsEverythingAsItWas) {
  const testing::SteppedOptions options{
      .devices = {{.name = "sim:0", .memory_budget_bytes = 16 << 20}}};
  stepped(options, [](const World& world) {
    Tensor small = world.f32({1, 2});
    Tensor large = ones(world.device, {1 << 20});
    const Tensor held = large;  // so that it needs new memory
    const Tensor held_too = small;
    const Tensor filler = zeros(world.device, {1 << 20});
    const std::int64_t live_bytes = world.device.memory().live_bytes;
    Tensor gradient = zeros(world.device, {1 << 20});
    Tensor none;
    UpdateGroup group(world.device);
    group.sgd(small, world.f32({1, 1}), none, kPlain);
    group.sgd(large, std::move(gradient), none, kPlain);
    const Status status = group.commit().wait();
    ASSERT_EQ(testing::code_of(status), ErrorCode::out_of_memory);
    EXPECT_EQ(world.device.memory().live_bytes, live_bytes) << "what the group had taken is lost";
    EXPECT_THAT(small.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_EQ(mean(large).item(), 1);
  });
}

// The group's records have left the lane; their operands are still to be read.
TEST(UpdateGroup, ADropElsewhereDoesNotOvertakeAnOpenGroup) {
  for (const bool has_lane : {true, false}) {
    stepped([has_lane](const World& world) {
      Tensor parameter = world.f32({1, 2});
      Tensor none;
      Tensor gradient = world.f32({1, 1});
      UpdateGroup group(world.device);
      group.sgd(parameter, gradient, none, kPlain);
      world
          .spawn("dropper",
                 [&world, gradient = std::move(gradient), has_lane]() mutable {
                   if (has_lane) {
                     EXPECT_EQ(world.f32({4}).item(), 4);
                   }
                   gradient = Tensor();
                   for (float i = 0; has_lane && i < 10; ++i) {
                     EXPECT_EQ(world.f32({i, i}).to_vector<float>()[1], i);
                   }
                 })
          ->join();
      pass(10ms);
      group.commit().get();
      EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(0, 1));
      EXPECT_EQ(live_tensors(world.device), 1);
    });
  }
}

TEST(UpdateGroup, AResultMayBeDroppedElsewhereBeforeTheCommit) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor none;
    UpdateGroup group(world.device);
    group.sgd(parameter, world.f32({1, 1}), none, kPlain);
    {
      Stream other(world.device);
      const StreamScope scope(other);
      parameter = Tensor();
      world.device.sync();
    }
    group.commit().get();
    pass(10ms);
    EXPECT_EQ(live_tensors(world.device), 0);
    EXPECT_EQ(world.f32({3}).item(), 3);
  });
}

TEST(UpdateGroup, AnOperandThatNeverComesAbandonsTheGroup) {
  stepped([](const World& world) {
    Stream stuck(world.device);
    std::optional<HeldStream> held;
    Tensor late;
    {
      const StreamScope scope(stuck);
      held.emplace(world.device);
      late = world.f32({1, 1});
    }
    Tensor parameter = world.f32({1, 2});
    Tensor none;
    UpdateGroup group(world.device);
    group.sgd(parameter, late, none, kPlain);
    const Status status = group.commit().wait({.deadline = Deadline::in(1h)});
    ASSERT_EQ(testing::code_of(status), ErrorCode::deadline_exceeded);
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
    held->unblock();
    EXPECT_THAT(late.to_vector<float>(), ElementsAre(1, 1));
  });
}

TEST(UpdateGroup, AParameterThatNeverComesIsPoisonedNotGuessed) {
  stepped([](const World& world) {
    Stream stuck(world.device);
    std::optional<HeldStream> held;
    Tensor late;
    {
      const StreamScope scope(stuck);
      const Tensor former = world.f32({8, 8});
      world.device.sync();
      held.emplace(world.device);
      late = world.f32({1, 1});
    }
    Tensor none;
    UpdateGroup group(world.device);
    group.sgd(late, world.f32({1, 1}), none, kPlain);
    EXPECT_FALSE(group.commit().wait({.deadline = Deadline::in(1h)}).has_value());
    EXPECT_EQ(testing::read_error(late).code, ErrorCode::deadline_exceeded);
    held->unblock();
    world.device.sync();
  });
}

TEST(UpdateGroup, AKernelThatFailsInMidGroupLeavesNothingOfAStepThatDidNotHappen) {
  stepped({.faults = {{"sim:0", {.failing_submits = {2}}}}}, [](const World& world) {
    Tensor first = world.f32({1, 2});
    Tensor second = world.f32({3, 4});
    Tensor none;
    UpdateGroup group(world.device);
    group.sgd(first, world.f32({1, 1}), none, kPlain);
    group.sgd(second, world.f32({1, 1}), none, kPlain);
    const Status status = group.commit().wait();
    ASSERT_EQ(testing::code_of(status), ErrorCode::kernel_failed);
    EXPECT_EQ(status.error().op, "sgd_step");
    for (const Tensor& lost : {first, second}) {
      EXPECT_EQ(testing::read_error(lost).code, ErrorCode::kernel_failed);
    }
    EXPECT_EQ(live_tensors(world.device), 2);
  });
}

TEST(UpdateGroup, AMistakeOfTheCallerQueuesNothing) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor none;
    {
      UpdateGroup group(world.device);
      EXPECT_THROW(group.sgd(parameter, world.f32({1}), none, kPlain), ShapeError);
      EXPECT_THROW(group.sgd(none, world.f32({1}), none, kPlain), ShapeError);
    }
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
  });
}

// ---- misuse of a group ----

template <class Use>
std::string refusal(const Use& use) {
  const detail::TimePoint start = testing::now();
  std::string text = "nothing was refused";
  try {
    use();
  } catch (const ArgumentError& error) {
    text = error.error().text;
  }
  EXPECT_EQ(testing::now(), start) << "it waited first";
  return text;
}

TEST(UpdateGroup, AReadOrOpOnAResultBeforeTheCommitIsRefusedAtOnce) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor none;
    UpdateGroup group(world.device);
    const int line = __LINE__ - 1;
    group.sgd(parameter, world.f32({1, 1}), none, kPlain);
    const std::string rest = ": f32[2] is a result of the update group opened at " +
                             std::string(__FILE__) + ":" + std::to_string(line) +
                             ", which makes it when it is committed; call commit() first";
    const Device other = world.runtime.device("sim:1");
    EXPECT_EQ(refusal([&] { (void)parameter.read_bytes(); }), "read_bytes" + rest);
    EXPECT_EQ(refusal([&] { (void)slice(parameter, 0, {.stop = 1}); }), "slice" + rest);
    EXPECT_EQ(refusal([&] { (void)(none = world.f32({1, 1}) + parameter); }), "add" + rest);
    EXPECT_EQ(refusal([&] { (void)(std::move(parameter) * 2); }), "mul" + rest);
    EXPECT_EQ(refusal([&] { parameter.publish(); }), "publish" + rest);
    EXPECT_EQ(refusal([&] { (void)parameter.to(other); }), "to" + rest);
    EXPECT_EQ(refusal([&] {
                (void)lend(
                    parameter, [](const Result<LentRegion>&) {}, Deadline::never());
              }),
              "lend" + rest);
    EXPECT_EQ((world.f32({3}) + 1).item(), 4) << "other ops go on";
    group.commit().get();
    EXPECT_THAT((std::move(parameter) * 2).to_vector<float>(), ElementsAre(0, 2));
  });
}

TEST(UpdateGroup, EndsWithItsCommit) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor none;
    UpdateGroup group(world.device);
    group.sgd(parameter, world.f32({1, 1}), none, kPlain);
    group.commit().get();
    EXPECT_EQ(refusal([&] { (void)group.commit(); }), "update group: commit() was called already");
    EXPECT_EQ(refusal([&] {
                group.sgd(parameter, world.f32({1, 1}), none, kPlain);
              }),
              "update group: commit() was called already");
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(0, 1));
  });
}

TEST(UpdateGroup, IsTheOnlyOneOnItsStream) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor none;
    UpdateGroup group(world.device);
    EXPECT_THAT(refusal([&] { const UpdateGroup second(world.device); }),
                ::testing::HasSubstr("another one is open on this stream"));
    Stream other(world.device);
    {
      const StreamScope scope(other);
      EXPECT_THAT(refusal([&] {
                    group.sgd(parameter, world.f32({1, 1}), none, kPlain);
                  }),
                  ::testing::HasSubstr("it was opened on stream"));
      EXPECT_THAT(refusal([&] { (void)group.commit(); }),
                  ::testing::HasSubstr("it was opened on stream"));
      Tensor elsewhere = world.f32({1, 2});
      UpdateGroup second(world.device);
      second.sgd(elsewhere, world.f32({1, 1}), none, kPlain);
      second.commit().get();
    }
    group.sgd(parameter, world.f32({1, 1}), none, kPlain);
    group.commit().get();
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(0, 1));
  });
}

TEST(UpdateGroup, GivenUpUnderAnotherStreamItIsDiscardedAllTheSame) {
  stepped([](const World& world) {
    Tensor parameter = world.f32({1, 2});
    Tensor none;
    auto group = std::make_unique<UpdateGroup>(world.device);
    group->sgd(parameter, world.f32({1, 1}), none, kPlain);
    Stream other(world.device);
    {
      const StreamScope scope(other);
      group.reset();
    }
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
  });
}

}  // namespace
}  // namespace hearth
