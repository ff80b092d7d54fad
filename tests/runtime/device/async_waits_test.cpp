// Waits on an asynchronous device that partly hangs. A wait for the hung part ends in time,
// whatever progress the device makes elsewhere, and can be cancelled.
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/update_group.hpp>

#include "tests/runtime/stepped_runtime.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::pass;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

constexpr SgdUpdate kPlain{.learning_rate = 1};

SteppedOptions hanging_at(std::uint64_t submit, std::chrono::nanoseconds wait_limit) {
  return {.devices = {{.name = "sim:0", .sim_schedule = SimSchedule{.queues = 2}}},
          .faults = {{"sim:0", FaultPlan{.hanging_submit = submit}}},
          .wait_limit = wait_limit,
          .fusion = Fusion::off};
}

/// A step that commits together with others or not at all.
struct JointStep {
  std::shared_ptr<UpdateDecision> decision = std::make_shared<UpdateDecision>();
  Pending<void> done;
  Pending<PreparedUpdate> prepared;
};

JointStep begin(const Device& device,
                Tensor& parameter,
                const Tensor& gradient,
                Deadline deadline) {
  JointStep step;
  auto prepared = std::make_shared<Promise<PreparedUpdate>>();
  auto done = std::make_shared<Promise<void>>();
  step.prepared = prepared->pending();
  step.done = done->pending();
  Tensor none;
  UpdateGroup group(device);
  group.sgd(parameter, gradient, none, kPlain);
  group.commit(
      [done](ErrorRef error) {
        if (error) {
          done->set_error(std::move(error));
        } else {
          done->set_value();
        }
      },
      {.decision = step.decision,
       .prepared =
           [prepared](Result<PreparedUpdate> update) {
             if (update.has_value()) {
               prepared->set_value(std::move(update).value());
             } else {
               prepared->set_error(update.shared_error());
             }
           },
       .deadline = deadline});
  return step;
}

class ThrowingCells final : public testing::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Status cell_status(ErrorCell /*cell*/) override { throw std::runtime_error("no answer"); }
};

TEST(AsyncWaits, ABackendThatThrowsWhenItIsAskedHowAKernelEndedFailsThatKernel) {
  SteppedOptions options{.devices = {{.name = "sim:0", .sim_schedule = SimSchedule{.queues = 2}}}};
  options.backends =
      detail::BackendFactory{.make = [](const BackendRequest& request) -> std::unique_ptr<Backend> {
        return std::make_unique<ThrowingCells>(testing::make_sim(request, {}));
      }};
  stepped(options, [](const World& world) {
    const Tensor x = Tensor::from(world.device, std::vector<std::int32_t>{6, 4}, {2});
    const Tensor quotient = x / Tensor::from(world.device, std::vector<std::int32_t>{3, 2}, {2});
    const Status status = quotient.read_bytes().wait({.deadline = Deadline::in(10s)});
    ASSERT_FALSE(status.has_value());
    EXPECT_THAT(status.error().text, HasSubstr("no answer"));
    EXPECT_THAT(x.to_vector<std::int32_t>(), ElementsAre(6, 4));
  });
}

// The device makes progress with reads, and the hung op is not one of them.
TEST(AsyncWaits, ASyncBehindAHangEndsAlthoughOtherWorkGetsOn) {
  stepped(hanging_at(3, 10s), [](const World& world) {
    const Tensor good = ones(world.device, {4});
    static_cast<void>(good.to_vector<float>());
    const detail::TimePoint start = testing::now();
    std::chrono::nanoseconds took = std::chrono::nanoseconds::max();
    const auto worker = world.spawn("worker", [&] {
      const Tensor hung = ones(world.device, {3}) + 1.0F;
      EXPECT_THROW(world.device.sync(), DeadlineExceeded);
      took = testing::now() - start;
    });
    while (testing::now() - start < 60s) {
      static_cast<void>(good.to_vector<float>());
      pass(1s);
    }
    EXPECT_LT(took, 12s);
    worker->join();
  });
}

TEST(AsyncWaits, AJointStepEndsAtItsDeadlineAlthoughAnotherOpHangs) {
  stepped(hanging_at(3, 60s), [](const World& world) {
    Tensor parameter = world.f32({1, 2});
    const Tensor gradient = ones(world.device, {2});
    JointStep step = begin(world.device, parameter, gradient, Deadline::in(5s));
    const PreparedUpdate prepared = std::move(step.prepared).get();
    Stream other(world.device);
    const StreamScope scope(other);
    const Tensor hung = ones(world.device, {3}) + 1.0F;
    pass(1ms);
    const Status status = step.done.wait({.deadline = Deadline::in(10s)});
    ASSERT_FALSE(status.has_value());
    EXPECT_THAT(status.error().text, HasSubstr("not decided before the deadline"));
    EXPECT_FALSE(step.decision->is_open());
  });
}

