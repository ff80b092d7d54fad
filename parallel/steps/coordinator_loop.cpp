#include "coordinator_loop.hpp"

#include <hearth/parallel/call_place.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace hearth {
namespace {

// Completion callback that an engine receives with a bucket. An engine that destroys it uncalled,
// by a throw for example, ends the step as well.
class BucketEnd final {
 public:
  BucketEnd(CoordinatorInbox inbox, std::int64_t step, std::shared_ptr<std::atomic<bool>> has_ended)
      : inbox_(std::move(inbox)), step_(step), has_ended_(std::move(has_ended)) {}
  BucketEnd(BucketEnd&&) noexcept = default;
  BucketEnd& operator=(BucketEnd&&) noexcept = delete;
  BucketEnd(const BucketEnd&) = delete;
  BucketEnd& operator=(const BucketEnd&) = delete;
  ~BucketEnd() {
    if (has_ended_ != nullptr) {
      (*this)(Error{.code = ErrorCode::collective_failed,
                    .text = "the engine dropped a bucket: it never called `finished`"});
    }
  }

  void operator()(const Status& status) {
    if (const auto has_ended = std::exchange(has_ended_, nullptr)) {
      has_ended->store(true, std::memory_order_release);  // partner: reduce, expire
      if (!status.has_value()) {
        inbox_.abort(step_, status.shared_error());
      }
    }
  }

 private:
  CoordinatorInbox inbox_;
  std::int64_t step_;
  std::shared_ptr<std::atomic<bool>> has_ended_;  // null: the engine has answered
};

// The engine's exception that is being handled, as an error.
ErrorRef engine_threw() {
  std::string what = "something that is no std::exception";
  try {
    throw;
  } catch (const Exception& exception) {
    detail::mark_unread(exception.error());
    return exception.shared_error();
  } catch (const std::exception& exception) {
    what = exception.what();
  } catch (...) {
  }
  return coordinator::shared(
      {.code = ErrorCode::collective_failed, .text = "the collective engine threw: " + what});
}

}  // namespace

CoordinatorLoop::CoordinatorLoop(std::shared_ptr<CoordinatorMailbox> mailbox,
                                 Collective& engine,
                                 CoordinatorOptions options)
    : mailbox_(std::move(mailbox)),
      engine_(engine),
      options_(std::move(options)),
      names_(std::make_shared<const std::vector<std::string>>(options_.ranks)),
      progress_(options_.progress) {
  if (options_.watchdog) {
    witness_ = options_.watchdog->watch(
        {.name = "coordinator",
         .ask =
             [mailbox = mailbox_](Promise<std::string> answer) {
               mailbox->messages.try_push(message::AskReport{std::move(answer)});
             },
         .observe = [] { return std::string("its engine keeps it"); }});
  }
}

void CoordinatorLoop::run() {
  while (true) {
    std::optional<CoordinatorMessage> next = mailbox_->messages.pop(next_deadline());
    if (next) {
      std::visit([this](auto& message) { handle(std::move(message)); }, *next);
    } else if (mailbox_->messages.is_closed()) {
      return;  // remaining promises and regions end as `cancelled` in their destructors
    }
    expire();
  }
}

// Steps overlap: a trainer begins the next step before all ranks have ended the last one. A refusal
// left by that step therefore fails this one too, until it is mended.
void CoordinatorLoop::handle(message::Begin begin) {
  Step& step = steps_[begin.step];
  step.report = {.step = begin.step, .sample_count = begin.sample_count};
  step.outcome = std::move(begin.outcome);
  step.begun = detail::current_context().clock().now();
  step.whole = Deadline::in(detail::saturated_sum(options_.step_limit, options_.deadline));
  step.names = names_;
  step.ranks.resize(names_->size());
  step.prepared.resize(names_->size());
  step.decision = std::move(begin.decision);
  step.where = begin.where;
  if (refusal_) {
    fail(step, refusal_);
  }
  if (trouble_.has_hang) {
    abandon_all_ranks(step);
    decide(step);
  }
}

void CoordinatorLoop::handle(message::AskUnused question) {
  const auto found = steps_.find(question.step);
  if (found == steps_.end() || !has_rank(found->second, question.rank)) {
    return;  // the rank was abandoned; the destroyed promise yields `cancelled`
  }
  Step& step = found->second;
  if (step.failure) {
    question.answer.set_error(step.failure);
    return;
  }
  RankState& rank = step.ranks[static_cast<std::size_t>(question.rank)];
  rank.unused = std::move(question.parameters);
  rank.asked = std::move(question.answer);
}

