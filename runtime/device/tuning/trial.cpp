#include "trial.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/machine_load.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/streams/op_table.hpp>

#include "runtime/device/memory/guarded.hpp"

namespace hearth {
namespace {

using detail::Candidate;
using detail::CandidateId;
using detail::MachineLoad;
using detail::TuneEntry;
using detail::TuneStep;

// The normal ones last: the samples run on them.
constexpr std::array kAllData{TrialData::special, TrialData::one_hot, TrialData::normal};

detail::TimePoint trial_clock() noexcept {
  return detail::current_context().clock().now();
}

/// The machine's load; none in virtual time, where nothing may depend on the machine.
MachineLoad load_now() {
  return detail::current_context().is_manual() ? MachineLoad() : MachineLoad::now();
}

}  // namespace

// Phases: operands and candidates; a run of the rule, for the limit of its time; the tuner.
Result<std::unique_ptr<Trial>> Trial::begin(Backend& backend,
                                            const detail::TuneStore* store,
                                            const TrialOptions& options,
                                            WantedCall wanted,
                                            const TuneEntry* known) {
  std::unique_ptr<Trial> none;
  if (bytes_of(wanted) > options.most_bytes) {
    return none;
  }
  std::unique_ptr<Trial> trial(new Trial(backend, store, options, std::move(wanted)));
  HEARTH_TRY(TrialMemory memory, TrialMemory::make(backend, trial->wanted_, options.rotated_bytes));
  trial->memory_.emplace(std::move(memory));
  trial->candidates_ = backend.kernels().candidates(trial->memory_->call(0));
  if (trial->candidates_.empty()) {
    return none;
  }
  trial->memory_->fill(TrialData::normal);
  HEARTH_TRY(const std::chrono::nanoseconds one, trial->time_rule());
  if (one > options.longest_run) {
    return none;
  }
  trial->label_ = to_string(trial->wanted_.key, op_info(trial->wanted_.record.kind).name);
  trial->tuner_.emplace(
      options.tuner, trial->wanted_.key, trial->label_, trial->candidates_, known, nullptr);
  return trial;
}

Trial::Ran Trial::run(std::size_t set, CandidateId pick) {
  const Launch launch{.call = memory_->call(set), .pick = pick};
  Ran ran;
  ran.status = guarded("the kernel", [&]() -> Status {
    Issue issue = backend_.submit({&launch, 1}, {});
    ran.is_refused = issue.is_pick_refused;
    return std::move(issue.status);
  });
  return ran;
}

// The first run warms up.
Result<std::chrono::nanoseconds> Trial::time_rule() {
  HEARTH_TRY_STATUS(run(0, detail::kRulePick).status);
  const detail::TimePoint begin = trial_clock();
  HEARTH_TRY_STATUS(run(0, detail::kRulePick).status);
  return std::chrono::nanoseconds(trial_clock() - begin);
}

Result<Trial::Step> Trial::step(const IsInterrupted& is_interrupted) {
  const detail::TuneAction action = next();
  if (action.step == TuneStep::verify) {
    return verify(action.candidate, is_interrupted);
  }
  return sample_pair(is_interrupted);
}

// ---- verification ----

// An interrupted verification continues with the next set of data. The mark never stands between
// two steps: a program that ends there has not been ended by the candidate.
Result<Trial::Step> Trial::verify(CandidateId id, const IsInterrupted& is_interrupted) {
  std::optional<detail::TryingMark> mark;
  if (store_ != nullptr) {
    HEARTH_TRY(mark,
               store_->begin_trying(wanted_.key, label_, *detail::find_candidate(candidates_, id)));
  }
  bool is_refused = false;
  std::string mistake;
  while (data_ < kAllData.size() && mistake.empty() && !is_refused) {
    if (is_interrupted()) {
      return Step::interrupted;
    }
    HEARTH_TRY(mistake, compare(id, is_refused));
    ++data_;
  }
  end_verification(mistake, is_refused);
  return Step::taken;
}

// The rule's results are computed anew for each candidate: a candidate that writes out of bounds
// may have hit them.
Result<std::string> Trial::compare(CandidateId id, bool& is_refused) {
  memory_->fill_first(kAllData[data_]);
  memory_->clear_results(0);
  HEARTH_TRY_STATUS(run(0, detail::kRulePick).status);
  const std::vector<std::byte> expected = memory_->results(0);
  memory_->clear_results(0);
  const Ran ran = run(0, id);
  is_refused = ran.is_refused;
  if (!ran.status.has_value()) {
    return fmt::format("fails: {}", ran.status.error().text);
  }
  if (!memory_->are_guards_intact(0)) {
    return std::string("writes out of the bounds of its result");
  }
  if (!memory_->are_equal(memory_->results(0), expected)) {
    return std::string("computes other bytes than the rule");
  }
  return std::string();
}

void Trial::end_verification(const std::string& mistake, bool is_refused) {
  const Candidate& candidate = *detail::find_candidate(candidates_, next().candidate);
  if (is_refused || !mistake.empty()) {
    memory_->fill(TrialData::normal);  // also what a wrong candidate may have overwritten
  }
  data_ = 0;
  if (is_refused) {
    tuner_->refused();
  } else if (!mistake.empty()) {
    tuner_->failed(fmt::format("{} {}", candidate.name, mistake));
  } else {
    tuner_->verified(detail::VerifiedBy::same_bytes);
  }
}

// ---- samples ----

// An interrupted pair begins anew: its samples would lie far apart.
Trial::Step Trial::sample_pair(const IsInterrupted& is_interrupted) {
  do {
    if (sample(next().candidate, is_interrupted) == Step::interrupted) {
      tuner_->interrupted();
      return Step::interrupted;
    }
  } while (tuner_->is_in_pair());
  return Step::taken;
}

Result<std::optional<std::chrono::nanoseconds>> Trial::timed(CandidateId pick,
                                                             std::int32_t count,
                                                             const IsInterrupted& is_interrupted) {
  const detail::TimePoint begin = trial_clock();
  for (std::int32_t i = 0; i < count; ++i) {
    if (is_interrupted()) {
      return std::optional<std::chrono::nanoseconds>();
    }
    HEARTH_TRY_STATUS(run(next_set_++ % memory_->set_count(), pick).status);
  }
  return std::optional(std::chrono::nanoseconds(trial_clock() - begin));
}

// Phases: the number of runs, at the first sample of a candidate; the runs; the sample.
Trial::Step Trial::sample(CandidateId pick, const IsInterrupted& is_interrupted) {
  std::int32_t& count = run_counts_[pick];
  Result<std::optional<std::chrono::nanoseconds>> wall{std::optional<std::chrono::nanoseconds>()};
  if (count == 0) {
    constexpr std::int32_t kFirstRuns = 2;
    wall = timed(pick, 1, is_interrupted);  // warms up
    if (wall.has_value() && wall.value().has_value()) {
      wall = timed(pick, kFirstRuns, is_interrupted);
    }
    if (wall.has_value() && wall.value().has_value()) {
      const auto one = detail::RunTime(*wall.value()) / kFirstRuns;
      count = detail::runs_for(one, options_.tuner.judge.limits);
    }
  }
  const MachineLoad before = load_now();
  if (count > 0) {
    wall = timed(pick, count, is_interrupted);
  }
  const MachineLoad after = load_now();
  if (!wall.has_value()) {
    tuner_->failed(fmt::format("fails while it is timed: {}", wall.error().text));
    return Step::taken;
  }
  if (!wall.value().has_value()) {
    return Step::interrupted;
  }
  const std::chrono::nanoseconds time = *wall.value();
  const auto waited = detail::RunTime(after.waited - before.waited);
  const std::int32_t ran = time < options_.tuner.judge.limits.least_wall
                               ? std::exchange(count, count + count / 4 + 1)
                               : count;  // in the first case it was faster than at its first runs
  tuner_->sampled({.wall = time,
                   .run_count = ran,
                   .pressure = static_cast<float>(std::min(1.0, waited / detail::RunTime(time))),
                   .rotated_bytes = memory_->rotated_bytes(),
                   .source = detail::SampleSource::host_crew});
  return Step::taken;
}

TuneEntry Trial::entry() const {
  return tuner_->entry(detail::time_of_day(), load_now().load);
}

}  // namespace hearth
