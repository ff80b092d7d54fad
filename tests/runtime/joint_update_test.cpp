// Fine print 9 of the design, across devices: groups prepare, one decision is made, and all commit
// or none.
#include "stepped_runtime.hpp"

#include <optional>

#include <hearth/runtime/update_group.hpp>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::code_of;
using ::testing::ElementsAre;
using testing::live_tensors;
using testing::pass;
using testing::stepped;
using testing::World;

constexpr SgdUpdate kPlain{.learning_rate = 1};

ErrorRef refusal() {
  return std::make_shared<const Error>(
      Error{.code = ErrorCode::collective_failed, .text = "another rank cannot"});
}

/// One parameter on one device, in a group that waits for a decision.
struct Member {
  Tensor parameter;
  Pending<void> done;
  Pending<PreparedUpdate> prepared;
};

Member join(const Device& device,
            Tensor parameter,
            const std::shared_ptr<UpdateDecision>& decision,
            Deadline deadline = Deadline::never()) {
  auto heard = std::make_shared<Promise<PreparedUpdate>>();
  Promise<void> promise;
  Member member{std::move(parameter), promise.pending(), heard->pending()};
  Tensor none;
  UpdateGroup group(device);
  group.sgd(member.parameter, ones(device, {2}), none, kPlain);
  group.commit(
      [promise = std::move(promise)](ErrorRef error) mutable {
        error ? promise.set_error(std::move(error)) : promise.set_value();
      },
      {.decision = decision,
       .prepared =
           [heard](Result<PreparedUpdate> update) {
             if (update.has_value()) {
               heard->set_value(std::move(update).value());
             } else {
               heard->set_error(update.shared_error());
             }
           },
       .deadline = deadline});
  return member;
}

Tensor one_two(const Device& device) {
  return Tensor::from(device, std::vector<float>{1, 2}, {2});
}

TEST(JointUpdate, WaitsForTheDecisionAndThenHappens) {
  stepped([](const World& world) {
    const auto decision = std::make_shared<UpdateDecision>();
    Member member = join(world.device, one_two(world.device), decision);
    PreparedUpdate prepared = std::move(member.prepared).get();
    const Pending<std::vector<std::byte>> behind = member.parameter.read_bytes();
    pass(10s);
    EXPECT_FALSE(member.done.is_ready());
    EXPECT_FALSE(behind.is_ready()) << "what follows on the stream waits";
    EXPECT_TRUE(decision->commit());
    prepared.settle();
    EXPECT_FALSE(prepared.is_valid());
    EXPECT_TRUE(member.done.wait().has_value());
    EXPECT_THAT(member.parameter.to_vector<float>(), ElementsAre(0, 1));
    EXPECT_EQ(live_tensors(world.device), 1);
  });
}

TEST(JointUpdate, OtherStreamsOfTheDeviceGoOnMeanwhile) {
  stepped([](const World& world) {
    const auto decision = std::make_shared<UpdateDecision>();
    Member member = join(world.device, one_two(world.device), decision);
    PreparedUpdate prepared = std::move(member.prepared).get();
    {
      Stream other(world.device);
      const StreamScope scope(other);
      EXPECT_EQ(world.f32({3}).item(), 3);
    }
    EXPECT_TRUE(decision->commit());
    prepared.settle();
    EXPECT_TRUE(member.done.wait().has_value());
  });
}

TEST(JointUpdate, ANoKeepsEverythingAsItWas) {
  stepped([](const World& world) {
    const auto decision = std::make_shared<UpdateDecision>();
    const std::int64_t before = world.device.memory().live_bytes;
    Member member = join(world.device, one_two(world.device), decision);
    PreparedUpdate prepared = std::move(member.prepared).get();
    EXPECT_TRUE(decision->abort(refusal()));
    prepared.settle();
    const Status status = member.done.wait();
    ASSERT_EQ(code_of(status), ErrorCode::collective_failed);
    EXPECT_EQ(status.error().text, "another rank cannot");
    EXPECT_THAT(member.parameter.to_vector<float>(), ElementsAre(1, 2));
    member.parameter = Tensor();
    EXPECT_EQ(live_tensors(world.device), 0);
    EXPECT_EQ(world.device.memory().live_bytes, before) << "the memory it had got came back";
  });
}

