// A device that stops working: only it fails, at once, and restart() opens a new one behind the
// same handle.
#include "tests/runtime/held_token.hpp"

#include <filesystem>
#include <optional>
#include <thread>

#include <hearth/runtime/update_group.hpp>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::HeldStream;
using testing::read_error;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

SteppedOptions lost_at(std::uint64_t submit) {
  return {.faults = {{"sim:0", {.lost_at_submit = submit}}}, .fusion = Fusion::off};
}

TEST(Loss, TheErrorOfEveryTensorNamesTheOpThatMetIt) {
  stepped(lost_at(2), [](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    const Tensor before = world.f32({1}) + 1;
    before.set_path("encoder.inner.weight");
    const Tensor lost = exp(before);
    const std::uint32_t line = __LINE__ - 1;
    EXPECT_TRUE(testing::are_sims_asynchronous() || !world.device.is_lost());
    for (const Error& error : {read_error(lost),
                               read_error(before),
                               read_error(zeros(world.device, {1})),
                               world.device.sync_later().wait().error()}) {
      EXPECT_EQ(error.code, ErrorCode::device_lost);
      EXPECT_EQ(error.op, "exp");
      EXPECT_EQ(error.device, "sim:0");
      EXPECT_EQ(error.stream, stream.id());
      EXPECT_EQ(error.sequence, 3U) << "after the upload and the sum";
      EXPECT_EQ(error.module_path, "encoder.inner.weight");
      EXPECT_THAT(error.location.file, EndsWith("loss_test.cpp"));
      EXPECT_EQ(error.location.line, line);
    }
    EXPECT_TRUE(world.device.is_lost());
    EXPECT_FALSE(world.runtime.device("sim:1").is_lost());
  });
}

TEST(Loss, SyncWithADeviceThatHangsSaysSo) {
  stepped({.faults = {{"sim:0", {.hanging_submit = 2}}}}, [](const World& world) {
    const Tensor before = zeros(world.device, {1});
    world.device.sync();
    const Tensor hung = before + 1;
    const std::uint32_t line = __LINE__ + 1;
    const Status status = world.device.sync_later().wait();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(status.error().op, "sync");
    EXPECT_THAT(status.error().text, HasSubstr("the device does not answer"));
    EXPECT_THAT(status.error().text, HasSubstr(", add, called at"));
    EXPECT_EQ(status.error().location.line, line);
    EXPECT_EQ(read_error(hung).code, ErrorCode::deadline_exceeded);
    EXPECT_FALSE(world.device.is_lost());
  });
}

TEST(Loss, WhoeverWaitsForALoanHearsOfItAtOnce) {
  stepped(lost_at(3), [](const World& world) {
    Stream other(world.device);
    HeldStream held(world.device);
    const Pending<std::vector<std::byte>> behind = world.f32({1}).read_bytes();
    const detail::TimePoint start = testing::now();
    {
      const StreamScope scope(other);
      EXPECT_EQ(read_error(exp(exp(world.f32({1})))).code, ErrorCode::device_lost);
    }
    EXPECT_EQ(testing::code_of(behind.wait()), ErrorCode::device_lost);
    EXPECT_EQ(read_error(held.tensor()).code, ErrorCode::device_lost);
    EXPECT_EQ(testing::now(), start) << "nobody waited for a deadline";
    held.unblock();
  });
}

TEST(Loss, WhoeverWaitsForAnotherDeviceHearsOfItAtOnce) {
  stepped(lost_at(1), [](const World& world) {
    const Device other = world.runtime.device("sim:1");
    std::optional<HeldStream> held;
    held.emplace(other);
    const Tensor here = Tensor::from<float>(other, {1}, {1}).to(world.device);
    const Pending<std::vector<std::byte>> parked = here.read_bytes();
    Stream stream(world.device);
    const detail::TimePoint start = testing::now();
    {
      const StreamScope scope(stream);
      EXPECT_EQ(read_error(exp(world.f32({1}))).code, ErrorCode::device_lost);
    }
    EXPECT_EQ(testing::code_of(parked.wait()), ErrorCode::device_lost);
    EXPECT_EQ(testing::now(), start);
    held->unblock();
  });
}

