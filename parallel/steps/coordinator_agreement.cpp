// The coordinator's part in a training over several processes: what a failed step still owes the
// other processes, and their common decision.
#include "coordinator_loop.hpp"
#include "step_agreement.hpp"

#include <hearth/parallel/call_place.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hearth {

bool CoordinatorLoop::has_turn(std::int64_t number) const {
  return !options_.agreement ||
         std::all_of(steps_.begin(), steps_.lower_bound(number), [](const auto& earlier) {
           return earlier.second.has_voted || earlier.second.is_agreed;
         });
}

void CoordinatorLoop::advance(std::int64_t number, Step& step) {
  if (!has_turn(number)) {
    return;
  }
  for (CompleteBucket& each : std::exchange(step.complete, {})) {
    if (step.failure) {  // the engine threw on an earlier bucket
      for (LentRegion& region : each.bucket.regions) {
        region.done(step.failure);
      }
      continue;
    }
    reduce(number, step, each.index, std::move(each.bucket));
    if (each.index + 1 == options_.bucket_count && options_.agreement) {
      share_sweep(step);
    }
  }
}

void CoordinatorLoop::pass_turn() {
  for (auto& [number, step] : steps_) {
    if (!step.has_voted && !step.is_agreed) {
      advance(number, step);
      if (step.failure) {
        settle_debt(step);
      }
      return;  // if it has voted now, it has passed its turn itself
    }
  }
}

// A step that has failed here owes its other buckets and its report, or its vote.
void CoordinatorLoop::settle_debt(Step& step) {
  if (!options_.agreement || step.is_agreed || !has_turn(step.report.step)) {
    return;
  }
  if (!step.has_shared_sweep) {
    while (step.reduced_count < options_.bucket_count) {
      options_.agreement->owe(step.reduced_count++);
    }
    share_sweep(step);
  } else if (step.is_sweep_agreed) {
    vote(step);
  }
}

void CoordinatorLoop::share_sweep(Step& step) {
  if (std::exchange(step.has_shared_sweep, true)) {
    return;
  }
  SweptProcess own{.happened_count = statistics_.steps - statistics_.failed_steps,
                   .failure = step.failure};
  for (const RankState& rank : step.ranks) {
    if (!step.failure) {
      own.ranks.push_back({.loss = rank.loss,
                           .loss_kind = rank.loss_kind,
                           .weight = rank.weight,
                           .unused = rank.unused});
    }
  }
  options_.agreement->share_sweep(
      step.report.step,
      own,
      [mailbox = mailbox_, number = step.report.step](Result<std::vector<SweptProcess>> all) {
        mailbox->messages.try_push(message::Swept{number, std::move(all)});
      });
}

void CoordinatorLoop::vote(Step& step) {
  if (std::exchange(step.has_voted, true)) {
    return;
  }
  options_.agreement->vote(
      step.report.step,
      step.failure,
      [mailbox = mailbox_, number = step.report.step](Result<std::vector<ErrorRef>> all) {
        mailbox->messages.try_push(message::Voted{number, std::move(all)});
      });
  pass_turn();
}

// All processes report the same failure: that of the first process that failed.
void CoordinatorLoop::take_failure(Step& step, const ErrorRef& error, bool is_own) {
  step.is_agreed = true;
  if (!step.failure) {
    fail(step, error);
  } else if (!is_own) {
    detail::mark_read(*step.failure);
    const ErrorRef placed = detail::placed(error, step.where);
    step.failure = options_.watchdog ? options_.watchdog->failures().enter(placed) : placed;
  }
  pass_turn();
}

void CoordinatorLoop::handle(message::Swept swept) {
  const auto found = steps_.find(swept.step);
  if (found == steps_.end()) {
    return;
  }
  Step& step = found->second;
  const std::size_t own = options_.agreement->ranks().process;
  if (!swept.all.has_value()) {
    take_failure(step, swept.all.shared_error(), false);
    close(found);
    return;
  }
  const std::vector<SweptProcess>& all = swept.all.value();
  const auto failed =
      std::ranges::find_if(all, [](const SweptProcess& each) { return each.failure != nullptr; });
  if (failed != all.end()) {
    take_failure(step, failed->failure, static_cast<std::size_t>(failed - all.begin()) == own);
    close(found);
    return;
  }
  // A process that fails at once may not have ended the step before, so counts are compared last.
  for (std::size_t process = 0; process < all.size(); ++process) {
    if (all[process].happened_count != all[0].happened_count) {
      take_failure(step,
                   coordinator::shared(
                       {.code = ErrorCode::collective_failed,
                        .text = fmt::format(
                            "step {}: {} has made {} steps, {} {}: a process failed after the "
                            "commit of a step, so the models differ",
                            swept.step,
                            options_.agreement->group().name_of(static_cast<int>(process)),
                            all[process].happened_count,
                            options_.agreement->group().name_of(0),
                            all[0].happened_count)}),
                   false);
      close(found);
      return;
    }
  }
  step.is_sweep_agreed = true;
  for (const SweptProcess& process : all) {
    step.swept.insert(step.swept.end(), process.ranks.begin(), process.ranks.end());
  }
  if (!step.failure) {
    check_weights(swept.step, step);
  }
  if (step.failure) {
    vote(step);
    return;
  }
  answer_unused(step);
  if (step.prepared_count == step.ranks.size()) {
    vote(step);
  } else if (step.prepared_count > 0) {
    step.prepared_wait = RankWait(options_.deadline);
  }
}

// A lane that reached its own limit since the vote has aborted the decision. The next step then
// finds that the processes differ.
void CoordinatorLoop::handle(message::Voted voted) {
  const auto found = steps_.find(voted.step);
  if (found == steps_.end()) {
    return;
  }
  Step& step = found->second;
  if (!voted.all.has_value()) {
    take_failure(step, voted.all.shared_error(), false);
    close(found);
    return;
  }
  const std::vector<ErrorRef>& all = voted.all.value();
  const auto failed =
      std::ranges::find_if(all, [](const ErrorRef& error) { return error != nullptr; });
  if (failed != all.end()) {
    take_failure(
        step,
        *failed,
        static_cast<std::size_t>(failed - all.begin()) == options_.agreement->ranks().process);
    close(found);
    return;
  }
  step.is_agreed = true;
  if (step.decision->commit()) {
    await_end(step, options_.deadline);
    settle(step);
  } else {
    fail(step, step.decision->error());
  }
  close(found);
}

}  // namespace hearth