TEST(JointUpdate, ADroppedHandleSaysNo) {
  stepped([](const World& world) {
    const auto decision = std::make_shared<UpdateDecision>();
    Member member = join(world.device, one_two(world.device), decision);
    { const PreparedUpdate dropped = std::move(member.prepared).get(); }
    EXPECT_EQ(code_of(member.done.wait()), ErrorCode::cancelled);
    EXPECT_FALSE(decision->commit());
    EXPECT_THAT(member.parameter.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST(JointUpdate, TheDeadlineSaysNoForEveryone) {
  stepped([](const World& world) {
    const auto decision = std::make_shared<UpdateDecision>();
    Member patient = join(world.runtime.device("sim:1"),
                          one_two(world.runtime.device("sim:1")),
                          decision,
                          Deadline::in(1h));
    Member hasty = join(world.device, one_two(world.device), decision, Deadline::in(5s));
    PreparedUpdate first = std::move(patient.prepared).get();
    PreparedUpdate second = std::move(hasty.prepared).get();
    EXPECT_EQ(code_of(hasty.done.wait()), ErrorCode::deadline_exceeded);
    EXPECT_FALSE(patient.done.is_ready());
    EXPECT_FALSE(decision->commit());
    first.settle();
    second.settle();
    EXPECT_EQ(code_of(patient.done.wait()), ErrorCode::deadline_exceeded);
    EXPECT_THAT(patient.parameter.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_THAT(hasty.parameter.to_vector<float>(), ElementsAre(1, 2));
  });
}

// A deadline that passes after the commit, but before the device is notified, changes nothing.
TEST(JointUpdate, AYesHoldsAfterTheDeadlineToo) {
  stepped([](const World& world) {
    const auto decision = std::make_shared<UpdateDecision>();
    Member member = join(world.device, one_two(world.device), decision, Deadline::in(5s));
    PreparedUpdate prepared = std::move(member.prepared).get();
    EXPECT_TRUE(decision->commit());
    pass(10s);
    EXPECT_TRUE(member.done.is_ready()) << "the lane looked by itself";
    prepared.settle();
    EXPECT_TRUE(member.done.wait().has_value());
    EXPECT_THAT(member.parameter.to_vector<float>(), ElementsAre(0, 1));
  });
}

TEST(JointUpdate, WhoCannotPrepareSaysNoForAll) {
  const testing::SteppedOptions options{
      .devices = {{.name = "sim:0"}, {.name = "sim:1", .memory_budget_bytes = 14 << 20}}};
  stepped(options, [](const World& world) {
    const Device poor = world.runtime.device("sim:1");
    const auto decision = std::make_shared<UpdateDecision>();
    Member rich = join(world.device, one_two(world.device), decision);
    PreparedUpdate waiting = std::move(rich.prepared).get();

    Tensor large = ones(poor, {1 << 20});
    const Tensor held = large;  // so that it needs new memory
    const Tensor filler = zeros(poor, {1 << 20});
    Tensor none;
    UpdateGroup group(poor);
    group.sgd(large, zeros(poor, {1 << 20}), none, kPlain);
    ErrorCode heard = ErrorCode::internal;
    group.commit([](ErrorRef error) { EXPECT_EQ(error->code, ErrorCode::out_of_memory); },
                 {.decision = decision, .prepared = [&](Result<PreparedUpdate> update) {
                    ASSERT_FALSE(update.has_value());
                    heard = update.error().code;
                  }});
    poor.sync();
    EXPECT_EQ(heard, ErrorCode::out_of_memory);
    EXPECT_FALSE(decision->commit());
    waiting.settle();
    const Status status = rich.done.wait();
    ASSERT_EQ(code_of(status), ErrorCode::out_of_memory);
    EXPECT_EQ(status.error().device, "sim:1");
    EXPECT_THAT(rich.parameter.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_EQ(mean(large).item(), 1);
  });
}

TEST(JointUpdate, ComesToNothingWhenTheDecisionWasNoAlready) {
  stepped([](const World& world) {
    const auto decision = std::make_shared<UpdateDecision>();
    decision->abort(refusal());
    Member member = join(world.device, one_two(world.device), decision);
    EXPECT_EQ(code_of(member.done.wait()), ErrorCode::collective_failed);
    EXPECT_FALSE(member.prepared.is_valid() && member.prepared.is_ready() &&
                 member.prepared.wait().has_value());
    EXPECT_THAT(member.parameter.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST(JointUpdate, ADeviceThatShutsDownSaysNo) {
  const auto decision = std::make_shared<UpdateDecision>();
  Pending<void> done;
  std::optional<PreparedUpdate> prepared;
  stepped({.shutdown_limit = 1s}, [&](const World& world) {
    Member member = join(world.device, one_two(world.device), decision);
    prepared = std::move(member.prepared).get();
    done = std::move(member.done);
  });
  EXPECT_EQ(code_of(done.wait()), ErrorCode::device_closed);
  EXPECT_FALSE(decision->commit());
}

TEST(JointUpdate, NeedsSomeoneWhoHearsOfIt) {
  stepped([](const World& world) {
    Tensor parameter = one_two(world.device);
    Tensor none;
    {
      UpdateGroup group(world.device);
      group.sgd(parameter, ones(world.device, {2}), none, kPlain);
      EXPECT_THROW(
          group.commit([](const ErrorRef&) {}, {.decision = std::make_shared<UpdateDecision>()}),
          ArgumentError);
    }
    EXPECT_THAT(parameter.to_vector<float>(), ElementsAre(1, 2));
  });
}

TEST(UpdateDecision, TheFirstWordCounts) {
  UpdateDecision yes;
  EXPECT_TRUE(yes.is_open());
  EXPECT_TRUE(yes.commit());
  EXPECT_TRUE(yes.commit()) << "saying it again changes nothing";
  EXPECT_FALSE(yes.abort(refusal()));
  EXPECT_TRUE(yes.is_committed());
  EXPECT_EQ(yes.error(), nullptr);

  UpdateDecision no;
  EXPECT_TRUE(no.abort(refusal()));
  EXPECT_TRUE(no.abort(
      std::make_shared<const Error>(Error{.code = ErrorCode::cancelled, .text = "later"})));
  EXPECT_FALSE(no.commit());
  EXPECT_FALSE(no.is_open());
  EXPECT_EQ(no.error()->code, ErrorCode::collective_failed);
}

}  // namespace
}  // namespace hearth
