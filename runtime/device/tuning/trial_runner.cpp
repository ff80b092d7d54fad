#include "trial_runner.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/machine_load.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth {
namespace {

using detail::Candidate;
using detail::CandidateId;
using detail::MachineLoad;
using detail::TuneEntry;
using detail::Tuner;
using detail::TuneStep;

constexpr std::array kAllData{TrialData::special, TrialData::one_hot, TrialData::normal};

detail::TimePoint now() noexcept {
  return detail::current_context().clock().now();
}

}  // namespace

TrialRunner::Ran TrialRunner::run(const TrialMemory& memory, std::size_t set, CandidateId pick) {
  const Launch launch{.call = memory.call(set), .pick = pick};
  Issue issue = backend_.submit({&launch, 1}, {});
  return {.is_refused = issue.is_pick_refused, .status = std::move(issue.status)};
}

// The rule's results are computed anew for each candidate: a candidate that writes out of bounds
// may have hit them.
Result<std::string> TrialRunner::compare(TrialMemory& memory,
                                         const Candidate& candidate,
                                         bool& is_refused) {
  for (const TrialData data : kAllData) {
    memory.fill(data);
    memory.clear_results(0);
    HEARTH_TRY_STATUS(run(memory, 0, detail::kRulePick).status);
    const std::vector<std::byte> expected = memory.results(0);
    memory.clear_results(0);
    const Ran ran = run(memory, 0, candidate.id);
    is_refused = ran.is_refused;
    if (!ran.status.has_value()) {
      return fmt::format("fails: {}", ran.status.error().text);
    }
    if (!memory.are_guards_intact(0)) {
      return std::string("writes out of the bounds of its result");
    }
    if (!memory.are_equal(memory.results(0), expected)) {
      return std::string("computes other bytes than the rule");
    }
  }
  return std::string();
}

Status TrialRunner::verify(TrialMemory& memory,
                           Tuner& tuner,
                           const WantedCall& wanted,
                           const Candidate& candidate,
                           const std::string& label) {
  std::optional<detail::TryingMark> mark;
  if (store_ != nullptr) {
    HEARTH_TRY(mark, store_->begin_trying(wanted.key, label, candidate));
  }
  bool is_refused = false;
  HEARTH_TRY(const std::string mistake, compare(memory, candidate, is_refused));
  if (is_refused) {
    tuner.refused();
  } else if (!mistake.empty()) {
    tuner.failed(fmt::format("{} {}", candidate.name, mistake));
  } else {
    tuner.verified(detail::VerifiedBy::same_bytes);
  }
  return {};
}

void TrialRunner::sample(const TrialMemory& memory, Tuner& tuner, CandidateId pick) {
  const auto timed = [&](std::int32_t count) -> Result<std::chrono::nanoseconds> {
    const detail::TimePoint begin = now();
    for (std::int32_t i = 0; i < count; ++i) {
      HEARTH_TRY_STATUS(run(memory, next_set_++ % memory.set_count(), pick).status);
    }
    return std::chrono::nanoseconds(now() - begin);
  };
  std::int32_t& count = run_counts_[pick];
  if (count == 0) {
    constexpr std::int32_t kFirstRuns = 2;  // the first one warms up
    static_cast<void>(timed(1));
    const Result<std::chrono::nanoseconds> first = timed(kFirstRuns);
    const auto one = detail::RunTime(first.has_value() ? first.value() : std::chrono::seconds(1));
    count = detail::runs_for(one / kFirstRuns, options_.tuner.judge.limits);
  }
  const MachineLoad before = MachineLoad::now();
  const Result<std::chrono::nanoseconds> wall = timed(count);
  const MachineLoad after = MachineLoad::now();
  if (!wall.has_value()) {
    tuner.failed(fmt::format("fails while it is timed: {}", wall.error().text));
    return;
  }
  const auto waited = detail::RunTime(after.waited - before.waited);
  const std::int32_t ran =
      wall.value() < options_.tuner.judge.limits.least_wall
          ? std::exchange(count, count + count / 4 + 1)  // faster than at its first runs
          : count;
  tuner.sampled(
      {.wall = wall.value(),
       .run_count = ran,
       .pressure = static_cast<float>(std::min(1.0, waited / detail::RunTime(wall.value()))),
       .rotated_bytes = memory.rotated_bytes(),
       .source = detail::SampleSource::host_crew});
}

// Phases: operands and candidates; the tuner's actions until it is done. A rest that exceeds the
// deadline ends the trials at once.
Result<std::optional<TuneEntry>> TrialRunner::tune(const WantedCall& wanted,
                                                   const TuneEntry* known,
                                                   Deadline deadline) {
  HEARTH_TRY(TrialMemory memory, TrialMemory::make(backend_, wanted, options_.rotated_bytes));
  const std::vector<Candidate> candidates = backend_.kernels().candidates(memory.call(0));
  if (candidates.empty()) {
    return std::optional<TuneEntry>();
  }
  memory.fill(TrialData::normal);
  run_counts_.clear();
  const std::string label = to_string(wanted.key, op_info(wanted.record.kind).name);
  Tuner tuner(options_.tuner, wanted.key, label, candidates, known, nullptr);
  for (detail::TuneAction action = tuner.next(); action.step != TuneStep::done;
       action = tuner.next()) {
    if (deadline.has_passed() || (action.step == TuneStep::rest && deadline.left() < action.rest)) {
      return std::optional<TuneEntry>();
    }
    switch (action.step) {
      case TuneStep::verify:
        HEARTH_TRY_STATUS(verify(
            memory, tuner, wanted, *detail::find_candidate(candidates, action.candidate), label));
        break;
      case TuneStep::sample:
        sample(memory, tuner, action.candidate);
        break;
      case TuneStep::rest: {
        const Deadline end = Deadline::in(action.rest);
        while (!end.has_passed()) {
          detail::current_context().parker().park(end);
        }
        tuner.rested();
        break;
      }
      case TuneStep::done:
        break;
    }
  }
  return std::optional(tuner.entry(detail::time_of_day(), MachineLoad::now().load));
}

}  // namespace hearth
