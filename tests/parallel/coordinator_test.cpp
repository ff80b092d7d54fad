#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/inproc_collective.hpp>

#include "loan_desk.hpp"

#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/watchdog.hpp>
#include <hearth/runtime/stream.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;
using testing::LoanDesk;

ErrorRef error(ErrorCode code) {
  return std::make_shared<const Error>(Error{.code = code, .text = "for a test"});
}

void rest(std::chrono::nanoseconds time) {
  const Deadline end = Deadline::in(time);
  while (!end.has_passed()) {
    detail::current_context().parker().park(end);
  }
}

// Two ranks, two buckets of one element a step; the test plays the ranks.
class CoordinatorTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kSamples = 10;

  [[nodiscard]] Pending<DataParallelReport> begin(std::int64_t step) {
    decision_ = std::make_shared<UpdateDecision>();
    return coordinator_->begin(step, kSamples, decision_);
  }
  /// Lends a tensor with this value for rank `rank`; returns the tensor, which holds the result
  /// later.
  Tensor arrive(std::int64_t step, std::size_t bucket, int rank, float value, double loss = 0) {
    // A stream with a loan stands still, so each loan has its own stream.
    Stream stream(desk_.device(rank));
    const StreamScope scope(stream);
    std::vector<Tensor> results;
    std::vector<Tensor> tensors;
    tensors.push_back(full(desk_.device(rank), {1}, value));
    std::vector<LentRegion> regions = desk_.borrow(std::move(tensors), results);
    coordinator_->inbox().arrive({.step = step,
                                  .bucket = bucket,
                                  .rank = rank,
                                  .is_early = bucket == 0,
                                  .loss = loss,
                                  .region = std::move(regions[0])});
    return std::move(results[0]);
  }
  void finish(std::int64_t step, int rank, ErrorRef why = nullptr) {
    coordinator_->inbox().finish(step, rank, std::move(why));
  }
  static ErrorCode code_of(const Tensor& tensor) {
    const Status status = tensor.item_later().wait();
    return status.has_value() ? ErrorCode::internal : status.error().code;
  }

  LoanDesk desk_{2};
  std::shared_ptr<UpdateDecision> decision_;  ///< The last step's.
  InprocCollective engine_;
  std::unique_ptr<StepCoordinator> coordinator_ = std::make_unique<StepCoordinator>(
      desk_.runtime().executor(),
      engine_,
      CoordinatorOptions{
          .ranks = {"rank 0", "rank 1"}, .bucket_count = 2, .deadline = std::chrono::minutes(10)});
};

TEST_F(CoordinatorTest, ReducesABucketWhenAllRanksAreThere) {
  Pending<DataParallelReport> step = begin(1);
  const Tensor first = arrive(1, 0, 0, 3, 0.25);
  const Tensor second = arrive(1, 0, 1, 4, 0.5);
  EXPECT_EQ(first.item(), 7);
  EXPECT_EQ(second.item(), 7);
  finish(1, 0);
  EXPECT_FALSE(step.is_ready());
  finish(1, 1);
  const DataParallelReport report = std::move(step).get();
  EXPECT_EQ(report.step, 1);
  EXPECT_EQ(report.loss, 0.75);
  EXPECT_EQ(report.sample_count, kSamples);
}

TEST_F(CoordinatorTest, StepsAndBucketsMayOverlap) {
  const Pending<DataParallelReport> first_step = begin(1);
  const Pending<DataParallelReport> second_step = begin(2);
  const Tensor early = arrive(2, 1, 0, 1);
  const Tensor a = arrive(1, 1, 0, 2);
  const Tensor b = arrive(1, 1, 1, 5);
  const Tensor late = arrive(2, 1, 1, 10);
  EXPECT_EQ(a.item(), 7);
  EXPECT_EQ(b.item(), 7);
  EXPECT_EQ(early.item(), 11);
  EXPECT_EQ(late.item(), 11);
}

TEST_F(CoordinatorTest, AnAbortGivesEveryBucketOfTheStepBackWithTheError) {
  const Pending<DataParallelReport> step = begin(1);
  const Pending<DataParallelReport> next = begin(2);
  const Tensor waiting = arrive(1, 0, 0, 3);
  const Tensor of_next = arrive(2, 0, 0, 1);
  coordinator_->inbox().abort(1, error(ErrorCode::worker_failed));
  const Tensor late = arrive(1, 1, 0, 3);
  EXPECT_EQ(code_of(waiting), ErrorCode::worker_failed);
  EXPECT_EQ(code_of(late), ErrorCode::worker_failed);
  const Tensor other = arrive(2, 0, 1, 1);
  EXPECT_EQ(of_next.item(), 2);
  EXPECT_EQ(other.item(), 2);
}

