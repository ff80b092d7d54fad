// One rank's copy of the model, without a trainer.
#include <hearth/parallel/replica.hpp>

#include <hearth/modules/sgd.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/gradient_exchange.hpp>
#include <hearth/parallel/inproc_collective.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

#include "parallel/steps/step_terms.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace hearth {
namespace {

class NoShards final : public RankShards {
 public:
  void take() override { throw std::runtime_error("there are none"); }
  [[nodiscard]] std::size_t count() const override { return 0; }
  [[nodiscard]] std::int64_t sample_count() const override { return 0; }
};

// The end of a decision may destroy an unread failure. It is logged, and the program's log function
// may call any API.
TEST(Replica, ADecisionThatEndsMayAskForTheGenerator) {
  const Runtime runtime({.devices = {{.name = "sim:0"}}});
  const Device device = runtime.device("sim:0");
  RankReplica replica(Sgd({.learning_rate = 0.1}), nullptr, Generator(1));
  Promise<std::uint64_t> seed;
  const Pending<std::uint64_t> answer = seed.pending();
  std::optional<bool> was_answered;
  std::jthread asker;
  {
    InprocCollective engine;
    StepCoordinator coordinator(
        runtime.executor(), engine, {.ranks = {"rank 0"}, .deadline = std::chrono::minutes(1)});
    const StepTerms terms{.plan = BucketPlan({}, 1),
                          .coordinator = coordinator.inbox(),
                          .lane_limit = std::chrono::minutes(1),
                          .update_limit = std::chrono::minutes(1)};
    WorkerContext context{.device = device,
                          .generator = Generator(2),
                          .communication = Stream(device),
                          .stop = {},
                          .subject = "worker 0"};
    std::shared_ptr<UpdateDecision> decision(new UpdateDecision, [&](UpdateDecision* ended) {
      delete ended;
      asker = std::jthread([&] { seed.set_value(replica.generator().seed()); });
      was_answered =
          detail::PendingAccess::is_ready_by(answer, Deadline::in(std::chrono::seconds(10)));
    });
    static_cast<void>(coordinator.begin(1, 1, decision));
    replica.run({.step = 1,
                 .sample_count = 1,
                 .decision = std::move(decision),
                 .shards = std::make_unique<NoShards>()},
                terms,
                context);
  }
  ASSERT_FALSE(was_answered.has_value()) << "the replica still has it";
  replica.set_generator(Generator(3));
  EXPECT_TRUE(was_answered.value_or(false));
}

// The other rank's answer and the limit of this rank's wait coincide, in either order.
TEST(GradientExchange, AnAnswerAtTheVeryLimitIsTheAnswerOrTheLateError) {
  int answered = 0;
  int late = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    ManualExecutor executor(seed);
    executor.run([&] {
      const Runtime runtime({.devices = {{.name = "sim:0"}}, .executor = &executor});
      const Device device = runtime.device("sim:0");
      InprocCollective engine;
      StepCoordinator coordinator(
          executor,
          engine,
          {.ranks = {"rank 0", "rank 1"}, .bucket_count = 1, .deadline = std::chrono::minutes(1)});
      const auto decision = std::make_shared<UpdateDecision>();
      const Pending<DataParallelReport> step = coordinator.begin(1, 2, decision);
      const BucketPlan plan({{.dtype = DType::f32, .shape = {1}}}, 1);
      const auto rank = [&](int number, std::chrono::nanoseconds limit) {
        WorkerContext context{.rank = number,
                              .world = 2,
                              .device = device,
                              .generator = Generator(2),
                              .communication = Stream(device),
                              .stop = {},
                              .subject = "worker"};
        GradientExchange exchange(plan, coordinator.inbox(), context, 1, std::chrono::minutes(1));
        Gradients gradients({"p"}, {Tensor()});
        exchange.add_zeros(plan.parameters().size());
        exchange.collect(gradients);
        const ErrorRef error = exchange.leave_out_unused(gradients, limit);
        EXPECT_EQ(error == nullptr, !gradients.has_gradient(0))
            << "with no word of why, the parameter that nobody uses is left out";
        return error;
      };
      constexpr std::chrono::nanoseconds kLimit = std::chrono::seconds(5);
      const auto other = executor.spawn({.name = "rank 1"}, [&] {
        detail::current_context().parker().park(Deadline::in(kLimit));
        static_cast<void>(rank(1, std::chrono::minutes(1)));
      });
      ++(rank(0, kLimit) ? late : answered);
      other->join();
      for (const int number : {0, 1}) {
        coordinator.inbox().finish(1, number, nullptr);
      }
      static_cast<void>(step.wait());
    });
  }
  EXPECT_GT(late, 0) << "the two orders of the race";
  EXPECT_EQ(late + answered, 40);
}

}  // namespace
}  // namespace hearth
