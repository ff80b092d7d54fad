// StepCoordinator over several processes, which threads play here. Each process has one rank and
// one bucket of one element; the test plays the ranks.
#include "parallel/steps/step_agreement.hpp"

#include <hearth/parallel/coordinator.hpp>

#include "fake_network.hpp"
#include "loan_desk.hpp"

#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/stream.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using testing::as_processes;
using testing::FakeNetwork;
using ::testing::HasSubstr;
using testing::LoanDesk;

class PlayedProcess final {
 public:
  explicit PlayedProcess(const ProcessGroup& group)
      : agreement_(std::make_shared<StepAgreement>(
            group,
            1,
            std::vector<GradientBucket>{{.dtype = DType::f32, .element_count = 1, .entries = {}}},
            std::chrono::minutes(1),
            SourceLoc::current())),
        coordinator_(desk_.runtime().executor(),
                     agreement_->engine(),
                     {.ranks = {"rank " + std::to_string(group.rank())},
                      .bucket_count = 1,
                      .deadline = std::chrono::minutes(1),
                      .agreement = agreement_,
                      .first_rank = group.rank()}),
        rank_(group.rank()) {}

  [[nodiscard]] Pending<DataParallelReport> begin(std::int64_t step) {
    decision_ = std::make_shared<UpdateDecision>();
    return coordinator_.begin(step, 1, decision_);
  }
  void arrive(std::int64_t step) {
    Stream stream(desk_.device(0));
    const StreamScope scope(stream);
    std::vector<Tensor> tensors;
    tensors.push_back(full(desk_.device(0), {1}, 1));
    std::vector<Tensor> results;
    std::vector<LentRegion> regions = desk_.borrow(std::move(tensors), results);
    coordinator_.inbox().arrive(
        {.step = step, .bucket = 0, .rank = rank_, .loss = 1.0, .region = std::move(regions[0])});
    results_.push_back(std::move(results[0]));
  }
  void prepare(std::int64_t step) { coordinator_.inbox().prepared(step, rank_, {}); }
  void finish(std::int64_t step, ErrorRef why = nullptr) {
    coordinator_.inbox().finish(step, rank_, std::move(why));
  }
  /// Waits until the coordinator has handled the messages so far.
  void flush() { static_cast<void>(coordinator_.statistics()); }
  /// Waits until the last step that began has its decision.
  void await_commit() {
    const Deadline end = Deadline::in(std::chrono::seconds(30));
    while (!decision_->is_committed() && !end.has_passed()) {
      flush();
    }
    EXPECT_TRUE(decision_->is_committed());
  }

 private:
  LoanDesk desk_{1};
  std::shared_ptr<StepAgreement> agreement_;
  std::shared_ptr<UpdateDecision> decision_;  ///< The last step's.
  std::vector<Tensor> results_;
  StepCoordinator coordinator_;
  const int rank_;
};

ErrorRef error(const std::string& text) {
  return std::make_shared<const Error>(Error{.code = ErrorCode::worker_failed, .text = text});
}

std::string text_of(const Pending<DataParallelReport>& step) {
  const Status status = step.wait();
  return status.has_value() ? "no error" : status.error().text;
}

// In step 1 the update of process 1 fails after its sweep. Before the vote its rank sends all of
// step 2, while process 0 has not yet ended its own sweep.
TEST(CoordinatorProcesses, SendNothingOfAStepBeforeTheVoteOnTheLastOne) {
  FakeNetwork network(2);
  detail::Mailbox<bool> ahead;
  as_processes(network, 2, [&](const ProcessGroup& group) {
    PlayedProcess process(group);
    const Pending<DataParallelReport> first = process.begin(1);
    const Pending<DataParallelReport> second = process.begin(2);
    if (group.is_first()) {
      EXPECT_TRUE(ahead.pop(Deadline::in(std::chrono::seconds(30))).has_value());
      process.arrive(1);
      process.prepare(1);
      process.finish(1, error("the late failure"));
      EXPECT_THAT(text_of(first), HasSubstr("the late failure"));
      process.arrive(2);
    } else {
      process.arrive(1);
      process.finish(1, error("the late failure"));
      process.arrive(2);
      process.flush();
      ahead.push(true);
      EXPECT_THAT(text_of(first), HasSubstr("the late failure"));
    }
    process.prepare(2);
    process.await_commit();
    process.finish(2);
    EXPECT_EQ(text_of(second), "no error");
  });
}

// A step that happened in process 0 alone ends the training, but not before a failure of its own
// is reported.
TEST(CoordinatorProcesses, TellAnExceptionBeforeThatTheModelsDiffer) {
  FakeNetwork network(2);
  as_processes(network, 2, [&](const ProcessGroup& group) {
    PlayedProcess process(group);
    const Pending<DataParallelReport> divided = process.begin(1);
    process.arrive(1);
    process.prepare(1);
    process.await_commit();
    process.finish(1, group.is_first() ? nullptr : error("after the commit"));
    EXPECT_EQ(text_of(divided), group.is_first() ? "no error" : "after the commit");

    const Pending<DataParallelReport> failed = process.begin(2);
    if (group.is_first()) {
      process.finish(2, error("the program's exception"));
    } else {
      process.arrive(2);
      process.finish(2);
    }
    EXPECT_THAT(text_of(failed), HasSubstr("the program's exception"));

    const Pending<DataParallelReport> next = process.begin(3);
    process.arrive(3);
    process.finish(3);
    EXPECT_THAT(text_of(next), HasSubstr("so the models differ"));
  });
}

}  // namespace
}  // namespace hearth