TEST(Loss, TensorsOnTheirWayToAnotherDeviceFailThereAtOnce) {
  stepped(lost_at(1), [](const World& world) {
    const Device other = world.runtime.device("sim:1");
    const detail::TimePoint start = testing::now();
    const Tensor there = (world.f32({1}) + 1).to(other);
    const Error error = read_error(there * 2);
    EXPECT_EQ(error.code, ErrorCode::device_lost);
    EXPECT_EQ(error.device, "sim:0");
    EXPECT_EQ(testing::now(), start);
    EXPECT_FALSE(other.is_lost());
    EXPECT_EQ((Tensor::from<float>(other, {1}, {1}) + 1).item(), 2);
  });
}

TEST(Restart, ALostDeviceWorksAgainBehindTheSameHandle) {
  stepped(lost_at(3), [](const World& world) {
    const Tensor old = world.f32({1}) + 1;
    EXPECT_EQ((old + 1).item(), 3);
    EXPECT_EQ(read_error(old + 2).code, ErrorCode::device_lost);
    EXPECT_EQ(world.device.generation(), 0U);
    world.device.restart();
    EXPECT_FALSE(world.device.is_lost());
    EXPECT_EQ(world.device.generation(), 1U);
    EXPECT_EQ((world.f32({1}) + 1).item(), 2);
    EXPECT_NO_THROW(world.device.sync());
    EXPECT_EQ(read_error(old).code, ErrorCode::device_lost) << "old handles stay poisoned";
    EXPECT_EQ(read_error(old + world.f32({1})).code, ErrorCode::device_lost);
    EXPECT_EQ(read_error(reshape(old, {1, 1})).code, ErrorCode::device_lost);
  });
}

TEST(Restart, WhatWasQueuedBeforeStaysLost) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    stepped({.seed = seed}, [seed](const World& world) {
      const Tensor value = world.f32({1});
      const Tensor fresh = ones(world.device, {1});
      const Pending<double> sum = (value + fresh).item_later();
      world.device.restart();
      for (const Tensor& tensor : {value, fresh}) {
        EXPECT_EQ(read_error(tensor).code, ErrorCode::device_lost) << "seed " << seed;
      }
      EXPECT_EQ(ones(world.device, {1}).item(), 1) << "seed " << seed;
    });
  }
}

// For example, a caller requested a second restart because the first was slow.
TEST(Restart, TwoAtOnceAreOne) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    stepped({.seed = seed}, [seed](const World& world) {
      const Tensor value = world.f32({1});
      auto token = std::make_unique<testing::HeldToken>(world.device);
      const auto first = world.spawn("first", [&] { world.device.restart(); });
      const auto second = world.spawn("second", [&] { world.device.restart(); });
      testing::pass(1s);
      token.reset();
      first->join();
      second->join();
      EXPECT_FALSE(world.device.is_lost()) << "seed " << seed;
      EXPECT_EQ(ones(world.device, {1}).item(), 1) << "seed " << seed;
      EXPECT_EQ(read_error(value).code, ErrorCode::device_lost) << "seed " << seed;
    });
  }
}

TEST(Restart, ACopyThatWasOnItsWayStaysLostHoweverLateItComes) {
  stepped(lost_at(1), [](const World& world) {
    const Device other = world.runtime.device("sim:1");
    const Tensor source = ones(other, {1});
    HeldStream held(other);
    EXPECT_EQ(read_error(world.f32({1}) + 1).code, ErrorCode::device_lost);
    const Tensor copy = source.to(world.device);
    testing::pass(10ms);
    world.device.restart();
    held.unblock();
    EXPECT_EQ(read_error(copy).code, ErrorCode::device_lost);
    EXPECT_EQ((source.to(world.device) + 1).item(), 2);
  });
}

TEST(Restart, AWorkingDeviceGivesEverythingUp) {
  stepped([](const World& world) {
    const Tensor x = world.f32({1});
    EXPECT_EQ(x.item(), 1);
    world.device.restart();
    const Error error = read_error(x);
    EXPECT_EQ(error.code, ErrorCode::device_lost);
    EXPECT_THAT(error.text, HasSubstr("device sim:0 was restarted"));
    EXPECT_EQ(world.f32({2}).item(), 2);
    EXPECT_EQ(world.runtime.device("sim:1").generation(), 0U);
  });
}

