#include "tune_table.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "report.hpp"

namespace hearth::bench {
namespace {

using detail::TuneEntry;

/// The backend has the names of candidates; a file has their numbers.
std::string pick_of(const TuneEntry& entry) {
  if (entry.ladder.empty()) {
    return "none yet";
  }
  const detail::CandidateId id = entry.ladder[0].id;
  return id == detail::kRulePick ? std::string("rule") : fmt::format("#{}", id);
}

std::string gain_of(const TuneEntry& entry) {
  return entry.evidence.ratio > 0 ? fmt::format("{:.2f}", 1 / entry.evidence.ratio)
                                  : std::string("-");
}

std::string low_of(const TuneEntry& entry) {
  return entry.ladder.empty() ? std::string("-") : readable_time(entry.ladder[0].low);
}

}  // namespace

std::string evidence_of(const TuneEntry& entry) {
  const detail::TuneEvidence& evidence = entry.evidence;
  const std::time_t when = std::chrono::system_clock::to_time_t(entry.tuned_at);
  std::string text = fmt::format("{} pairs, {:.0f} % dirty, load {:.1f}, {:%m-%d}",
                                 evidence.pair_count,
                                 100 * evidence.dirty_share,
                                 evidence.load,
                                 fmt::gmtime(when));
  if (evidence.doubt != detail::Doubt::none) {
    text += fmt::format(", unclear: {}", name(evidence.doubt));
  }
  for (const detail::Quarantined& each : entry.quarantined) {
    text += fmt::format(", #{} quarantined: {}", each.id, each.reason);
  }
  return text;
}

std::string tune_table(const detail::TuneFile& file, std::string_view filter) {
  std::vector<const TuneEntry*> entries;
  std::size_t width = 3;
  for (const TuneEntry& entry : file.entries) {
    if (entry.label.find(filter) != std::string::npos) {
      entries.push_back(&entry);
      width = std::max(width, entry.label.size());
    }
  }
  std::ranges::sort(entries, {}, [](const TuneEntry* each) { return each->label; });
  std::string text = fmt::format("machine: {}\n", file.fingerprint);
  text +=
      fmt::format("{:<{}}  {:<8}  {:>8}  {:>5}  evidence\n", "key", width, "pick", "low", "gain");
  for (const TuneEntry* entry : entries) {
    text += fmt::format("{:<{}}  {:<8}  {:>8}  {:>5}  {}\n",
                        entry->label,
                        width,
                        pick_of(*entry),
                        low_of(*entry),
                        gain_of(*entry),
                        evidence_of(*entry));
  }
  std::size_t wanted = 0;
  for (const detail::WantedKey& each : file.wanted) {
    wanted += each.label.find(filter) != std::string::npos ? 1U : 0U;
  }
  return text + fmt::format("{} of {} entries; {} calls wait for a trial\n",
                            entries.size(),
                            file.entries.size(),
                            wanted);
}

std::string tune_difference(const detail::TuneFile& before, const detail::TuneFile& after) {
  std::string text;
  const auto find = [](const detail::TuneFile& file, const detail::TuneKey& key) {
    const auto found = std::ranges::find(file.entries, key, &TuneEntry::key);
    return found == file.entries.end() ? nullptr : &*found;
  };
  for (const TuneEntry& entry : before.entries) {
    const TuneEntry* const other = find(after, entry.key);
    if (other == nullptr) {
      text += fmt::format("- {}: {}\n", entry.label, pick_of(entry));
    } else if (pick_of(entry) != pick_of(*other)) {
      text += fmt::format("  {}: {} ({}) -> {} ({})\n",
                          entry.label,
                          pick_of(entry),
                          low_of(entry),
                          pick_of(*other),
                          low_of(*other));
    }
  }
  for (const TuneEntry& entry : after.entries) {
    if (find(before, entry.key) == nullptr) {
      text += fmt::format("+ {}: {}\n", entry.label, pick_of(entry));
    }
  }
  return text;
}

}  // namespace hearth::bench