// Its memory never becomes free, and the decision is aborted meanwhile: it ends like any wait for
// memory.
TEST(AsyncWaits, AJointStepWithoutMemoryEndsAlthoughAnotherOpHangs) {
  SteppedOptions options = hanging_at(3, 10s);
  options.devices[0].memory_budget_bytes = 64 << 20;
  stepped(options, [](const World& world) {
    constexpr std::int64_t kLarge = 5 << 20;
    Tensor parameter = zeros(world.device, {kLarge});
    const Tensor kept = parameter;  // so that the update needs new memory
    const Tensor gradient = ones(world.device, {kLarge});
    Tensor hung;
    Tensor ballast;
    {
      Stream other(world.device);
      const StreamScope scope(other);
      hung = ones(world.device, {3});
      ballast = zeros(world.device, {kLarge - (1 << 20)});
      pass(1ms);
    }
    JointStep step = begin(world.device, parameter, gradient, Deadline::in(20s));
    pass(5s);
    step.decision->abort(std::make_shared<const Error>(
        Error{.code = ErrorCode::cancelled, .text = "another said no"}));
    const Status status = step.done.wait({.deadline = Deadline::in(30s)});
    ASSERT_FALSE(status.has_value());
    EXPECT_TRUE(step.done.is_ready());
    EXPECT_TRUE(step.prepared.is_ready()) << "whoever asked for it hears of it";
  });
}

TEST(AsyncWaits, AStreamThatWaitsForRoomOnTheDeviceCanBeCancelled) {
  for (const bool is_stopped : {false, true}) {
    stepped(hanging_at(2, 100s), [&](const World& world) {
      std::stop_source stop;
      Stream stream(world.device, {.stop = stop.get_token()});
      const StreamScope scope(stream);
      Tensor x = ones(world.device, {3});
      for (int i = 0; i < 300; ++i) {
        x = x + 1.0F;
      }
      pass(1ms);
      const detail::TimePoint start = testing::now();
      if (is_stopped) {
        stop.request_stop();
      } else {
        stream.cancel();
      }
      const Status status = x.read_bytes().wait({.deadline = Deadline::in(50s)});
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().code, ErrorCode::cancelled) << status.error().text;
      EXPECT_LT(testing::now() - start, 1s);
    });
  }
}

// No thread has waited for the earlier ops, so the host does not know that they have ended.
TEST(AsyncWaits, TheReportNamesTheOpAtWhichTheDeviceIs) {
  for (const auto& [submit, op] :
       {std::pair(2U, "exp"), std::pair(3U, "sin"), std::pair(4U, "sqrt")}) {
    stepped(hanging_at(submit, 10s), [&, op = op](const World& world) {
      const Tensor last = sqrt(sin(exp(full(world.device, {2}, 1))));
      try {
        static_cast<void>(last.to_vector<float>());
        ADD_FAILURE() << "it could be read";
      } catch (const Exception& error) {
        EXPECT_THAT(error.report(), HasSubstr(fmt::format(", {}, called at", op)));
      }
    });
  }
}

// A kernel whose input failed fails too. Both failures have one cause, and a caller who has read it
// has read both.
TEST(AsyncWaits, AFailureThatAnotherBringsAboutIsToldOnce) {
  stepped({.devices = {{.name = "sim:0", .sim_schedule = SimSchedule{.queues = 2}}}},
          [](const World& world) {
            const Tensor logits = ones(world.device, {1, 3});
            const std::vector<Tensor> gradients = grad(
                [&](const std::vector<Tensor>& inputs) {
                  return cross_entropy(
                      inputs[0], Tensor::from(world.device, std::vector<std::int64_t>{9}, {1}));
                },
                {logits});
            EXPECT_EQ(testing::read_error(gradients[0]).op, "cross_entropy");
            EXPECT_NO_THROW(world.device.sync());
          });
}

// A hang blocks a bounded number of steps, as of ops.
TEST(AsyncWaits, UpdateGroupsWaitForRoomOnTheDevice) {
  stepped(hanging_at(1, 10s), [](const World& world) {
    constexpr std::size_t kMembers = 100;
    std::vector<Tensor> parameters;
    for (std::size_t i = 0; i < kMembers; ++i) {
      parameters.push_back(ones(world.device, {2}));
    }
    const Tensor gradient = ones(world.device, {2});
    std::vector<Pending<void>> steps;
    for (int step = 0; step < 5; ++step) {
      UpdateGroup group(world.device);
      Tensor none;
      for (Tensor& parameter : parameters) {
        group.sgd(parameter, gradient, none, kPlain);
      }
      steps.push_back(group.commit());
      pass(1ms);
    }
    EXPECT_LE(world.device.statistics().kernels, 256 + kMembers);
    pass(60s);
    for (Pending<void>& step : steps) {
      EXPECT_FALSE(step.wait({.deadline = Deadline::in(1s)}).has_value());
    }
  });
}

}  // namespace
}  // namespace hearth