// A rank that sent no question uses all parameters. All ranks receive the same answer; otherwise
// their replicas would differ.
void CoordinatorLoop::answer_unused(Step& step) {
  const std::vector<SweptRank> all = all_ranks(step);
  std::vector<std::size_t> unused = all.front().unused;
  for (const SweptRank& rank : all) {
    std::erase_if(unused, [&](std::size_t parameter) {
      return std::ranges::find(rank.unused, parameter) == rank.unused.end();
    });
  }
  for (RankState& rank : step.ranks) {
    if (rank.asked) {
      std::exchange(rank.asked, std::nullopt)->set_value(unused);
    }
  }
}

std::vector<SweptRank> CoordinatorLoop::all_ranks(const Step& step) {
  if (!step.swept.empty()) {
    return step.swept;
  }
  std::vector<SweptRank> all;
  for (const RankState& rank : step.ranks) {
    all.push_back({.loss = rank.loss,
                   .loss_kind = rank.loss_kind,
                   .weight = rank.weight,
                   .unused = rank.unused});
  }
  return all;
}

// From here to the decision every rank holds memory for its update and waits, so the first prepared
// update starts the clock. commit() fails if a rank's device has aborted meanwhile.
void CoordinatorLoop::handle(message::Prepared prepared) {
  const auto found = steps_.find(prepared.step);
  if (found == steps_.end()) {
    return;  // the rank was abandoned and the step is over; the destroyed update aborts
  }
  Step& step = found->second;
  if (!has_rank(step, prepared.rank)) {
    return;
  }
  PreparedUpdate& place = step.prepared[static_cast<std::size_t>(prepared.rank)];
  place = std::move(prepared.update);
  if (step.failure) {
    place.settle();  // its device reads the decision, which is aborted by now
    return;
  }
  // A rank may wait for the other processes' sweeps before it prepares.
  if (step.prepared_count == 0 && (!options_.agreement || step.is_sweep_agreed)) {
    step.prepared_wait = RankWait(options_.deadline);
  }
  if (++step.prepared_count < step.ranks.size()) {
    return;
  }
  step.prepared_wait = RankWait();
  if (options_.agreement) {
    if (step.is_sweep_agreed) {
      vote(step);
    }
  } else if (step.decision->commit()) {
    await_end(step, options_.deadline);
    settle(step);
  } else {
    fail(step, step.decision->error());  // a rank reached its limit and aborted
  }
}

// The last rank's part of a bucket starts its reduction. A rank sends its unused parameters before
// its last bucket, so all of them have arrived by then.
void CoordinatorLoop::handle(BucketArrival arrival) {
  const auto found = steps_.find(arrival.step);
  if (found == steps_.end()) {
    return;  // the rank abandoned the step earlier; the region is returned cancelled
  }
  Step& step = found->second;
  if (!has_rank(step, arrival.rank)) {
    return;
  }
  if (arrival.loss) {
    record_loss(step, arrival);
  }
  if (!arrival.region.has_value()) {
    fail(step, arrival.region.shared_error());
    return;
  }
  LentRegion region = std::move(arrival.region).value();
  if (step.failure) {
    region.done(step.failure);
    return;
  }
  WaitingBucket& bucket = step.buckets[arrival.bucket];
  if (bucket.count == 0) {
    bucket.regions.resize(step.ranks.size());
    bucket.wait = RankWait(options_.deadline);
  }
  bucket.regions[static_cast<std::size_t>(arrival.rank)] = std::move(region);
  bucket.is_early = bucket.is_early && arrival.is_early;
  if (arrival.bucket + 1 == options_.bucket_count) {
    step.ranks[static_cast<std::size_t>(arrival.rank)].sweep =
        detail::current_context().clock().now() - std::max(step.begun, last_end_);
  }
  if (++bucket.count == step.ranks.size()) {
    if (arrival.loss && !options_.agreement) {  // all ranks send it with the same bucket
      check_weights(arrival.step, step);
      if (step.failure) {
        return;  // fail() has returned the bucket
      }
    }
    WaitingBucket complete = std::move(bucket);
    step.buckets.erase(arrival.bucket);
    const bool is_last = arrival.bucket + 1 == options_.bucket_count;
    if (is_last && !options_.agreement) {
      answer_unused(step);
    }
    step.complete.push_back({.index = arrival.bucket, .bucket = std::move(complete)});
    advance(arrival.step, step);
  }
}

