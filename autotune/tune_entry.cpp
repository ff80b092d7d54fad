#include <hearth/autotune/tune_entry.hpp>

#include <algorithm>
#include <utility>

namespace hearth::detail {
namespace {

constexpr std::chrono::days kMostAge{90};
constexpr double kSlower = 1.10;
constexpr std::uint8_t kMostSlowSittings = 2;

template <class Remark>
bool has_remark(const std::vector<Remark>& remarks, CandidateId id, std::uint64_t text) noexcept {
  return std::ranges::any_of(
      remarks, [=](const Remark& each) { return each.id == id && each.text_hash == text; });
}

}  // namespace

CandidateId pick_from(const TuneEntry& entry,
                      std::span<const Candidate> candidates,
                      Numerics numerics) noexcept {
  if (entry.ladder.empty() || candidates.empty() || entry.ladder.back().id != kRulePick ||
      entry.ladder.back().text_hash != candidates.front().text_hash) {
    return kRulePick;
  }
  for (const Rung& rung : entry.ladder) {
    const Candidate* const candidate = find_candidate(candidates, rung.id);
    if (candidate != nullptr && candidate->text_hash == rung.text_hash &&
        may_replace(*candidate, candidates.front(), numerics) &&
        !is_quarantined(entry, *candidate)) {
      return rung.id;
    }
  }
  return kRulePick;
}

bool is_verified(const TuneEntry& entry, const Candidate& candidate) noexcept {
  return has_remark(entry.verified, candidate.id, candidate.text_hash);
}

bool is_quarantined(const TuneEntry& entry, const Candidate& candidate) noexcept {
  return has_remark(entry.quarantined, candidate.id, candidate.text_hash);
}

void quarantine(TuneEntry& entry, CandidateId id, std::uint64_t text_hash, std::string reason) {
  drop_rung(entry, id);
  if (has_remark(entry.quarantined, id, text_hash)) {
    return;
  }
  if (entry.quarantined.size() == TuneEntry::kMostRemarks) {
    entry.quarantined.erase(entry.quarantined.begin());
  }
  reason.resize(std::min(reason.size(), TuneEntry::kMostText));
  entry.quarantined.push_back({.id = id, .text_hash = text_hash, .reason = std::move(reason)});
}

void drop_rung(TuneEntry& entry, CandidateId id) noexcept {
  if (id != kRulePick) {
    std::erase_if(entry.ladder, [id](const Rung& rung) { return rung.id == id; });
  }
}

void drop_quarantined_rungs(TuneEntry& entry) noexcept {
  std::erase_if(entry.ladder, [&entry](const Rung& rung) {
    return rung.id != kRulePick && has_remark(entry.quarantined, rung.id, rung.text_hash);
  });
}

void note_sitting(TuneEntry& entry, RunTime median) noexcept {
  if (entry.ladder.empty()) {
    return;
  }
  const bool is_slower = median > kSlower * entry.ladder.front().median;
  entry.slow_sittings =
      is_slower
          ? static_cast<std::uint8_t>(std::min<int>(entry.slow_sittings + 1, kMostSlowSittings))
          : std::uint8_t{0};
}

bool is_stale(const TuneEntry& entry, std::chrono::sys_seconds now) noexcept {
  return entry.ladder.empty() || entry.evidence.doubt != Doubt::none ||
         entry.slow_sittings >= kMostSlowSittings || now - entry.tuned_at > kMostAge;
}

bool is_of_other_kernels(const TuneEntry& entry, std::span<const Candidate> candidates) noexcept {
  const auto has_other_text = [&](const Rung& rung) {
    const Candidate* const present = find_candidate(candidates, rung.id);
    return present != nullptr && present->text_hash != rung.text_hash;
  };
  return !entry.ladder.empty() &&
         (has_other_text(entry.ladder.front()) || has_other_text(entry.ladder.back()));
}

bool is_stale(const TuneEntry& entry,
              std::span<const Candidate> candidates,
              std::chrono::sys_seconds now) noexcept {
  return is_stale(entry, now) || is_of_other_kernels(entry, candidates);
}

TuneEntry merged(const TuneEntry& a, const TuneEntry& b) {
  const bool is_b_later = a.ladder.empty() || (!b.ladder.empty() && b.tuned_at > a.tuned_at);
  TuneEntry result = is_b_later ? b : a;
  const TuneEntry& other = is_b_later ? a : b;
  for (const Verified& each : other.verified) {
    if (!has_remark(result.verified, each.id, each.text_hash) &&
        result.verified.size() < TuneEntry::kMostRemarks) {
      result.verified.push_back(each);
    }
  }
  for (const Quarantined& each : other.quarantined) {
    if (!has_remark(result.quarantined, each.id, each.text_hash) &&
        result.quarantined.size() < TuneEntry::kMostRemarks) {
      result.quarantined.push_back(each);
    }
  }
  drop_quarantined_rungs(result);
  return result;
}

}  // namespace hearth::detail