TEST_F(CoordinatorTest, ARankThatIsNotOfTheStepIsNotHeard) {
  const Pending<DataParallelReport> step = begin(1);
  for (const int rank : {-1, 2}) {
    coordinator_->inbox().arrive({.step = 1,
                                  .bucket = 0,
                                  .rank = rank,
                                  .loss = {},
                                  .region = error(ErrorCode::worker_failed)});
    finish(1, rank, error(ErrorCode::worker_failed));
  }
  const Tensor first = arrive(1, 0, 0, 3);
  const Tensor second = arrive(1, 0, 1, 4);
  EXPECT_EQ(first.item(), 7);
  finish(1, 0);
  finish(1, 1);
  EXPECT_TRUE(step.wait().has_value());
}

TEST_F(CoordinatorTest, AMissingRegionEndsTheStep) {
  const Pending<DataParallelReport> step = begin(1);
  const Tensor waiting = arrive(1, 0, 0, 3);
  coordinator_->inbox().arrive(
      {.step = 1, .bucket = 0, .rank = 1, .loss = {}, .region = error(ErrorCode::kernel_failed)});
  EXPECT_EQ(code_of(waiting), ErrorCode::kernel_failed);
  finish(1, 0, error(ErrorCode::kernel_failed));
  finish(1, 1, error(ErrorCode::kernel_failed));
  EXPECT_EQ(step.wait().error().code, ErrorCode::kernel_failed);
  EXPECT_EQ(coordinator_->statistics().failed_steps, 1U);
}

TEST_F(CoordinatorTest, WhatComesForAStepThatIsOverIsCancelled) {
  const Pending<DataParallelReport> step = begin(1);
  finish(1, 0);
  finish(1, 1);
  ASSERT_TRUE(step.wait().has_value());
  EXPECT_EQ(code_of(arrive(1, 0, 0, 3)), ErrorCode::cancelled);
  finish(1, 0);
  coordinator_->inbox().abort(1, error(ErrorCode::worker_failed));
  EXPECT_EQ(coordinator_->statistics().steps, 1U);
}

TEST_F(CoordinatorTest, ItsInboxMayOutliveIt) {
  const Pending<DataParallelReport> step = begin(1);
  const Tensor waiting = arrive(1, 0, 0, 3);
  const CoordinatorInbox inbox = coordinator_->inbox();
  coordinator_.reset();
  EXPECT_EQ(step.wait().error().code, ErrorCode::cancelled);
  EXPECT_EQ(code_of(waiting), ErrorCode::cancelled);
  inbox.finish(1, 0, nullptr);
  inbox.arrive(
      {.step = 1, .bucket = 0, .rank = 1, .loss = {}, .region = error(ErrorCode::kernel_failed)});
}

TEST_F(CoordinatorTest, RanksThatDoNotCommitWithTheOthersStopEverything) {
  Pending<DataParallelReport> step = begin(1);
  EXPECT_TRUE(coordinator_->trouble().stragglers.empty());
  EXPECT_TRUE(decision_->commit());
  finish(1, 0);
  finish(1, 1, error(ErrorCode::out_of_memory));
  EXPECT_EQ(std::move(step).get().late_failure->code, ErrorCode::out_of_memory);
  EXPECT_EQ(coordinator_->trouble().stragglers, std::vector<int>{1});
  const Pending<DataParallelReport> refused = begin(2);
  EXPECT_EQ(code_of(arrive(2, 0, 0, 1)), ErrorCode::collective_failed);
  finish(2, 0, error(ErrorCode::collective_failed));
  finish(2, 1, error(ErrorCode::collective_failed));
  EXPECT_THAT(refused.wait().error().text, HasSubstr("rank 1 did not commit step 1"));
  coordinator_->rejoin({"rank 0", "rank 1"});
  EXPECT_TRUE(coordinator_->trouble().stragglers.empty());
  const Pending<DataParallelReport> again = begin(3);
  finish(3, 0);
  finish(3, 1);
  EXPECT_TRUE(again.wait().has_value());
}

