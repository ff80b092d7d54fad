#include "tune_subject.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/machine_load.hpp>
#include <hearth/runtime/base/thread_context.hpp>

#include "trial.hpp"

namespace hearth {
namespace {

using detail::Quarantined;
using detail::TuneEntry;
using detail::TuneStep;

bool is_listed(const std::vector<Quarantined>& list, const Quarantined& each) {
  return std::ranges::any_of(list, [&](const Quarantined& other) {
    return other.id == each.id && other.text_hash == each.text_hash;
  });
}

void rest(std::chrono::nanoseconds time) {
  for (const Deadline end = Deadline::in(time); !end.has_passed();) {
    detail::current_context().parker().park(end);
  }
}

/// Runs the trial to its end. Returns nothing if the deadline comes first. A rest that exceeds the
/// deadline ends the trial at once.
Result<std::optional<TuneEntry>> run_trial(Trial& trial, Deadline deadline) {
  for (detail::TuneAction action = trial.next(); action.step != TuneStep::done;
       action = trial.next()) {
    if (deadline.has_passed() || (action.step == TuneStep::rest && deadline.left() < action.rest)) {
      return std::optional<TuneEntry>();
    }
    if (action.step == TuneStep::rest) {
      rest(action.rest);
      trial.rested();
    } else {
      HEARTH_TRY(const Trial::Step taken, trial.step([] { return false; }));
      static_cast<void>(taken);
    }
  }
  return std::optional(trial.entry());
}

}  // namespace

Result<AutotuneLevel> autotune_level(const detail::Settings& settings) {
  HEARTH_TRY(const std::optional<std::size_t> level,
             settings.choice(detail::Setting::autotune, detail::kAutotuneLevels));
  return level ? static_cast<AutotuneLevel>(*level) : AutotuneLevel::balanced;
}

TuneEntry known_entry(const detail::TuneFile& file, const detail::TuneKey& key) {
  TuneEntry known{.key = key};
  const auto own = std::ranges::find(file.entries, key, &TuneEntry::key);
  if (own != file.entries.end()) {
    known = *own;
  }
  for (const TuneEntry& entry : file.entries) {
    if (entry.key.kind != key.kind) {
      continue;
    }
    for (const Quarantined& each : entry.quarantined) {
      if (!is_listed(known.quarantined, each) &&
          known.quarantined.size() < TuneEntry::kMostRemarks) {
        known.quarantined.push_back(each);
      }
    }
  }
  detail::drop_quarantined_rungs(known);
  return known;
}

std::string describe(const TuneEntry& entry) {
  return fmt::format("tuned {}: candidate {}, ratio {:.3f}, {}",
                     entry.label,
                     entry.ladder.empty() ? detail::kRulePick : entry.ladder.front().id,
                     entry.evidence.ratio,
                     name(entry.evidence.doubt));
}

Result<detail::TuneStore> TuneSubject::open_store(detail::TuneAccess access,
                                                  detail::Log& log) const {
  HEARTH_TRY(const std::filesystem::path folder, cache_dir());
  return detail::TuneStore::open(
      {.folder = folder / "autotune", .fingerprint = fingerprint, .access = access}, log);
}

std::vector<TuneEntry> TuneSubject::stored(detail::Log& log) const {
  const Result<detail::TuneStore> store = open_store(detail::TuneAccess::read, log);
  if (store.has_value()) {
    return store.value().content().entries;
  }
  if (store.error().code != ErrorCode::not_found) {
    log.warn(fmt::format("stored picks are not used: {}", store.error().to_string()));
  }
  return {};
}

Result<TuneRound> TuneSubject::tune(const WantedCalls& wanted,
                                    Deadline deadline,
                                    detail::Log& log) const {
  HEARTH_TRY(detail::TuneStore store, open_store(detail::TuneAccess::read_write, log));
  HEARTH_TRY(const std::unique_ptr<Backend> backend, open());
  TuneRound round;
  for (const WantedCall& call : wanted.calls) {
    std::optional<TuneEntry> entry;
    const TuneEntry known = known_entry(store.content(), call.key);
    const std::vector<detail::Candidate> candidates =
        backend->kernels().candidates(CallWithoutBytes(call).call());
    if (!detail::is_stale(known, candidates, detail::time_of_day())) {
      entry = known;  // another device, or another process, found it meanwhile
    } else if (!deadline.has_passed()) {
      HEARTH_TRY(const std::unique_ptr<Trial> trial,
                 Trial::begin(*backend, &store, {.tuner = {.level = level}}, call, &known));
      if (trial) {
        HEARTH_TRY(entry, run_trial(*trial, deadline));
      }
    }
    if (!entry.has_value()) {
      ++round.left_count;
      continue;
    }
    HEARTH_TRY_STATUS(store.merge({*entry}, {}));
    round.unclear_count += entry->evidence.doubt != detail::Doubt::none ? 1 : 0;
    round.improved_count += entry->ladder.front().id != detail::kRulePick ? 1 : 0;
    log.debug([&] { return describe(*entry); });
    round.tuned.entries.push_back(std::move(*entry));
  }
  return round;
}

}  // namespace hearth
