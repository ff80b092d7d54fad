// Deadlines of the coordinator: for a rank's missing bucket, prepared update or end of step, and
// for an engine that keeps a bucket. Expired waits are abandoned here.
#include "coordinator_loop.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hearth {

Deadline CoordinatorLoop::next_deadline() const {
  Deadline earliest = Deadline::never();
  for (const auto& [number, step] : steps_) {
    earliest = std::min({earliest, step.prepared_wait.next_check(), step.end_deadline});
    for (const auto& [index, bucket] : step.buckets) {
      earliest = std::min(earliest, bucket.wait.next_check());
    }
    for (const ReducingBucket& bucket : step.reducing) {
      earliest = std::min(earliest, bucket.deadline);
    }
  }
  return earliest;
}

bool RankWait::has_expired(const std::vector<RankProgress>& progress,
                           const std::vector<std::size_t>& missing,
                           Deadline last) {
  if (!next_check_.has_passed()) {
    return false;
  }
  std::uint64_t now = 0;
  for (const std::size_t rank : missing) {
    now += rank < progress.size() && progress[rank] ? progress[rank]() : 0;
  }
  const bool is_first = !seen_;
  if (!is_first && (*seen_ == now || last.has_passed())) {
    return true;
  }
  seen_ = now;
  next_check_ = is_first ? end_ : Deadline::in(half_);
  end_ = next_check_;
  return false;
}

// A rank that compiles its first kernels counts as progress. A rank that never arrives delays the
// others at most by the time that a step may take, counted from its turn.
bool CoordinatorLoop::has_expired(const Step& step,
                                  RankWait& wait,
                                  const std::vector<std::size_t>& missing) const {
  return !wait.next_check().is_never() &&
         wait.has_expired(progress_, missing, std::max(step.whole, next_whole_));
}

void CoordinatorLoop::expire() {
  for (auto& [number, opened] : steps_) {
    Step& step = opened;  // clang 14 captures no structured binding
    const auto overdue = std::ranges::find_if(step.buckets, [&](auto& entry) {
      return has_expired(step, entry.second.wait, coordinator::missing_from(entry.second.regions));
    });
    if (overdue != step.buckets.end()) {
      abandon_ranks(step,
                    coordinator::missing_from(overdue->second.regions),
                    fmt::format("bucket {} of {}", overdue->first, options_.bucket_count),
                    options_.deadline);
    } else if (has_expired(step, step.prepared_wait, coordinator::missing_from(step.prepared))) {
      abandon_ranks(
          step, coordinator::missing_from(step.prepared), "its update", options_.deadline);
    } else if (step.end_deadline.has_passed()) {
      step.end_deadline = Deadline::never();
      abandon_ranks(
          step,
          unfinished(step),
          step.decision->is_committed() ? "the end of its update" : "its end after a failure",
          step.end_limit);
    }
    recall(step);
  }
}

std::vector<std::size_t> CoordinatorLoop::unfinished(const Step& step) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    if (!step.ranks[rank].is_finished && !step.ranks[rank].is_abandoned) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// A hanging engine names no rank: all its loans are recalled, and all ranks are abandoned.
void CoordinatorLoop::recall(Step& step) {
  std::erase_if(step.reducing, [](const ReducingBucket& bucket) {
    return bucket.has_ended->load(std::memory_order_acquire);  // partner: reduce
  });
  const auto is_late = [](const ReducingBucket& bucket) { return bucket.deadline.has_passed(); };
  const auto first = std::ranges::find_if(step.reducing, is_late);
  if (first == step.reducing.end()) {
    return;
  }
  const ErrorRef error =
      step.failure ? step.failure
                   : late(step,
                          fmt::format("bucket {} of {}", first->index, options_.bucket_count),
                          "the engine",
                          options_.deadline);
  record_hang(step, {}, error);
  fail(step, error);
  recall_loans(step, error);
  abandon_all_ranks(step);
  decide(step);
}

void CoordinatorLoop::recall_loans(Step& step, const ErrorRef& error) {
  for (const ReducingBucket& bucket : step.reducing) {
    for (const LoanRecall& loan : bucket.loans) {
      loan.recall(error);
    }
  }
  step.reducing.clear();
}

void CoordinatorLoop::abandon_ranks(Step& step,
                                    const std::vector<std::size_t>& missing,
                                    const std::string& what,
                                    std::chrono::nanoseconds limit) {
  const ErrorRef error = late(step, what, coordinator::names_of(*step.names, missing), limit);
  record_hang(step, missing, error);
  for (const std::size_t rank : missing) {
    step.ranks[rank].is_abandoned = true;
  }
  fail(step, error);
  decide(step);
}

void CoordinatorLoop::record_hang(const Step& late,
                                  const std::vector<std::size_t>& missing,
                                  const ErrorRef& error) {
  for (const std::size_t rank : missing) {
    if (std::ranges::find(trouble_.missing, static_cast<int>(rank)) == trouble_.missing.end()) {
      trouble_.missing.push_back(static_cast<int>(rank));
    }
  }
  if (!options_.mends_hangs) {
    return;
  }
  trouble_.has_hang = true;
  refusal_ = coordinator::shared(
      {.code = ErrorCode::collective_failed,
       .text = fmt::format("step {} hung: the trainer recovers from that first", late.report.step),
       .cause = error});
  mailbox_->has_trouble.store(true, std::memory_order_release);  // partner: has_trouble
  // This runs before the late step ends, because a rank that it releases must not begin another
  // step. The other ranks must not wait either for an engine that the hung rank may hold.
  for (auto& [number, step] : steps_) {
    recall_loans(step, error);
    if (&step != &late) {
      fail(step, refusal_);
      abandon_all_ranks(step);
      decide(step);
    }
  }
}

void CoordinatorLoop::forget_deadlines(Step& step) {
  step.prepared_wait = RankWait();
  step.end_deadline = Deadline::never();
}

void CoordinatorLoop::abandon_all_ranks(Step& step) {
  forget_deadlines(step);
  for (RankState& rank : step.ranks) {
    rank.is_abandoned = true;
  }
}

// The report is made while the waiter still waits: a later report would not contain it.
ErrorRef CoordinatorLoop::late(const Step& step,
                               const std::string& what,
                               const std::string& who,
                               std::chrono::nanoseconds limit) {
  // After a failure the limit is the deadline plus the time of the last step (end_limit_of).
  const bool is_deadline =
      limit == options_.deadline ||
      (step_time_ && limit == detail::saturated_sum(options_.deadline, *step_time_));
  std::string report;
  if (options_.watchdog) {
    report =
        fmt::format("{}\n  coordinator: {}", options_.watchdog->report(what, witness_), describe());
  }
  return coordinator::shared(
      {.code = ErrorCode::deadline_exceeded,
       .text = fmt::format("step {}, {}: {} did not arrive within {} "
                           "(DataParallelOptions::{}, a Trainer's TrainerOptions::parallel)",
                           step.report.step,
                           what,
                           who,
                           std::chrono::duration_cast<std::chrono::milliseconds>(limit),
                           is_deadline ? "deadline" : "step_limit"),
       .report = detail::Report(std::move(report))});
}

}  // namespace hearth
