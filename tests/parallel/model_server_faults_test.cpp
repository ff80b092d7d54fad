// ModelServer on devices that fail: only the guilty requests fail, a lost or hung device loses none
// that another can answer, and no request waits long after its deadline.
#include <hearth/parallel/model_server.hpp>

#include <hearth/modules/embedding.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/runtime/ops.hpp>

#include "runtime/device/backend_factory.hpp"
#include "tests/support/faulty_sim.hpp"

#include <array>
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::make_sim;

/// Words in, a score out. A word outside of the table is a data failure.
struct Words {
  static constexpr std::int64_t kWords = 50;
  Embedding table;
  Linear score;

  Words(const Device& device, Generator& generator)
      : table({.count = kWords, .width = 4}, device, generator),
        score({.in = 4, .out = 2}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& words) const {
    return score.forward(mean(table.forward(words), {1}));
  }
  HEARTH_MODULE(Words, table, score)
};

std::vector<std::int64_t> sentence(std::int64_t number) {
  return {number % 50, (number * 7) % 50, (number * 11) % 50};
}

/// Two sim devices; the first has faults.
struct Sims {
  explicit Sims(const FaultPlan& faults, bool is_asynchronous = false)
      : factory{.make = [faults](const BackendRequest& request) -> std::unique_ptr<Backend> {
          return make_sim(request, request.name == "sim:0" ? faults : FaultPlan{});
        }},
        runtime(options_of(is_asynchronous), factory) {}

  static RuntimeOptions options_of(bool is_asynchronous) {
    RuntimeOptions options{.shutdown_limit = 200ms};
    for (const char* name : {"sim:0", "sim:1"}) {
      options.devices.push_back({.name = name, .memory_budget_bytes = std::int64_t{32} << 20});
      if (is_asynchronous) {
        options.devices.back().sim_schedule = SimSchedule{};
      }
    }
    return options;
  }

  /// On the last device, which has no faults, so that making the weights meets none.
  [[nodiscard]] Frozen<Words> model() const {
    Generator generator(1);
    return freeze(Words(runtime.devices().back(), generator));
  }

  detail::BackendFactory factory;
  Runtime runtime;
};

std::vector<float> alone(const Frozen<Words>& model, std::int64_t number) {
  return model->forward(Tensor::from(model.device(), sentence(number), {1, 3})).to_vector<float>();
}

bool is_near(const std::vector<float>& got, const std::vector<float>& want) {
  return std::ranges::equal(got, want, [](float a, float b) { return std::abs(a - b) < 1e-4F; });
}

TEST(ModelServerFaults, OneGuiltyRequestInAThousandFailsAlone) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  Generator generator(1);
  const Frozen<Words> model = freeze(Words(runtime.device(), generator));
  ModelServer server(runtime, model);
  std::vector<std::vector<float>> expected;
  for (std::int64_t number = 0; number < 50; ++number) {
    expected.push_back(alone(model, number));
  }
  constexpr std::int64_t kRequests = 4000;
  std::vector<Pending<Answer>> answers;
  for (std::int64_t number = 0; number < kRequests; ++number) {
    std::vector<std::int64_t> words = sentence(number);
    words[1] = number % 1000 == 777 ? Words::kWords : words[1];
    answers.push_back(server.ask({{std::move(words), {1, 3}}}));
  }
  for (std::int64_t number = 0; number < kRequests; ++number) {
    const Status status = answers[static_cast<std::size_t>(number)].wait();
    ASSERT_EQ(status.has_value(), number % 1000 != 777) << number;
    if (status.has_value()) {
      EXPECT_TRUE(
          is_near(answers[static_cast<std::size_t>(number)].get().outputs[0].values<float>(),
                  expected[static_cast<std::size_t>(number % 50)]));
    } else {
      EXPECT_EQ(status.error().code, ErrorCode::out_of_range) << status.error().to_string();
    }
  }
  EXPECT_EQ(server.statistics().failed, 4U);
  EXPECT_LT(server.statistics().batches, 2000U);
}

