// A ModelServer under many schedules of its clients, workers and devices, with deadlines, faults
// and new weights: each request gets one answer or one error, and an answer is right.
// EXPLORE_SCHEDULES sets the number of schedules.
#include <hearth/parallel/model_server.hpp>

#include "tests/support/explore.hpp"

#include <hearth/modules/linear.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/ops.hpp>

#include "runtime/device/backend_factory.hpp"
#include "tests/support/faulty_sim.hpp"

#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace hearth::testing {
namespace {

using namespace std::chrono_literals;

/// Scales its input by its version, so that an answer shows its weights.
struct Scale {
  Tensor factor;

  Scale(const Device& device, float value) : factor(Tensor::from(device, {value}, Shape{1})) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const { return x * factor; }
  HEARTH_MODULE(Scale, factor)
};

struct Program {
  FaultPlan faults = {};  ///< The first device has them.
  bool has_second = true;
  bool is_asynchronous = false;
  bool publishes = false;
  std::chrono::nanoseconds deadline = std::chrono::nanoseconds::max();
  int clients = 3;
  int requests = 2;  ///< Each client sends so many.
};

/// How the requests ended, over all schedules.
struct Tally {
  std::uint64_t answered = 0;
  std::uint64_t refused = 0;
  std::uint64_t expired = 0;
  std::uint64_t lost = 0;
  std::uint64_t failed = 0;
  std::uint64_t shared = 0;  ///< Requests beyond the first of a batch.
};

void count(const Error& error, Tally& tally) {
  switch (error.code) {
    case ErrorCode::overloaded:
      ++tally.refused;
      return;
    case ErrorCode::deadline_exceeded:
      ++tally.expired;
      return;
    case ErrorCode::device_lost:
      ++tally.lost;
      return;
    case ErrorCode::kernel_failed:
      ++tally.failed;
      return;
    default:
      require(false, error.to_string());
  }
}

void serve(ManualExecutor& executor, const Program& program, Tally& tally) {
  const detail::BackendFactory factory{
      .make = [&](const BackendRequest& request) -> std::unique_ptr<Backend> {
        return make_sim(request, request.name == "sim:0" ? program.faults : FaultPlan{});
      }};
  RuntimeOptions options{.devices = {{.name = "sim:0"}}, .executor = &executor};
  if (program.has_second) {
    options.devices.push_back({.name = "sim:1"});
  }
  if (program.is_asynchronous) {
    for (DeviceOptions& device : options.devices) {
      device.sim_schedule = SimSchedule{};
    }
  }
  const Runtime runtime(options, factory);
  const Device home = runtime.devices().back();
  const auto model = [&home](float value) { return freeze(Scale(home, value)); };
  ModelServer<Scale> server(
      runtime,
      model(1),
      {.max_batch = 4, .devices = runtime.devices(), .hang_limit = 200ms, .shutdown_limit = 1s});
  std::uint64_t ended = 0;
  const auto client = [&](int number) {
    for (int i = 0; i < program.requests; ++i) {
      const auto value = static_cast<float>(number * program.requests + i + 1);
      const detail::TimePoint begin = detail::current_context().clock().now();
      const Deadline deadline = program.deadline == std::chrono::nanoseconds::max()
                                    ? Deadline::never()
                                    : Deadline::in(program.deadline);
      Pending<Answer> pending =
          server.ask({{std::vector<float>{value, 2 * value}, {1, 2}}}, {.deadline = deadline});
      const Status status = pending.wait({.deadline = Deadline::in(30s)});
      if (!deadline.is_never()) {
        require(detail::current_context().clock().now() - begin <= program.deadline + 50ms,
                "a request waited longer than its deadline and 50 ms");
      }
      ++ended;
      if (!status.has_value()) {
        count(status.error(), tally);
        continue;
      }
      ++tally.answered;
      const Answer& answer = pending.get();
      const auto factor = static_cast<float>(answer.version);
      require(answer.outputs.at(0).values<float>() ==
                  std::vector<float>{value * factor, 2 * value * factor},
              "the answer of another request, or of other weights");
    }
  };
  std::vector<std::unique_ptr<detail::Joinable>> threads;
  for (int number = 1; number < program.clients; ++number) {
    threads.push_back(executor.spawn({.name = "client" + std::to_string(number)},
                                     [&, number] { client(number); }));
  }
  if (program.publishes) {
    threads.push_back(executor.spawn({.name = "trainer"}, [&] {
      for (const float version : {2.0F, 3.0F, 4.0F}) {
        server.publish(model(version));
      }
    }));
  }
  client(0);
  for (const std::unique_ptr<detail::Joinable>& thread : threads) {
    thread->join();
  }
  require(ended == static_cast<std::uint64_t>(program.clients) *
                       static_cast<std::uint64_t>(program.requests),
          "a request has no end");
  const ServerStatistics statistics = server.statistics();
  require(statistics.answered + statistics.failed == statistics.accepted,
          "an accepted request was lost or answered twice");
  tally.shared += statistics.rows > statistics.batches ? statistics.rows - statistics.batches : 0;
}

class ModelServerSchedules : public ::testing::Test {
 protected:
  void explore_all(const std::string& name, const Program& program, std::uint64_t schedules = 40) {
    for (const Strategy strategy : {Strategy::random, Strategy::pct}) {
      const Exploration found =
          explore({.name = "model_server_" + name,
                   .strategy = strategy,
                   .schedules = schedule_count(schedules),
                   .max_steps = 1'000'000},
                  [&](ManualExecutor& executor) { serve(executor, program, tally_); });
      EXPECT_FALSE(found.failure.has_value()) << name << ": " << found.failure->text;
      schedules_ += found.schedules;
      steps_ += found.steps;
    }
  }
  void TearDown() override {
    std::printf(
        "%lu schedules, %lu steps: %lu answered (%lu shared a batch), %lu refused, "
        "%lu expired, %lu lost, %lu failed\n",
        schedules_,
        steps_,
        tally_.answered,
        tally_.shared,
        tally_.refused,
        tally_.expired,
        tally_.lost,
        tally_.failed);
  }

