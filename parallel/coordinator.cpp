#include <hearth/parallel/coordinator.hpp>

#include "coordinator_loop.hpp"

#include <utility>

namespace hearth {

CoordinatorInbox::CoordinatorInbox(std::shared_ptr<CoordinatorMailbox> mailbox) noexcept
    : mailbox_(std::move(mailbox)) {}

// try_push throughout: the mailbox has no limit, and the holder of a device's token must not stop
// at a schedule point. A refused message dies here, which gives a lent region back.
void CoordinatorInbox::arrive(BucketArrival arrival) const {
  mailbox_->messages.try_push(std::move(arrival));
}
void CoordinatorInbox::abort(std::int64_t step, ErrorRef error) const {
  mailbox_->messages.try_push(message::Abort{step, std::move(error)});
}
void CoordinatorInbox::finish(std::int64_t step, int rank, ErrorRef error) const {
  mailbox_->messages.try_push(message::Finish{step, rank, std::move(error)});
}

Coordinator::Coordinator(Executor& executor, Collective& engine, CoordinatorOptions options)
    : mailbox_(std::make_shared<CoordinatorMailbox>()) {
  auto loop = std::make_unique<CoordinatorLoop>(mailbox_, engine, std::move(options));
  thread_ = executor.spawn({.name = "coordinator"}, [loop = std::move(loop)] { loop->run(); });
}

Coordinator::~Coordinator() {
  mailbox_->messages.close();
  thread_->join();
}

Pending<DataParallelReport> Coordinator::begin(std::int64_t step, std::int64_t sample_count) {
  Promise<DataParallelReport> outcome(PendingOptions{.subject = "a data-parallel step"});
  Pending<DataParallelReport> pending = outcome.pending();
  mailbox_->messages.push(message::Begin{step, sample_count, std::move(outcome)});
  return pending;
}

void Coordinator::cancel(ErrorRef error) {
  mailbox_->messages.push(message::Cancel{std::move(error)});
}

std::vector<int> Coordinator::stragglers() {
  if (!mailbox_->has_stragglers.load(std::memory_order_acquire)) {  // partner: close
    return {};
  }
  Promise<std::vector<int>> answer(PendingOptions{.subject = "an answer of the coordinator"});
  Pending<std::vector<int>> pending = answer.pending();
  mailbox_->messages.push(message::AskStragglers{std::move(answer)});
  return std::move(pending).get();
}

void Coordinator::rejoin() {
  mailbox_->messages.push(message::Rejoin{});
}

CoordinatorStatistics Coordinator::statistics() {
  Promise<CoordinatorStatistics> answer(PendingOptions{.subject = "an answer of the coordinator"});
  Pending<CoordinatorStatistics> pending = answer.pending();
  mailbox_->messages.push(message::AskStatistics{std::move(answer)});
  return std::move(pending).get();
}

}  // namespace hearth