void CoordinatorLoop::record_loss(Step& step, const BucketArrival& arrival) {
  const Result<double>& loss = *arrival.loss;
  if (!loss.has_value()) {
    fail(step, loss.shared_error());
    return;
  }
  const auto index = static_cast<std::size_t>(arrival.rank);
  RankState& rank = step.ranks[index];
  rank.loss = loss.value();
  rank.loss_kind = arrival.loss_kind;
  rank.weight = arrival.weight;
  const bool is_loss_finite = std::isfinite(rank.loss) || options_.skips_overflows;
  if (!is_loss_finite || !std::isfinite(rank.weight)) {
    const double what = is_loss_finite ? rank.weight : rank.loss;
    fail(step,
         coordinator::shared({.code = ErrorCode::non_finite,
                              .text = fmt::format("step {}: the loss{} of {} is {}",
                                                  arrival.step,
                                                  is_loss_finite ? "'s weight" : "",
                                                  step.names->at(index),
                                                  std::isnan(what) ? std::fabs(what) : what)}));
  }
}

std::optional<double> CoordinatorLoop::weight_of(const Step& step) {
  std::optional<double> weight;
  for (const SweptRank& rank : all_ranks(step)) {
    if (rank.loss_kind == LossKind::sum) {
      weight = weight.value_or(0) + rank.weight;
    }
  }
  return weight;
}

void CoordinatorLoop::check_weights(std::int64_t number, Step& step) {
  const std::optional<double> weight = weight_of(step);
  if (!weight) {
    return;
  }
  if (std::ranges::count(all_ranks(step), LossKind::mean, &SweptRank::loss_kind) > 0) {
    fail(step,
         coordinator::shared({.code = ErrorCode::invalid_argument,
                              .text = fmt::format("step {}: the loss has a weight on some ranks, "
                                                  "and none on others",
                                                  number)}));
  } else if (!(*weight > 0)) {
    fail(step,
         coordinator::shared({.code = ErrorCode::non_finite,
                              .text = fmt::format("step {}: the weights of the loss add up to {}: "
                                                  "there is no mean",
                                                  number,
                                                  *weight)}));
  }
}

void CoordinatorLoop::reduce(std::int64_t number,
                             Step& step,
                             std::size_t index,
                             WaitingBucket bucket) {
  if (mailbox_->messages.is_closed()) {
    return;  // the engine may end before this thread does; the regions are returned cancelled
  }
  ++statistics_.buckets;
  statistics_.early_buckets += bucket.is_early ? 1 : 0;
  statistics_.bytes += bucket.regions.front().bytes().size();
  std::erase_if(step.reducing, [](const ReducingBucket& each) {
    return each.has_ended->load(std::memory_order_acquire);  // partner: `finished` below
  });
  const auto has_ended = std::make_shared<std::atomic<bool>>(false);
  step.reducing.push_back(
      {.index = index,
       .loans = {bucket.regions.begin(), bucket.regions.end()},
       .has_ended = has_ended,
       // a group of processes has its own limits
       .deadline = options_.agreement ? Deadline::never() : Deadline::in(options_.deadline)});
  step.reduced_count = index + 1;
  try {
    engine_.all_reduce(std::move(bucket.regions),
                       ReduceOp::sum,
                       BucketEnd(CoordinatorInbox(mailbox_), number, has_ended));
  } catch (...) {  // a program may implement the engine
    end_thrown(step, *has_ended, engine_threw());
  }
}

// The engine has ended with the bucket, even if it kept regions of it. No rank is late, so none is
// abandoned.
void CoordinatorLoop::end_thrown(Step& step, std::atomic<bool>& has_ended, const ErrorRef& error) {
  has_ended.store(true, std::memory_order_release);  // partner: recall
  fail(step, error);
  for (const LoanRecall& loan : step.reducing.back().loans) {
    loan.recall(step.failure);  // has no effect on regions that the engine has returned
  }
}

