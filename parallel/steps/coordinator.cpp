#include <hearth/parallel/coordinator.hpp>

#include "coordinator_loop.hpp"

#include <hearth/runtime/base/failure_book.hpp>

#include <utility>

namespace hearth {

CoordinatorInbox::CoordinatorInbox(std::shared_ptr<CoordinatorMailbox> mailbox,
                                   int first_rank) noexcept
    : mailbox_(std::move(mailbox)), first_rank_(first_rank) {}

// Inbox calls use try_push: the mailbox has no limit, and a thread that holds a device's token must
// not stop at a schedule point. A refused message is destroyed here. Its destructor returns a lent
// region, or aborts an update.
void CoordinatorInbox::arrive(BucketArrival arrival) const {
  arrival.rank -= first_rank_;
  mailbox_->messages.try_push(std::move(arrival));
}
Pending<std::vector<std::size_t>> CoordinatorInbox::ask_unused(
    std::int64_t step, int rank, std::vector<std::size_t> parameters) const {
  Promise<std::vector<std::size_t>> answer(
      PendingOptions{.subject = "the parameters that no rank uses"});
  Pending<std::vector<std::size_t>> pending = answer.pending();
  mailbox_->messages.try_push(
      message::AskUnused{step, rank - first_rank_, std::move(parameters), std::move(answer)});
  return pending;
}
void CoordinatorInbox::prepared(std::int64_t step, int rank, PreparedUpdate update) const {
  mailbox_->messages.try_push(message::Prepared{step, rank - first_rank_, std::move(update)});
}
void CoordinatorInbox::abort(std::int64_t step, ErrorRef error) const {
  mailbox_->messages.try_push(message::Abort{step, std::move(error)});
}
void CoordinatorInbox::finish(
    std::int64_t step, int rank, ErrorRef error, double learning_rate, StepScale scale) const {
  mailbox_->messages.try_push(
      message::Finish{step, rank - first_rank_, std::move(error), learning_rate, scale});
}

bool detail::is_device_loss(const Error& error) noexcept {
  return error.code == ErrorCode::device_lost || (error.cause && is_device_loss(*error.cause));
}

bool detail::is_device_hang(const Error& error) noexcept {
  const bool is_of_op =
      error.code == ErrorCode::deadline_exceeded && !error.device.empty() && !error.op.empty();
  return is_of_op || (error.cause && is_device_hang(*error.cause));
}

StepCoordinator::StepCoordinator(detail::Executor& executor,
                                 Collective& engine,
                                 CoordinatorOptions options)
    : mailbox_(std::make_shared<CoordinatorMailbox>()),
      watchdog_(options.watchdog),
      wait_limit_(options.wait_limit),
      first_rank_(options.first_rank) {
  detail::OwnedThreadOptions thread{.subject = "the coordinator",
                                    .observe = [] { return std::string("its engine keeps it"); },
                                    .limit = options.shutdown_limit,
                                    .log = options.log};
  auto loop = std::make_unique<CoordinatorLoop>(mailbox_, engine, std::move(options));
  thread_ = std::make_unique<detail::OwnedThread>(executor,
                                                  detail::ThreadOptions{.name = "coordinator"},
                                                  std::move(thread),
                                                  [loop = std::move(loop)] { loop->run(); });
}

// Closing the mailbox ends the loop; the destructor of `thread_` waits for it.
StepCoordinator::~StepCoordinator() {
  mailbox_->messages.close();
}

Pending<DataParallelReport> StepCoordinator::begin(std::int64_t step,
                                                   std::int64_t sample_count,
                                                   std::shared_ptr<UpdateDecision> decision,
                                                   SourceLoc where) {
  Promise<DataParallelReport> outcome(awaiting("a data-parallel step", where));
  Pending<DataParallelReport> pending = outcome.pending();
  mailbox_->messages.push(
      message::Begin{step, sample_count, std::move(decision), std::move(outcome), where});
  return pending;
}

void StepCoordinator::require_steps_told(SourceLoc where) {
  if (const ErrorRef lost = mailbox_->lost.take_dropped()) {
    detail::mark_read(*lost);
    throw_error(Error{
        .code = lost->code,
        .text = "DataParallel: an earlier step did not happen, and its report was dropped unread",
        .op = "DataParallel",
        .device = lost->device,
        .location = where,
        .cause = lost});
  }
}

void StepCoordinator::cancel(ErrorRef error) {
  mailbox_->messages.push(message::Cancel{std::move(error)});
}

bool StepCoordinator::has_trouble() const noexcept {
  return mailbox_->has_trouble.load(std::memory_order_acquire);  // partner: close, decide
}

CoordinatorTrouble StepCoordinator::trouble() {
  Promise<CoordinatorTrouble> answer(awaiting("an answer of the coordinator"));
  Pending<CoordinatorTrouble> pending = answer.pending();
  mailbox_->messages.push(message::AskTrouble{std::move(answer)});
  return std::move(pending).get();
}

void StepCoordinator::rejoin(std::vector<std::string> ranks, std::vector<RankProgress> progress) {
  mailbox_->messages.push(message::Rejoin{std::move(ranks), std::move(progress)});
}

CoordinatorStatistics StepCoordinator::statistics() {
  Promise<CoordinatorStatistics> answer(awaiting("an answer of the coordinator"));
  Pending<CoordinatorStatistics> pending = answer.pending();
  mailbox_->messages.push(message::AskStatistics{std::move(answer)});
  return std::move(pending).get();
}

}  // namespace hearth
