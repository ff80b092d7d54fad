#include "tune_subject.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/file.hpp>

#include "trial_runner.hpp"

namespace hearth {
namespace {

Result<detail::TuneStore> open_store(const detail::Fingerprint& fingerprint,
                                     detail::TuneAccess access,
                                     detail::Log& log) {
  HEARTH_TRY(const std::filesystem::path folder, cache_dir());
  return detail::TuneStore::open(
      {.folder = folder / "autotune", .fingerprint = fingerprint, .access = access}, log);
}

const detail::TuneEntry* find(const detail::TuneFile& file, const detail::TuneKey& key) {
  for (const detail::TuneEntry& each : file.entries) {
    if (each.key == key) {
      return &each;
    }
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<Picks> TuneSubject::picks(int core_count, detail::Log& log) const {
  if (!open || level == AutotuneLevel::off) {
    return nullptr;
  }
  auto picks = std::make_shared<Picks>(core_count, level != AutotuneLevel::cached_only);
  const Result<detail::TuneStore> store = open_store(fingerprint, detail::TuneAccess::read, log);
  if (store.has_value()) {
    picks->add(store.value().content().entries);
  } else if (store.error().code != ErrorCode::not_found) {
    log.warn(fmt::format("stored picks are not used: {}", store.error().to_string()));
  }
  return picks;
}

Result<TuneRound> TuneSubject::tune(const WantedCalls& wanted,
                                    Deadline deadline,
                                    detail::Log& log) const {
  HEARTH_TRY(detail::TuneStore store, open_store(fingerprint, detail::TuneAccess::read_write, log));
  HEARTH_TRY(const std::unique_ptr<Backend> backend, open());
  TrialRunner runner(*backend, &store, {.tuner = {.level = level}});
  TuneRound round;
  for (const WantedCall& call : wanted.calls) {
    HEARTH_TRY(std::optional<detail::TuneEntry> entry,
               runner.tune(call, find(store.content(), call.key), deadline));
    if (!entry.has_value()) {
      ++round.left_count;
      continue;
    }
    HEARTH_TRY_STATUS(store.merge({*entry}, {}));
    round.unclear_count += entry->evidence.doubt != detail::Doubt::none ? 1 : 0;
    round.improved_count += entry->ladder.front().id != detail::kRulePick ? 1 : 0;
    log.debug([&] {
      return fmt::format("tuned {}: candidate {}, ratio {:.3f}",
                         entry->label,
                         entry->ladder.front().id,
                         entry->evidence.ratio);
    });
    round.tuned.entries.push_back(std::move(*entry));
  }
  return round;
}

}  // namespace hearth