// The caller has read the cause of the previous step's failure, but not that this step did not
// happen.
TEST_F(CoordinatorTest, ARefusedStepIsToldThoughTheReasonOfItsRefusalWasRead) {
  const auto watchdog = make_intrusive<detail::Watchdog>();
  coordinator_ =
      std::make_unique<StepCoordinator>(desk_.runtime().executor(),
                                        engine_,
                                        CoordinatorOptions{.ranks = {"rank 0", "rank 1"},
                                                           .bucket_count = 2,
                                                           .deadline = std::chrono::minutes(10),
                                                           .watchdog = watchdog});
  Pending<DataParallelReport> step = begin(1);
  EXPECT_TRUE(decision_->commit());
  finish(1, 0);
  finish(1, 1, watchdog->failures().enter(error(ErrorCode::out_of_memory)));
  EXPECT_EQ(std::move(step).get().late_failure->code, ErrorCode::out_of_memory);
  {
    const Pending<DataParallelReport> refused = begin(2);
    finish(2, 0, error(ErrorCode::collective_failed));
    finish(2, 1, error(ErrorCode::collective_failed));
    EXPECT_TRUE(
        detail::PendingAccess::is_ready_by(refused, Deadline::in(std::chrono::seconds(10))));
    EXPECT_FALSE(detail::PendingAccess::peek(refused).has_value()) << "over, and its report unread";
  }
  bool is_told = false;  // the coordinator records it directly after the report
  for (const Deadline end = Deadline::in(std::chrono::seconds(10));
       !is_told && !end.has_passed();) {
    try {
      coordinator_->require_steps_told({});
      detail::current_context().parker().park(Deadline::in(std::chrono::milliseconds(1)));
    } catch (const Exception&) {
      is_told = true;
    }
  }
  EXPECT_TRUE(is_told);
}

TEST_F(CoordinatorTest, ACancelEndsWhatIsOpenAndWhatComes) {
  const Pending<DataParallelReport> open = begin(1);
  const Tensor waiting = arrive(1, 0, 0, 1);
  coordinator_->cancel(error(ErrorCode::cancelled));
  EXPECT_EQ(code_of(waiting), ErrorCode::cancelled);
  const Pending<DataParallelReport> later = begin(2);
  EXPECT_EQ(code_of(arrive(2, 0, 0, 1)), ErrorCode::cancelled);
}

// A user's engine whose call does not return until the test releases it.
class PatientEngine final : public Collective {
 public:
  void all_reduce(std::vector<LentRegion> regions, ReduceOp /*op*/, Finished finished) override {
    ++calls;
    static_cast<void>(released_.wait({.deadline = Deadline::never()}));
    regions.clear();
    finished({});
  }
  void reduce_scatter(std::vector<LentRegion>, ReduceOp, Finished) override {}
  void all_gather(std::vector<LentRegion>, Finished) override {}
  void broadcast(std::vector<LentRegion>, int, Finished) override {}

  Promise<void> release;
  int calls = 0;

 private:
  const Pending<void> released_ = release.pending();
};

TEST(CoordinatorEnd, AnEngineWhoseCallDoesNotReturnIsLeftBehindAndCalledNoMore) {
  ManualExecutor executor;
  executor.run([&] {
    const LoanDesk desk(1, &executor);
    PatientEngine engine;
    std::vector<std::string> lines;
    detail::Log log(
        {.output = [&](detail::LogLevel, std::string_view line) { lines.emplace_back(line); }});
    auto coordinator = std::make_unique<StepCoordinator>(
        executor,
        engine,
        CoordinatorOptions{.ranks = {"rank 0"},
                           .bucket_count = 2,
                           .shutdown_limit = std::chrono::seconds(4),
                           .log = &log});
    const Pending<DataParallelReport> step =
        coordinator->begin(1, 1, std::make_shared<UpdateDecision>());
    std::vector<Tensor> results;
    for (std::size_t bucket = 0; bucket < 2; ++bucket) {
      Stream stream(desk.device(0));
      const StreamScope scope(stream);
      std::vector<Tensor> tensors;
      tensors.push_back(ones(desk.device(0), {1}));
      coordinator->inbox().arrive(
          {.step = 1,
           .bucket = bucket,
           .rank = 0,
           .loss = {},
           .region = std::move(desk.borrow(std::move(tensors), results)[0])});
    }
    const detail::TimePoint begin = executor.clock().now();
    coordinator.reset();
    EXPECT_EQ(executor.clock().now() - begin, std::chrono::seconds(4));
    EXPECT_THAT(lines,
                ::testing::ElementsAre("the coordinator does not end: its engine keeps it; its "
                                       "thread is abandoned"));
    engine.release.set_value();
    EXPECT_EQ(step.wait().error().code, ErrorCode::cancelled);
    EXPECT_EQ(engine.calls, 1);
    for (const Tensor& result : results) {
      EXPECT_EQ(result.item_later().wait().error().code, ErrorCode::cancelled);
    }
  });
}