// The decision is aborted first: a rank that receives an answer or its bytes must find its update
// aborted.
void CoordinatorLoop::fail(Step& step, const ErrorRef& error) {
  if (step.failure) {
    // The report carries the first failure alone.
    if (detail::find_failure(*error) != detail::find_failure(*step.failure)) {
      detail::mark_read(*error);
    }
    return;
  }
  const ErrorRef placed = detail::placed(error, step.where);
  step.failure = options_.watchdog ? options_.watchdog->failures().enter(placed) : placed;
  step.decision->abort(step.failure);  // no effect after the commit
  step.prepared_wait = RankWait();
  settle(step);
  for (RankState& rank : step.ranks) {
    if (rank.asked) {
      std::exchange(rank.asked, std::nullopt)->set_error(step.failure);
    }
  }
  for (auto& [index, bucket] : std::exchange(step.buckets, {})) {
    for (LentRegion& region : bucket.regions) {
      region.done(step.failure);
    }
  }
  for (CompleteBucket& each : std::exchange(step.complete, {})) {
    for (LentRegion& region : each.bucket.regions) {
      region.done(step.failure);
    }
  }
  if (!step.decision->is_committed()) {
    await_end(step, end_limit_of(step));
  }
  settle_debt(step);
}

void CoordinatorLoop::await_end(Step& step, std::chrono::nanoseconds limit) {
  step.end_limit = limit;
  step.end_deadline = Deadline::in(limit);
}

// A hung rank must not extend the caller's wait beyond the step's own limits.
std::chrono::nanoseconds CoordinatorLoop::end_limit_of(const Step& step) const {
  const std::chrono::nanoseconds allowed =
      step_time_ ? detail::saturated_sum(options_.deadline, *step_time_) : options_.step_limit;
  const std::chrono::nanoseconds left =
      std::max(step.whole, next_whole_).left();  // it may have waited for its turn
  return std::max(std::min(allowed, left), options_.deadline);
}

void CoordinatorLoop::settle(Step& step) {
  for (PreparedUpdate& update : step.prepared) {
    update.settle();
  }
}

void CoordinatorLoop::handle(message::Abort abort) {
  if (const auto found = steps_.find(abort.step); found != steps_.end()) {
    fail(found->second, abort.error);
  }
}

void CoordinatorLoop::handle(message::Finish finish) {
  const auto found = steps_.find(finish.step);
  if (found == steps_.end() || !has_rank(found->second, finish.rank)) {
    return;
  }
  RankState& rank = found->second.ranks[static_cast<std::size_t>(finish.rank)];
  rank.is_finished = true;
  rank.error = std::move(finish.error);
  rank.learning_rate = finish.learning_rate;
  rank.scale = finish.scale;
  if (rank.error) {
    fail(found->second, rank.error);
  }
  close(found);
}

void CoordinatorLoop::handle(message::Cancel cancel) {
  refusal_ = cancel.error;
  for (auto& [number, step] : steps_) {
    fail(step, cancel.error);
  }
}

void CoordinatorLoop::handle(message::AskTrouble question) {
  question.answer.set_value(CoordinatorTrouble{.stragglers = std::exchange(trouble_.stragglers, {}),
                                               .missing = trouble_.missing,
                                               .has_hang = trouble_.has_hang,
                                               .has_lost_device = trouble_.has_lost_device});
}

void CoordinatorLoop::handle(message::AskStatistics question) {
  question.answer.set_value(statistics_);
}

void CoordinatorLoop::handle(message::AskReport question) {
  question.answer.set_value(describe());
}

std::string CoordinatorLoop::describe() const {
  std::string text = fmt::format("{} steps open", steps_.size());
  for (const auto& [number, step] : steps_) {
    for (const auto& [index, bucket] : step.buckets) {
      text +=
          fmt::format("\n    step {}, bucket {} waits for {}: {}",
                      number,
                      index,
                      coordinator::names_of(*step.names, coordinator::missing_from(bucket.regions)),
                      detail::time_left(bucket.wait.end()));
    }
    for (const ReducingBucket& bucket : step.reducing) {
      if (!bucket.has_ended->load(std::memory_order_acquire)) {  // partner: reduce
        text += fmt::format("\n    step {}, bucket {} waits for the engine: {}",
                            number,
                            bucket.index,
                            detail::time_left(bucket.deadline));
      }
    }
    if (step.prepared_count > 0 && step.prepared_count < step.prepared.size()) {
      text +=
          fmt::format("\n    step {}, the update waits for {}: {}",
                      number,
                      coordinator::names_of(*step.names, coordinator::missing_from(step.prepared)),
                      detail::time_left(step.prepared_wait.end()));
    }
    if (options_.agreement && step.has_shared_sweep && !step.is_agreed) {
      text += fmt::format("\n    step {} waits for the other processes", number);
    }
    for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
      if (!step.ranks[rank].is_finished) {
        text += fmt::format("\n    step {}: {} is not done", number, step.names->at(rank));
      }
    }
  }
  return text;
}