TEST(Restart, ItsMemoryIsEmptyAndOldTensorsCanBeDropped) {
  stepped(lost_at(2), [](const World& world) {
    std::optional<Tensor> old = full(world.device, {1 << 20}, 1);
    EXPECT_EQ(read_error(*old + 1).code, ErrorCode::device_lost);
    world.device.restart();
    EXPECT_EQ(world.device.memory().live_bytes, 0);
    old.reset();
    const std::int64_t before = world.device.memory().live_tensor_count;
    EXPECT_EQ(before, 0);
    for (int i = 0; i < 600; ++i) {
      EXPECT_EQ(zeros(world.device, {1}).item(), 0) << "slots are used again";
    }
  });
}

TEST(Restart, BytesOnLoanStayUntilTheyAreGivenBack) {
  stepped([](const World& world) {
    HeldStream held(world.device);
    world.device.restart();
    const std::span<std::byte> bytes = held.region().bytes();
    ASSERT_EQ(bytes.size(), 4U);
    // Other tensors of that size get other blocks, so that the taker's writes reach none of them.
    std::vector<Tensor> others;
    for (int i = 0; i < 8; ++i) {
      others.push_back(world.f32({3}));
    }
    world.device.sync();
    std::ranges::fill(bytes, std::byte{7});  // the address sanitizer detects a write to freed bytes
    for (const Tensor& other : others) {
      EXPECT_EQ(other.item(), 3);
    }
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{7}; }));
    held.unblock();
    EXPECT_EQ(read_error(held.tensor()).code, ErrorCode::device_lost);
    EXPECT_EQ(world.f32({4}).item(), 4) << "the late end of the loan changes nothing";
  });
}

TEST(Restart, AStreamInTheMiddleOfAnUpdateGroupAbandonsIt) {
  stepped([](const World& world) {
    Tensor weight = ones(world.device, {2});
    Tensor momentum = zeros_like(weight);
    UpdateGroup group(world.device);
    group.sgd(weight, ones(world.device, {2}), momentum, {.learning_rate = 0.1, .momentum = 0.9});
    world.device.restart();
    EXPECT_EQ(testing::code_of(group.commit().wait()), ErrorCode::device_lost);
    EXPECT_EQ(read_error(weight).code, ErrorCode::device_lost);
    weight = ones(world.device, {2});
    EXPECT_EQ(sum(weight).item(), 2);
  });
}

// With this number of streams the restart is answered before the group's lane has its next turn.
TEST(Restart, AJointUpdateThatIsPreparedComesToNothingAndItsMemoryGoesWithTheOld) {
  stepped([](const World& world) {
    Tensor weight = ones(world.device, {2});
    const Tensor held = weight;  // so that the group needs new memory
    const auto decision = std::make_shared<UpdateDecision>();
    auto heard = std::make_shared<Promise<PreparedUpdate>>();
    Pending<PreparedUpdate> prepared = heard->pending();
    Promise<void> outcome;
    const Pending<void> done = outcome.pending();
    {
      Tensor none;
      UpdateGroup group(world.device);
      group.sgd(weight, ones(world.device, {2}), none, {.learning_rate = 1});
      group.commit(
          [outcome = std::move(outcome)](ErrorRef error) mutable {
            error ? outcome.set_error(std::move(error)) : outcome.set_value();
          },
          {.decision = decision, .prepared = [heard](Result<PreparedUpdate> update) {
             heard->set_value(std::move(update).value());
           }});
    }
    PreparedUpdate update = std::move(prepared).get();
    constexpr std::size_t kStreams = 1100;  // more than the turns that a question waits
    std::vector<Stream> streams;
    std::vector<Tensor> busy;
    {
      const testing::HeldToken token(world.device);
      for (std::size_t i = 0; i < kStreams; ++i) {
        streams.emplace_back(world.device);
        const StreamScope scope(streams.back());
        busy.push_back(world.f32({1}) + 1);
      }
    }
    for (int i = 0; i < 10; ++i) {
      detail::schedule_point();  // the actor has seen them all before the restart
    }
    world.device.restart();
    EXPECT_EQ(testing::code_of(done.wait()), ErrorCode::device_lost);
    EXPECT_FALSE(decision->commit());
    update.settle();
    EXPECT_EQ(read_error(weight).code, ErrorCode::device_lost);
    EXPECT_EQ((world.f32({1}) + 1).item(), 2);
  });
}

