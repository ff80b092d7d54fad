#include "tune_run.hpp"

#include <hearth/backends/builtin/builtin.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "nearest_name.hpp"
#include "operands.hpp"
#include "runtime/device/peaks/device_list.hpp"
#include "runtime/device/tuning/call_key.hpp"
#include "runtime/device/tuning/wanted_call.hpp"
#include "suites.hpp"
#include "tune_table.hpp"

namespace hearth::bench {
namespace {

using detail::Candidate;
using detail::CandidateId;
using detail::TuneEntry;
using detail::Verdict;

Error mistake(std::string text) {
  return {.code = ErrorCode::invalid_argument, .text = std::move(text)};
}

Status add_rows(std::string_view filter, std::vector<TuneTarget>& targets) {
  HEARTH_TRY(const std::vector<SelectedRow> rows, select_rows(filter));
  for (const SelectedRow& each : rows) {
    HEARTH_TRY(std::vector<Problem> problems, parse_problems(each.row.problem));
    targets.push_back({.suite = std::string(each.suite),
                       .name = std::string(each.row.name),
                       .problem = std::move(problems.front())});
  }
  return {};
}

// A filter may look like an incomplete problem, as "matmul m=768": then its mistake counts only if
// no row has it.
Status add_named(const std::string& name, std::vector<TuneTarget>& targets) {
  if (name.find('=') == std::string::npos) {
    return add_rows(name, targets);
  }
  Result<std::vector<Problem>> problems = parse_problems(name);
  if (!problems.has_value()) {
    return add_rows(name, targets).has_value() ? Status() : problems.status();
  }
  for (Problem& each : problems.value()) {
    std::string text = each.text;
    targets.push_back({.name = std::move(text), .problem = std::move(each)});
  }
  return {};
}

std::vector<WantedOperand> operands_of(const std::vector<OperandSpec>& specs) {
  std::vector<WantedOperand> operands;
  operands.reserve(specs.size());
  for (const OperandSpec& spec : specs) {
    operands.push_back({.layout = layout_of(spec), .dtype = spec.dtype});
  }
  return operands;
}

std::string name_of(std::span<const Candidate> candidates, CandidateId id) {
  return std::string(detail::find_candidate(candidates, id)->name);
}

/// Fills in what the trials found. Times are those of the kernel that programs run from now on.
void add_result(Row& row, std::span<const Candidate> candidates, const TuneEntry& entry) {
  const detail::TuneEvidence& evidence = entry.evidence;
  const CandidateId pick = detail::pick_from(entry, candidates, Numerics::same_bits);
  const bool is_rule = pick == detail::kRulePick;
  row.pick = is_rule ? "rule" : name_of(candidates, pick);
  row.bits = is_rule ? "" : "=";
  row.check = evidence_of(entry);
  row.verdict = !is_rule                                ? Verdict::faster
                : evidence.doubt == detail::Doubt::none ? Verdict::same
                                                        : Verdict::unclear;
  row.verdict_text = row.verdict == Verdict::unclear
                         ? fmt::format("{}: {}", word(row.verdict), detail::name(evidence.doubt))
                         : std::string(word(row.verdict));
  if (row.verdict == Verdict::unclear) {
    return;
  }
  row.gain = is_rule ? 1 : 1 / evidence.ratio;
  const auto rung = std::ranges::find(entry.ladder, pick, &detail::Rung::id);
  if (rung->low > detail::RunTime(0)) {  // the store keeps no samples, so there is no interval
    row.time = {.lowest = rung->low, .median = rung->median, .count = 1};
  }
  if (!is_rule) {
    row.against =
        detail::Judgement{.verdict = row.verdict,
                          .doubt = evidence.doubt,
                          .ratio = {evidence.ratio_low, evidence.ratio, evidence.ratio_high},
                          .pair_count = evidence.pair_count};
    row.verdict_text = describe(*row.against);
  }
}

Row failed(Row row, const Error& error) {
  row.is_wrong = true;
  row.verdict_text = "FAILED";
  row.check = error.text;
  return row;
}

}  // namespace

Result<std::vector<TuneTarget>> tune_targets(std::span<const std::string> names) {
  static const std::array<std::string, 2> kInitial{"matmul", "conv"};
  std::vector<TuneTarget> targets;
  for (const std::string& name : names.empty() ? std::span<const std::string>(kInitial) : names) {
    HEARTH_TRY_STATUS(add_named(name, targets));
  }
  std::set<std::string> seen;
  std::erase_if(targets,
                [&](const TuneTarget& each) { return !seen.insert(each.problem.text).second; });
  return targets;
}

Result<AutotuneLevel> level_of_trials(const std::string& chosen) {
  if (chosen.empty()) {
    HEARTH_TRY(const AutotuneLevel level, autotune_level(detail::Settings::from_environment()));
    if (detail::most_challengers(level) == 0) {
      return mistake(fmt::format(
          "HEARTH_AUTOTUNE={} allows no trials; --level balanced runs them all the same",
          detail::name(level)));
    }
    return level;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < detail::kAutotuneLevels.size(); ++i) {
    const auto level = static_cast<AutotuneLevel>(i);
    if (detail::most_challengers(level) == 0) {
      continue;
    }
    if (detail::name(level) == chosen) {
      return level;
    }
    names.emplace_back(detail::name(level));
  }
  return mistake(fmt::format("--level {}{}; the levels with trials are {}",
                             chosen,
                             did_you_mean(chosen, names),
                             fmt::join(names, ", ")));
}

Result<std::unique_ptr<TuneRun>> TuneRun::open(const std::string& device, AutotuneLevel level) {
  try {
    const DeviceList list = device_list({.devices = {{.name = device}}}, SourceLoc::current());
    const BackendRequest request{
        .name = list.devices[0].name, .cores = list.devices[0].cores, .compiles_beside = false};
    return open({.open = [request] { return make_backend(request); }, .level = level});
  } catch (const ArgumentError& error) {
    return error.error();
  }
}

Result<std::unique_ptr<TuneRun>> TuneRun::open(TuneSubject subject) {
  std::unique_ptr<TuneRun> made(new TuneRun);
  HEARTH_TRY(made->backend_, subject.open());
  const BackendInfo& info = made->backend_->info();
  if (info.fingerprint.empty()) {
    return mistake(fmt::format(
        "{} has one kernel for each call, so there is nothing to tune; cpu devices have choices",
        info.name));
  }
  subject.fingerprint = detail::Fingerprint::of_text(info.fingerprint);
  made->subject_ = std::move(subject);
  HEARTH_TRY(const detail::TuneStore store,
             made->subject_.open_store(detail::TuneAccess::read_write, made->log_));
  made->store_path_ = store.path().string();
  return made;
}

/// A call, and what the device may run for it; without candidates there is one kernel.
struct TuneRun::Choices {
  WantedCall wanted;
  std::vector<Candidate> candidates;
};

TuneRun::Choices TuneRun::choices_of(const Problem& problem) {
  Choices choices{.wanted = {.record = problem.record(),
                             .blob = problem.blob(),
                             .inputs = operands_of(problem.inputs),
                             .outputs = operands_of(problem.outputs)},
                  .candidates = {}};
  const CallWithoutBytes without(choices.wanted);
  const KernelCall call = without.call();
  choices.wanted.key = key_of(call, backend_->info().core_count);
  choices.candidates = backend_->kernels().candidates(call);
  return choices;
}

WantedCall TuneRun::wanted(const Problem& problem) {
  return choices_of(problem).wanted;
}

Row TuneRun::tune(const TuneTarget& target, Deadline deadline) {
  const Problem& problem = target.problem;
  Row row{.suite = target.suite,
          .name = target.name,
          .problem = problem.text,
          .flops = problem.cost.flops,
          .bytes = problem.cost.bytes,
          .verdict = Verdict::same};
  // Fused calls follow the rule.
  const bool may_have_choices = may_be_picked(problem.kind) && !problem.epilogue;
  Choices choices = may_have_choices ? choices_of(problem) : Choices();
  const std::vector<Candidate>& candidates = choices.candidates;
  if (candidates.empty()) {
    row.verdict_text = fmt::format("{}: one kernel", word(row.verdict));
    return row;
  }
  row.rule = candidates.front().name;
  WantedCalls calls;
  calls.calls.push_back(std::move(choices.wanted));
  const Result<TuneRound> round = subject_.tune(calls, deadline, log_);
  if (!round.has_value()) {
    return failed(std::move(row), round.error());
  }
  if (round.value().tuned.entries.empty()) {
    row.verdict = Verdict::unclear;
    row.verdict_text = fmt::format(
        "{}: {}", word(row.verdict), deadline.has_passed() ? "no time left" : "a busy machine");
    return row;
  }
  add_result(row, candidates, round.value().tuned.entries.front());
  return row;
}

}  // namespace hearth::bench