TEST(CoordinatorEnd, KeepsWhatItWasGivenForAsLongAsItsEngineKeepsIt) {
  ManualExecutor executor;
  executor.run([&] {
    const LoanDesk desk(1, &executor);
    PatientEngine engine;
    detail::Log log({.output = [](detail::LogLevel, std::string_view) {}});
    auto kept = std::make_shared<int>(0);
    const std::weak_ptr<int> seen = kept;
    auto coordinator = std::make_unique<StepCoordinator>(
        executor,
        engine,
        CoordinatorOptions{.ranks = {"rank 0"},
                           .bucket_count = 1,
                           .shutdown_limit = std::chrono::nanoseconds::zero(),
                           .kept_alive = std::move(kept),
                           .log = &log});
    const Pending<DataParallelReport> step =
        coordinator->begin(1, 1, std::make_shared<UpdateDecision>());
    std::vector<Tensor> results;
    std::vector<Tensor> tensors;
    tensors.push_back(ones(desk.device(0), {1}));
    coordinator->inbox().arrive({.step = 1,
                                 .bucket = 0,
                                 .rank = 0,
                                 .loss = {},
                                 .region = std::move(desk.borrow(std::move(tensors), results)[0])});
    rest(std::chrono::seconds(1));
    coordinator.reset();
    EXPECT_FALSE(seen.expired());
    engine.release.set_value();
    rest(std::chrono::seconds(1));
    EXPECT_TRUE(seen.expired());
  });
}

// The deadline runs from the first rank's arrival at a bucket, not from the begin of the step,
// which may have waited long for its turn.
TEST(CoordinatorDeadline, RunsFromTheFirstArrivalOfABucket) {
  for (const std::chrono::seconds before : {std::chrono::seconds(30), std::chrono::seconds(300)}) {
    ManualExecutor executor;
    executor.run([&] {
      const LoanDesk desk(2, &executor);
      InprocCollective engine;
      StepCoordinator coordinator(
          executor,
          engine,
          {.ranks = {"rank 0", "rank 1"}, .bucket_count = 1, .deadline = std::chrono::seconds(5)});
      const auto lend_one = [&](int rank) {
        std::vector<Tensor> results;
        std::vector<Tensor> tensors;
        tensors.push_back(ones(desk.device(rank), {1}));
        coordinator.inbox().arrive(
            {.step = 1,
             .bucket = 0,
             .rank = rank,
             .loss = {},
             .region = std::move(desk.borrow(std::move(tensors), results)[0])});
        return std::move(results[0]);
      };
      const Pending<DataParallelReport> step =
          coordinator.begin(1, 1, std::make_shared<UpdateDecision>());
      rest(before);
      const Tensor first = lend_one(1);
      const auto value = first.item_later();
      rest(std::chrono::seconds(4));
      EXPECT_FALSE(value.is_ready());
      EXPECT_FALSE(step.is_ready());
      rest(std::chrono::seconds(2));
      ASSERT_FALSE(value.wait().has_value());
      EXPECT_THAT(value.wait().error().text,
                  HasSubstr("step 1, bucket 0 of 1: rank 0 did not arrive within 5000ms"));
      EXPECT_FALSE(step.is_ready()) << "rank 1 is still at it";
      coordinator.inbox().finish(1, 1, error(ErrorCode::deadline_exceeded));
      EXPECT_EQ(step.wait().error().code, ErrorCode::deadline_exceeded);
      EXPECT_FALSE(lend_one(0).item_later().wait().has_value());
      coordinator.inbox().finish(1, 0, error(ErrorCode::deadline_exceeded));
      EXPECT_TRUE(coordinator.trouble().stragglers.empty());
    });
  }
}

// A rank whose device makes progress for ever delays the others up to the limit of a step.
TEST(CoordinatorDeadline, ARankThatGetsOnAndNeverComesIsGivenUpWithTheStepsTime) {
  ManualExecutor executor;
  executor.run([&] {
    const LoanDesk desk(2, &executor);
    InprocCollective engine;
    std::uint64_t progress = 0;
    StepCoordinator coordinator(executor,
                                engine,
                                {.ranks = {"rank 0", "rank 1"},
                                 .bucket_count = 1,
                                 .progress = {[&progress] { return ++progress; }, {}},
                                 .deadline = std::chrono::seconds(5),
                                 .step_limit = std::chrono::seconds(30)});
    const Pending<DataParallelReport> step =
        coordinator.begin(1, 1, std::make_shared<UpdateDecision>());
    std::vector<Tensor> results;
    std::vector<Tensor> tensors;
    tensors.push_back(ones(desk.device(1), {1}));
    coordinator.inbox().arrive({.step = 1,
                                .bucket = 0,
                                .rank = 1,
                                .loss = {},
                                .region = std::move(desk.borrow(std::move(tensors), results)[0])});
    const auto value = results[0].item_later();
    rest(std::chrono::seconds(30));
    EXPECT_FALSE(value.is_ready()) << "rank 0 compiles";
    rest(std::chrono::seconds(10));
    EXPECT_FALSE(value.wait().has_value());
    coordinator.inbox().finish(1, 1, error(ErrorCode::deadline_exceeded));
    EXPECT_EQ(step.wait().error().code, ErrorCode::deadline_exceeded);
  });
}

}  // namespace
}  // namespace hearth
