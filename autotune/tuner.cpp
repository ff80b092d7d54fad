#include <hearth/autotune/tuner.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <hearth/runtime/base/assert.hpp>

namespace hearth::detail {
namespace {

// Rests on a busy machine; after the last one the key stays unclear.
constexpr std::array<std::chrono::seconds, 2> kRests{std::chrono::seconds(10),
                                                     std::chrono::minutes(10)};
constexpr double kNearRoof = 1.05;

// Place of a candidate in a neighbour's ladder; its length for others.
std::size_t place_in(const TuneEntry* neighbour, CandidateId id) {
  if (neighbour == nullptr) {
    return 0;
  }
  const auto found = std::ranges::find(neighbour->ladder, id, &Rung::id);
  return static_cast<std::size_t>(found - neighbour->ladder.begin());
}

Rung rung_of(const Candidate& candidate, const SideTimes& times) {
  return {.id = candidate.id,
          .text_hash = candidate.text_hash,
          .low = times.low,
          .median = times.median};
}

TuneEvidence evidence_of(const Judgement& found) {
  return {.ratio_low = found.ratio.low,
          .ratio = found.ratio.median,
          .ratio_high = found.ratio.high,
          .spread = found.challenger.spread,
          .pair_count = found.pair_count,
          .dirty_share = static_cast<float>(found.dirty_share()),
          .clock_mhz = found.clock_mhz,
          .doubt = found.doubt};
}

}  // namespace

Tuner::Tuner(TunerOptions options,
             const TuneKey& key,
             std::string label,
             std::span<const Candidate> candidates,
             const TuneEntry* known,
             const TuneEntry* neighbour)
    : options_(options), candidates_(candidates.begin(), candidates.end()) {
  HEARTH_ASSERT(!candidates_.empty() && candidates_.front().id == kRulePick,
                "a list of candidates begins with the rule");
  if (known != nullptr) {
    entry_.verified = known->verified;
    entry_.quarantined = known->quarantined;
    if (!known->ladder.empty() && !is_of_other_kernels(*known, candidates_)) {
      known_ = *known;
    }
  }
  entry_.key = key;
  entry_.label = std::move(label);
  entry_.label.resize(std::min(entry_.label.size(), TuneEntry::kMostText));
  chain_ = {rung_of(candidates_.front(), {})};
  order_challengers(known_.has_value() ? &*known_ : neighbour);
  begin_next();
}

const Candidate& Tuner::candidate(CandidateId id) const {
  const Candidate* const found = find_candidate(candidates_, id);
  HEARTH_ASSERT(found != nullptr, "the tuner knows its candidates");
  return *found;
}

// Order: the neighbour's ladder, then by predicted time; candidates without a prediction last.
void Tuner::order_challengers(const TuneEntry* neighbour) {
  std::vector<const Candidate*> order;
  for (const Candidate& each : std::span(candidates_).subspan(1)) {
    if (may_replace(each, candidates_.front(), options_.numerics) &&
        !is_quarantined(entry_, each) && (options_.takes_unverified || is_verified(entry_, each))) {
      order.push_back(&each);
    }
  }
  std::ranges::stable_sort(order, [&](const Candidate* a, const Candidate* b) {
    const auto rank = [&](const Candidate* each) {
      const RunTime last = RunTime::max();
      return std::pair(place_in(neighbour, each->id),
                       each->predicted > RunTime(0) ? each->predicted : last);
    };
    return rank(a) < rank(b);
  });
  order.resize(std::min(order.size(), most_challengers(options_.level)));
  for (auto each = order.rbegin(); each != order.rend(); ++each) {
    challengers_.push_back((*each)->id);
  }
}

CandidateId Tuner::in_duel() const {
  if (phase_ == Phase::final) {  // the rule against the last incumbent
    return duel_->is_challenger_next() ? chain_.back().id : kRulePick;
  }
  return duel_->is_challenger_next() ? challenger_ : chain_.back().id;
}

TuneAction Tuner::next() const {
  switch (phase_) {
    case Phase::verify:
      return {.step = TuneStep::verify, .candidate = challenger_};
    case Phase::duel:
    case Phase::final:
      return {.step = TuneStep::sample, .candidate = in_duel()};
    case Phase::rest:
      return {.step = TuneStep::rest, .rest = kRests[static_cast<std::size_t>(rest_count_ - 1)]};
    case Phase::done:
      break;
  }
  return {};
}

// The next challenger, the final, or the end.
void Tuner::begin_next() {
  const RunTime best = chain_.back().median;
  const bool is_at_roof = best > RunTime(0) && best <= kNearRoof * options_.roof;
  if (!challengers_.empty() && !is_at_roof) {
    challenger_ = challengers_.back();
    challengers_.pop_back();
    phase_ = Phase::verify;
    if (is_verified(entry_, candidate(challenger_))) {
      begin_duel();
    }
    return;
  }
  if (chain_.size() == 1) {
    finish();
    return;
  }
  phase_ = Phase::final;
  duel_.emplace(options_.judge);
}

void Tuner::begin_duel() {
  phase_ = Phase::duel;
  duel_.emplace(options_.judge);
}

void Tuner::finish() {
  phase_ = Phase::done;
  duel_.reset();
  while (chain_.size() > TuneEntry::kMostRungs) {
    chain_.erase(chain_.begin() + 1);  // the slowest rung above the rule
  }
  entry_.ladder.assign(chain_.rbegin(), chain_.rend());
}

void Tuner::verified(VerifiedBy how) {
  HEARTH_ASSERT(phase_ == Phase::verify, "verified() answers `verify`");
  if (entry_.verified.size() == TuneEntry::kMostRemarks) {
    entry_.verified.erase(entry_.verified.begin());
  }
  entry_.verified.push_back(
      {.id = challenger_, .how = how, .text_hash = candidate(challenger_).text_hash});
  begin_duel();
}

void Tuner::sampled(const Sample& sample) {
  HEARTH_ASSERT(phase_ == Phase::duel || phase_ == Phase::final, "sampled() answers `sample`");
  duel_->add(sample);
  if (!duel_->is_over()) {
    return;
  }
  const Judgement found = duel_->judgement();
  if (rest_if_busy(found)) {
    return;
  }
  if (phase_ == Phase::duel) {
    conclude_duel(found);
  } else {
    conclude_final(found);
  }
}

// Nothing is concluded on a busy machine. After the last rest the present state is the result, and
// the entry is unclear.
bool Tuner::rest_if_busy(const Judgement& found) {
  if (found.doubt != Doubt::dirty) {
    return false;
  }
  if (static_cast<std::size_t>(rest_count_) < kRests.size()) {
    interrupted_ = phase_;
    phase_ = Phase::rest;
    ++rest_count_;
    return true;
  }
  entry_.evidence = evidence_of(found);
  chain_.resize(1);
  finish();
  return true;
}

void Tuner::rested() {
  HEARTH_ASSERT(phase_ == Phase::rest, "rested() answers `rest`");
  phase_ = interrupted_;
  duel_.emplace(options_.judge);
}

void Tuner::interrupted() noexcept {
  if (duel_.has_value()) {
    duel_->drop_pair();
  }
}

void Tuner::conclude_duel(const Judgement& found) {
  chain_.back() = rung_of(candidate(chain_.back().id), found.incumbent);
  if (found.verdict == Verdict::faster) {
    chain_.push_back(rung_of(candidate(challenger_), found.challenger));
    entry_.evidence.doubt = Doubt::none;
  } else if (found.verdict ==
                 Verdict::unclear ||  // of this challenger: a later sitting tries again
             (chain_.size() == 1 && entry_.evidence.doubt == Doubt::none)) {
    entry_.evidence = evidence_of(found);
  }
  begin_next();
}

void Tuner::conclude_final(const Judgement& found) {
  entry_.evidence = evidence_of(found);
  chain_.front() = rung_of(candidates_.front(), found.incumbent);
  if (found.verdict == Verdict::faster) {
    chain_.back() = rung_of(candidate(chain_.back().id), found.challenger);
  } else {
    chain_.resize(1);
  }
  finish();
}

void Tuner::failed(std::string reason) {
  const CandidateId id = next().candidate;
  HEARTH_ASSERT(next().step == TuneStep::verify || next().step == TuneStep::sample,
                "failed() answers `verify` or `sample`");
  if (id != kRulePick) {
    quarantine(entry_, id, candidate(id).text_hash, std::move(reason));
  }
  drop(id);
}

void Tuner::refused() {
  HEARTH_ASSERT(next().step == TuneStep::verify || next().step == TuneStep::sample,
                "refused() answers `verify` or `sample`");
  drop(next().candidate);
}

// Without the rule nothing can be compared. A challenger is skipped. An incumbent leaves its place
// to the one before it; the open challenger has to begin anew against that one.
void Tuner::drop(CandidateId id) {
  if (id == kRulePick) {
    chain_.resize(1);
    entry_.evidence.doubt = Doubt::few_pairs;
    finish();
    return;
  }
  const bool is_incumbent = chain_.back().id == id;
  if (is_incumbent) {
    chain_.pop_back();
    if (phase_ == Phase::duel) {
      challengers_.push_back(challenger_);
    }
  }
  begin_next();
}

TuneEntry Tuner::entry(std::chrono::sys_seconds now, float load) const {
  TuneEntry result = entry_;
  result.tuned_at = now;
  result.evidence.load = load;
  if (result.evidence.doubt != Doubt::none && known_.has_value()) {
    result.ladder = known_->ladder;
    result.evidence = known_->evidence;
    result.tuned_at = known_->tuned_at;
    drop_quarantined_rungs(result);
  }
  return result;
}

}  // namespace hearth::detail