TEST(ModelServerFaults, AFailedKernelFailsSingleRequestsOnly) {
  FaultPlan faults;
  for (std::uint64_t submit = 50; submit < 4000; submit += 37) {
    faults.failing_submits.push_back(submit);
  }
  const Sims sims(faults);
  const Frozen<Words> model = sims.model();
  ModelServer server(sims.runtime, model, {.devices = {sims.runtime.device("sim:0")}});
  int failed = 0;
  std::vector<Pending<Answer>> answers;
  for (std::int64_t number = 0; number < 304; ++number) {
    answers.push_back(server.ask({{sentence(number), {1, 3}}}));
    if (number % 16 == 15) {
      for (const Pending<Answer>& answer : answers) {
        const Status status = answer.wait();
        if (!status.has_value()) {
          ++failed;
          EXPECT_EQ(status.error().code, ErrorCode::kernel_failed);
        }
      }
      answers.clear();
    }
  }
  // A request that ran alone when the kernel failed has failed; those of a batch ran again.
  EXPECT_LT(failed, 304 / 8);
  EXPECT_EQ(server.statistics().answered + server.statistics().failed, 304U);
}

/// Asks 400 requests with and without deadlines while the first of two devices fails.
void survive(const Sims& sims, ServerOptions options, std::chrono::nanoseconds deadline) {
  const Frozen<Words> model = sims.model();
  std::vector<std::vector<float>> expected;
  for (std::int64_t number = 0; number < 50; ++number) {
    expected.push_back(alone(model, number));
  }
  options.devices = sims.runtime.devices();
  ModelServer server(sims.runtime, model, options);
  std::atomic<int> wrong = 0;
  std::atomic<int> lost = 0;
  std::atomic<int> late = 0;
  {
    std::vector<std::jthread> clients;
    for (std::int64_t client = 0; client < 8; ++client) {
      clients.emplace_back([&, client] {
        for (std::int64_t i = 0; i < 50; ++i) {
          const std::int64_t number = client * 50 + i;
          const auto begin = detail::current_context().clock().now();
          Pending<Answer> answer =
              server.ask({{sentence(number), {1, 3}}}, {.deadline = Deadline::in(deadline)});
          const Status status = answer.wait({.deadline = Deadline::in(20s)});
          // model_server_schedules_test has the 50 ms, in the time of its clock
          late += detail::current_context().clock().now() - begin > deadline + 5s ? 1 : 0;
          lost += status.has_value() ? 0 : 1;
          if (!status.has_value()) {
            ADD_FAILURE() << status.error().to_string();
          } else {
            wrong += is_near(answer.get().outputs[0].values<float>(),
                             expected[static_cast<std::size_t>(number % 50)])
                         ? 0
                         : 1;
          }
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(late, 0);
  EXPECT_FALSE(server.is_in_service(0));
  EXPECT_TRUE(server.is_in_service(1));
  EXPECT_GT(server.statistics().retried, 0U);
}

TEST(ModelServerFaults, ADeviceLostBesideAnotherLosesNoRequest) {
  survive(Sims({.lost_at_submit = 40}), {}, 10s);
}

TEST(ModelServerFaults, ADeviceThatHangsBesideAnotherLosesNoRequest) {
  survive(Sims({.hanging_submit = 40}, true), {.hang_limit = 200ms, .shutdown_limit = 100ms}, 10s);
}

TEST(ModelServerFaults, AHungDeviceAloneEndsRequestsAtTheirDeadlines) {
  const Sims sims({.hanging_submit = 60}, true);
  const Frozen<Words> model = sims.model();
  ModelServer server(
      sims.runtime, model, {.devices = {sims.runtime.device("sim:0")}, .shutdown_limit = 100ms});
  int expired = 0;
  for (std::int64_t number = 0; number < 40 && expired == 0; ++number) {
    const auto begin = detail::current_context().clock().now();
    Pending<Answer> answer =
        server.ask({{sentence(number), {1, 3}}}, {.deadline = Deadline::in(300ms)});
    const Status status = answer.wait({.deadline = Deadline::in(20s)});
    if (!status.has_value()) {
      EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
      EXPECT_LT(detail::current_context().clock().now() - begin, 300ms + 5s);
      ++expired;
    }
  }
  EXPECT_EQ(expired, 1);
}

TEST(ModelServerFaults, APassThatDoesNotRunAgainFailsWithItsBatch) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  Generator generator(1);
  const Frozen<Words> model = freeze(Words(runtime.device(), generator));
  std::atomic<int> passes = 0;
  std::atomic<bool> is_open = false;
  ModelServer<Words> server(runtime,
                            model,
                            {.proof = RowProof::trusted, .repeatable = false},
                            [&](const Words& words, std::span<const Tensor> in) {
                              is_open.wait(false);
                              ++passes;
                              return std::vector<Tensor>{words.forward(in[0])};
                            });
  std::vector<Pending<Answer>> answers;
  answers.push_back(server.ask({{sentence(0), {1, 3}}}));
  while (server.statistics().batches == 0) {
    std::this_thread::yield();
  }
  for (std::int64_t number = 1; number <= 4; ++number) {
    std::vector<std::int64_t> words = sentence(number);
    words[0] = number == 2 ? Words::kWords : words[0];
    answers.push_back(server.ask({{std::move(words), {1, 3}}}));
  }
  is_open = true;
  is_open.notify_all();
  EXPECT_TRUE(answers[0].wait().has_value());
  for (std::size_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(answers[i].wait().error().code, ErrorCode::out_of_range);
  }
  EXPECT_EQ(passes, 2);
}

TEST(ModelServerFaults, ShortMemoryHalvesTheBatch) {
  const Runtime runtime(
      {.devices = {{.name = "cpu:0", .memory_budget_bytes = std::int64_t{24} << 20}}});
  Generator generator(1);
  const Frozen<Words> model = freeze(Words(runtime.device(), generator));
  std::atomic<bool> is_open = false;
  // A row takes 2 MiB.
  ModelServer<Words> server(
      runtime,
      model,
      {.proof = RowProof::trusted},
      [&](const Words& words, std::span<const Tensor> in) {
        is_open.wait(false);
        const Tensor large = full(runtime.device(), {in[0].shape()[0], 1 << 19}, 0.0);
        return std::vector<Tensor>{words.forward(in[0]) + mean(large, {1}, {.keep_dims = true})};
      });
  std::vector<Pending<Answer>> answers;
  for (std::int64_t number = 0; number < 33; ++number) {
    answers.push_back(server.ask({{sentence(number), {1, 3}}}));
    while (server.statistics().batches == 0) {
      std::this_thread::yield();
    }
  }
  is_open = true;
  is_open.notify_all();
  for (const Pending<Answer>& answer : answers) {
    const Status status = answer.wait();
    EXPECT_TRUE(status.has_value()) << (status.has_value() ? "" : status.error().to_string());
  }
}

TEST(ModelServerFaults, ARestartedDeviceReturnsWithPublishedWeights) {
  const Sims sims({.lost_at_submit = 30});
  const Frozen<Words> model = sims.model();
  ModelServer server(sims.runtime, model, {.devices = {sims.runtime.device("sim:0")}});
  ErrorCode code = ErrorCode::internal;
  for (std::int64_t number = 0; number < 100 && code == ErrorCode::internal; ++number) {
    Pending<Answer> answer = server.ask({{sentence(number), {1, 3}}});
    const Status status = answer.wait();
    code = status.has_value() ? code : status.error().code;
  }
  EXPECT_EQ(code, ErrorCode::device_lost);
  EXPECT_EQ(server.ask({{sentence(1), {1, 3}}}).wait().error().code, ErrorCode::device_lost);
  sims.runtime.device("sim:0").restart();
  server.publish(model);
  EXPECT_TRUE(
      is_near(server.answer({{sentence(1), {1, 3}}}).outputs[0].values<float>(), alone(model, 1)));
}

}  // namespace
}  // namespace hearth