void CoordinatorLoop::handle(message::Rejoin rejoin) {
  names_ = std::make_shared<const std::vector<std::string>>(std::move(rejoin.ranks));
  progress_ = std::move(rejoin.progress);
  steps_.clear();  // their ranks are abandoned and gone
  trouble_ = {};
  refusal_ = nullptr;
  mailbox_->has_trouble.store(false, std::memory_order_release);  // partner: has_trouble
}

// The outcome is set when all ranks have finished, not when the failure is known: a caller that has
// the outcome may touch the replicas. A step happens on all ranks or on none, so a commit on any
// rank means that it has happened. A rank that did not follow is a straggler (close).
void CoordinatorLoop::decide(Step& step) {
  const auto is_settled = [](const RankState& rank) {
    return rank.is_finished || rank.is_abandoned;
  };
  if (step.outcome.is_fulfilled() || !is_agreed(step) ||
      !std::ranges::all_of(step.ranks, is_settled)) {
    return;
  }
  ++statistics_.steps;
  forget_deadlines(step);
  const detail::TimePoint start = std::max(step.begun, last_end_);
  last_end_ = detail::current_context().clock().now();
  next_whole_ = Deadline::in(detail::saturated_sum(options_.step_limit, options_.deadline));
  if (step.failure &&
      (detail::is_device_loss(*step.failure) || detail::is_device_hang(*step.failure))) {
    trouble_.has_lost_device = true;
    mailbox_->has_trouble.store(true, std::memory_order_release);  // partner: has_trouble
  }
  const bool has_happened = step.decision->is_committed() &&
                            std::ranges::any_of(step.ranks, std::logical_not(), &RankState::error);
  if (step.failure && !has_happened) {
    ++statistics_.failed_steps;
    step.outcome.set_error(mailbox_->lost.add(step.failure));
    return;
  }
  step_time_ = last_end_ - start;  // steps that happened only: a failed one may be short
  for (const SweptRank& rank : all_ranks(step)) {
    step.report.loss += rank.loss;
  }
  for (const RankState& rank : step.ranks) {
    if (!rank.error && rank.is_finished) {  // all ranks that committed have the same rate and scale
      learning_rate_ = rank.learning_rate;
      step.report.scale = rank.scale;
    }
  }
  step.report.learning_rate = learning_rate_;
  for (const RankState& rank : step.ranks) {
    step.report.sweeps.push_back(rank.sweep);
  }
  const std::optional<double> weight = weight_of(step);
  step.report.loss /= weight.value_or(1);
  step.report.weight = static_cast<double>(step.report.sample_count) * weight.value_or(1);
  step.report.late_failure = step.failure;
  if (step.failure) {
    detail::mark_read(*step.failure);  // the step has happened, and its report carries the failure
  }
  step.outcome.set_value(step.report);
}

// If only some ranks committed, the replicas differ: no step runs until the stragglers have the
// model again.
void CoordinatorLoop::close(std::map<std::int64_t, Step>::iterator found) {
  const std::vector<RankState>& ranks = found->second.ranks;
  const bool are_finished = std::ranges::all_of(ranks, &RankState::is_finished);
  const auto committed = std::ranges::count(ranks, nullptr, &RankState::error);
  const bool is_divided = are_finished && committed != 0 && committed != std::ssize(ranks);
  if (is_divided) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].error) {
        trouble_.stragglers.push_back(static_cast<int>(rank));
      }
    }
    refusal_ = coordinator::shared(
        {.code = ErrorCode::collective_failed,
         .text = fmt::format(
             "{} did not commit step {}, which others did",
             found->second.names->at(static_cast<std::size_t>(trouble_.stragglers.front())),
             found->first),
         .cause = coordinator::without_failure_entry(found->second.failure)});
    mailbox_->has_trouble.store(true, std::memory_order_release);  // partner: has_trouble
  }
  decide(found->second);  // the later steps report how many have happened
  if (is_divided) {
    for (auto& [number, step] : steps_) {
      fail(step, refusal_);
    }
  }
  if (are_finished && is_agreed(found->second)) {
    steps_.erase(found);
  }
}

}  // namespace hearth