TEST(Restart, ADeviceThatCannotBeOpenedAgainStaysLost) {
  ManualExecutor executor;
  executor.run([&] {
    const auto count = std::make_shared<int>(0);
    const detail::BackendFactory factory{.make = [count](const BackendRequest& request) {
      if (++*count == 2) {
        throw_error(Error{.code = ErrorCode::not_found, .text = "it was pulled out"});
      }
      return testing::make_sim(request, {.lost_at_submit = 1});
    }};
    const Runtime runtime({.devices = {{.name = "sim:0"}}, .executor = &executor}, factory);
    const Device device = runtime.device("sim:0");
    EXPECT_EQ(read_error(zeros(device, {1})).code, ErrorCode::device_lost);
    EXPECT_THROW(device.restart(), ArgumentError);
    EXPECT_TRUE(device.is_lost());
    EXPECT_EQ(read_error(zeros(device, {1})).code, ErrorCode::device_lost);
    device.restart();
    EXPECT_EQ(device.generation(), 1U);
    EXPECT_FALSE(device.is_lost());
    EXPECT_EQ(read_error(zeros(device, {1})).code, ErrorCode::device_lost) << "the next one too";
    EXPECT_TRUE(device.is_lost());
  });
}

TEST(Restart, OtherThreadsGoOnWithTheirStreams) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    stepped({.seed = seed}, [seed](const World& world) {
      bool is_over = false;
      const auto user = world.spawn("user", [&] {
        for (int round = 0; round < 1000 && !is_over; ++round) {
          try {
            EXPECT_EQ((ones(world.device, {1}) + 1).item(), 2);
          } catch (const DeviceError& error) {
            EXPECT_EQ(error.code(), ErrorCode::device_lost);
          }
        }
        EXPECT_EQ((ones(world.device, {1}) + 1).item(), 2) << "seed " << seed;
      });
      for (int i = 0; i < 3; ++i) {
        world.device.restart();
      }
      is_over = true;
      user->join();
    });
  }
}

// With real threads: one program on three devices, one of which is lost in the middle.
std::vector<std::vector<float>> run_three(std::uint64_t lost_at_submit) {
  const auto make = [lost_at_submit](const BackendRequest& request) -> std::unique_ptr<Backend> {
    const std::uint64_t kill = request.name == "sim:1" ? lost_at_submit : 0;
    return testing::make_sim(request, {.lost_at_submit = kill});
  };
  const detail::BackendFactory factory{.make = make};
  const Runtime runtime({.devices = {{.name = "sim:0"}, {.name = "sim:1"}, {.name = "sim:2"}}},
                        factory);
  std::vector<std::vector<float>> results(3);
  std::vector<std::thread> users;
  for (std::size_t index = 0; index < results.size(); ++index) {
    users.emplace_back([&, index] {
      const Device device = runtime.devices()[index];
      try {
        Generator generator(index + 1);
        Tensor weight = random_normal(device, {16, 16}, generator);
        for (int step = 0; step < 50; ++step) {
          const Tensor gradient = matmul(weight, random_normal(device, {16, 16}, generator));
          weight = weight - 0.01 * gradient;
        }
        results[index] = weight.to_vector<float>();
      } catch (const DeviceError& error) {
        EXPECT_EQ(error.code(), ErrorCode::device_lost);
        EXPECT_EQ(error.error().device, "sim:1");
      }
    });
  }
  for (std::thread& user : users) {
    user.join();
  }
  return results;
}

std::ptrdiff_t thread_count() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

// The address sanitizer detects leaked memory.
TEST(Loss, KillingOneOfThreeDevicesLeavesNoThread) {
  const std::ptrdiff_t before = thread_count();
  for (const std::uint64_t submit : {1U, 37U, 120U}) {
    static_cast<void>(run_three(submit));
    // The system may count a thread for a moment after it was joined.
    for (int look = 0; thread_count() != before && look < 1'000'000; ++look) {
      std::this_thread::yield();
    }
    EXPECT_EQ(thread_count(), before);
  }
}

TEST(Loss, KillingOneOfThreeDevicesLeavesTheOthersTheSameBits) {
  const std::vector<std::vector<float>> whole = run_three(0);
  ASSERT_EQ(whole[1].size(), 256U);
  for (const std::uint64_t submit : {1U, 2U, 37U, 60U}) {
    const std::vector<std::vector<float>> rest = run_three(submit);
    EXPECT_EQ(rest[0], whole[0]) << "submit " << submit;
    EXPECT_EQ(rest[2], whole[2]) << "submit " << submit;
    EXPECT_TRUE(rest[1].empty()) << "submit " << submit;
  }
}

}  // namespace
}  // namespace hearth
