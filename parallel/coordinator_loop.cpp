#include "coordinator_loop.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace hearth {
namespace {

ErrorRef shared(Error error) {
  return std::make_shared<const Error>(std::move(error));
}

}  // namespace

CoordinatorLoop::CoordinatorLoop(std::shared_ptr<CoordinatorMailbox> mailbox,
                                 Collective& engine,
                                 CoordinatorOptions options)
    : mailbox_(std::move(mailbox)), engine_(engine), options_(std::move(options)) {}

void CoordinatorLoop::run() {
  while (true) {
    std::optional<CoordinatorMessage> next = mailbox_->messages.pop(next_deadline());
    if (next) {
      std::visit([this](auto& message) { handle(std::move(message)); }, *next);
    } else if (mailbox_->messages.is_closed()) {
      return;  // promises and regions that are left say `cancelled` by themselves
    }
    expire();
  }
}

void CoordinatorLoop::handle(message::Begin begin) {
  Step& step = steps_[begin.step];
  step.report = {.step = begin.step, .sample_count = begin.sample_count};
  step.outcome = std::move(begin.outcome);
  step.ranks.resize(options_.ranks.size());
  step.failure = refusal_;
}

void CoordinatorLoop::handle(BucketArrival arrival) {
  const auto found = steps_.find(arrival.step);
  if (found == steps_.end()) {
    return;  // the rank gave the step up before this was ready; the region comes back cancelled
  }
  Step& step = found->second;
  if (arrival.loss) {
    note_loss(arrival.step, step, arrival.rank, *arrival.loss);
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
    bucket.regions.resize(options_.ranks.size());
    bucket.deadline = Deadline::in(options_.deadline);
  }
  bucket.regions[static_cast<std::size_t>(arrival.rank)] = std::move(region);
  bucket.is_early = bucket.is_early && arrival.is_early;
  if (++bucket.count == options_.ranks.size()) {
    WaitingBucket complete = std::move(bucket);
    step.buckets.erase(arrival.bucket);
    reduce(arrival.step, std::move(complete));
  }
}

void CoordinatorLoop::note_loss(std::int64_t number,
                                Step& step,
                                int rank,
                                const Result<double>& loss) {
  if (!loss.has_value()) {
    fail(step, loss.shared_error());
    return;
  }
  const auto index = static_cast<std::size_t>(rank);
  step.ranks[index].loss = loss.value();
  if (!std::isfinite(loss.value())) {
    fail(step,
         shared(
             {.code = ErrorCode::non_finite,
              .text = fmt::format(
                  "step {}: the loss of {} is {}", number, options_.ranks[index], loss.value())}));
  }
}

void CoordinatorLoop::reduce(std::int64_t number, WaitingBucket bucket) {
  ++statistics_.buckets;
  statistics_.early_buckets += bucket.is_early ? 1 : 0;
  statistics_.bytes += bucket.regions.front().bytes().size();
  try {
    engine_.all_reduce(std::move(bucket.regions),
                       ReduceOp::sum,
                       [inbox = CoordinatorInbox(mailbox_), number](const Status& status) {
                         if (!status.has_value()) {
                           inbox.abort(number, status.shared_error());
                         }
                       });
  } catch (
      ...) {  // the seam is a user's to implement; regions that it dropped report `cancelled` by themselves
    CoordinatorInbox(mailbox_).abort(number, detail::error_of_current_exception());
  }
}

void CoordinatorLoop::fail(Step& step, const ErrorRef& error) {
  if (step.failure) {
    return;
  }
  step.failure = error;
  for (auto& [index, bucket] : std::exchange(step.buckets, {})) {
    for (LentRegion& region : bucket.regions) {
      region.done(error);
    }
  }
}

void CoordinatorLoop::handle(message::Abort abort) {
  if (const auto found = steps_.find(abort.step); found != steps_.end()) {
    fail(found->second, abort.error);
  }
}

void CoordinatorLoop::handle(message::Finish finish) {
  const auto found = steps_.find(finish.step);
  if (found == steps_.end()) {
    return;
  }
  RankState& rank = found->second.ranks[static_cast<std::size_t>(finish.rank)];
  rank.is_finished = true;
  rank.error = std::move(finish.error);
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

void CoordinatorLoop::handle(message::AskStragglers question) {
  question.answer.set_value(stragglers_);
}

void CoordinatorLoop::handle(message::AskStatistics question) {
  question.answer.set_value(statistics_);
}

void CoordinatorLoop::handle(message::Rejoin /*rejoin*/) {
  stragglers_.clear();
  refusal_ = nullptr;
  mailbox_->has_stragglers.store(false, std::memory_order_release);
}

void CoordinatorLoop::decide(Step& step) {
  const auto is_settled = [](const RankState& rank) {
    return rank.is_finished || rank.is_given_up;
  };
  if (step.outcome.is_fulfilled() || !std::ranges::all_of(step.ranks, is_settled)) {
    return;
  }
  ++statistics_.steps;
  if (step.failure) {
    ++statistics_.failed_steps;
    step.outcome.set_error(step.failure);
    return;
  }
  for (const RankState& rank : step.ranks) {
    step.report.loss += rank.loss;
  }
  step.outcome.set_value(step.report);
}

void CoordinatorLoop::close(std::map<std::int64_t, Step>::iterator found) {
  const std::vector<RankState>& ranks = found->second.ranks;
  const bool is_over = std::ranges::all_of(ranks, &RankState::is_finished);
  const auto committed = std::ranges::count(ranks, nullptr, &RankState::error);
  const bool is_divided = is_over && committed != 0 && committed != std::ssize(ranks);
  if (is_divided) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].error) {
        stragglers_.push_back(static_cast<int>(rank));
      }
    }
    refusal_ =
        shared({.code = ErrorCode::collective_failed,
                .text = fmt::format("{} did not commit step {}, which others did",
                                    options_.ranks[static_cast<std::size_t>(stragglers_.front())],
                                    found->first),
                .cause = found->second.failure});
    mailbox_->has_stragglers.store(true, std::memory_order_release);  // partner: stragglers
    for (auto& [number, step] : steps_) {
      fail(step, refusal_);
    }
  }
  decide(found->second);
  if (is_over) {
    steps_.erase(found);
  }
}

Deadline CoordinatorLoop::next_deadline() const {
  Deadline earliest = Deadline::never();
  for (const auto& [number, step] : steps_) {
    for (const auto& [index, bucket] : step.buckets) {
      earliest = std::min(earliest, bucket.deadline);
    }
  }
  return earliest;
}

void CoordinatorLoop::expire() {
  for (auto& [number, step] : steps_) {
    const auto late = std::ranges::find_if(
        step.buckets, [](const auto& entry) { return entry.second.deadline.has_passed(); });
    if (late == step.buckets.end()) {
      continue;
    }
    std::vector<std::string> missing;
    for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
      if (!late->second.regions[rank].is_valid()) {
        step.ranks[rank].is_given_up = true;
        missing.push_back(options_.ranks[rank]);
      }
    }
    fail(step,
         shared({.code = ErrorCode::deadline_exceeded,
                 .text = fmt::format(
                     "step {}, bucket {} of {}: {} did not come within {}",
                     number,
                     late->first,
                     options_.bucket_count,
                     fmt::join(missing, ", "),
                     std::chrono::duration_cast<std::chrono::milliseconds>(options_.deadline))}));
    decide(step);
  }
}

}  // namespace hearth