  Tally tally_;
  std::uint64_t schedules_ = 0;
  std::uint64_t steps_ = 0;
};

TEST_F(ModelServerSchedules, WithoutFaultsEachRequestIsAnswered) {
  explore_all("whole", {.has_second = false, .clients = 4});
  explore_all("whole_two", {});
  explore_all("whole_asynchronous", {.is_asynchronous = true});
  EXPECT_EQ(tally_.refused + tally_.expired + tally_.lost + tally_.failed, 0U);
  EXPECT_GT(tally_.shared, 0U);
}

TEST_F(ModelServerSchedules, NewWeightsLoseNothing) {
  explore_all("publish", {.publishes = true});
  explore_all("publish_asynchronous", {.is_asynchronous = true, .publishes = true});
  EXPECT_EQ(tally_.refused + tally_.expired + tally_.lost + tally_.failed, 0U);
}

TEST_F(ModelServerSchedules, ALostDeviceBesideAnotherLosesNothing) {
  for (std::uint64_t submit = 3; submit <= 24; submit += 3) {
    explore_all("lost_at_" + std::to_string(submit), {.faults = {.lost_at_submit = submit}}, 12);
  }
  EXPECT_EQ(tally_.refused + tally_.expired + tally_.lost + tally_.failed, 0U);
}

TEST_F(ModelServerSchedules, ALostDeviceAloneEndsEachRequest) {
  for (std::uint64_t submit = 3; submit <= 24; submit += 3) {
    explore_all("lost_alone_at_" + std::to_string(submit),
                {.faults = {.lost_at_submit = submit}, .has_second = false},
                12);
  }
  EXPECT_GT(tally_.lost, 0U);
}

TEST_F(ModelServerSchedules, AHungDeviceEndsNoRequestLate) {
  for (std::uint64_t submit = 4; submit <= 24; submit += 4) {
    explore_all("hangs_at_" + std::to_string(submit),
                {.faults = {.hanging_submit = submit}, .is_asynchronous = true, .deadline = 20s},
                6);
  }
  EXPECT_EQ(tally_.refused + tally_.expired + tally_.lost + tally_.failed, 0U);
}

TEST_F(ModelServerSchedules, DeadlinesEndRequestsInTime) {
  for (std::uint64_t submit = 4; submit <= 12; submit += 2) {
    explore_all("deadlines_hang_at_" + std::to_string(submit),
                {.faults = {.hanging_submit = submit},
                 .has_second = false,
                 .is_asynchronous = true,
                 .deadline = 100ms},
                10);
  }
  EXPECT_GT(tally_.expired, 0U);
}

TEST_F(ModelServerSchedules, FailedKernelsEndSingleRequestsOnly) {
  explore_all("failing", {.faults = {.failing_submits = {7, 12, 13, 19}}, .has_second = false});
  EXPECT_GT(tally_.answered, tally_.failed);
}

}  // namespace
}  // namespace hearth::testing
