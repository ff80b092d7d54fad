// The tuner of one key: finds the fastest candidate that a call may run.
// A pure state machine: the trial runner performs its actions and reports what happened.
// Owned by one trial runner, never shared: no locks, no clock.
//   next() -> verify c      the runner compares c with the rule:        verified, failed, refused
//          -> sample c      the runner times runs of c:                 sampled, failed, refused
//          -> rest d        the machine is busy; the runner comes back: rested
//          -> done          entry()
// Invariants: (1) a candidate runs in a trial only after it was verified with its present text; (2)
// the rule begins as the incumbent, and a winner beats it again in a final of fresh samples; (3)
// the evidence is that of the final, not of the duels that chose the finalist; (4) with
// Numerics::same_bits no candidate of another bits class is tried; (5) trials without a verdict
// leave the ladder of the known entry in place.
#pragma once

#include <hearth/autotune/candidate.hpp>
#include <hearth/autotune/duel.hpp>
#include <hearth/autotune/tune_entry.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hearth::detail {

enum class TuneStep : std::uint8_t { verify, sample, rest, done };

struct TuneAction {
  TuneStep step = TuneStep::done;
  CandidateId candidate = kRulePick;   ///< Candidate to verify or to sample.
  std::chrono::nanoseconds rest = {};  ///< Time of `rest`: the machine is busy.
};

struct TunerOptions {
  AutotuneLevel level = AutotuneLevel::balanced;  ///< Decides how many candidates are tried.
  Numerics numerics = Numerics::same_bits;
  JudgeOptions judge = {};
  /// Least possible time of a run: max(flops / peak, bytes / peak). The tuner stops within 5 % of
  /// it. 0: unknown.
  RunTime roof = {};
  /// false: candidates that were never verified with their text are left out, because a first run
  /// can take the process down.
  bool takes_unverified = true;
};

class Tuner final {
 public:
  /// `known`: the stored entry of the key. `neighbour`: that of a key with near sizes; its ladder
  /// only orders the trials. Either may be null. `candidates`: not empty, the rule first.
  Tuner(TunerOptions options,
        const TuneKey& key,
        std::string label,
        std::span<const Candidate> candidates,
        const TuneEntry* known,
        const TuneEntry* neighbour);

  /// Returns what to do next. Without a report in between the answer stays.
  [[nodiscard]] TuneAction next() const;

  /// The candidate's results passed the comparison.
  void verified(VerifiedBy how);
  /// Adds a sample.
  void sampled(const Sample& sample);
  /// The candidate computed wrong values, wrote out of bounds or hung: it is quarantined.
  void failed(std::string reason);
  /// The backend refused the candidate for this call: it is left out.
  void refused();
  /// The rest is over.
  void rested();
  /// Something interrupted the samples of a pair: they are taken anew.
  void interrupted() noexcept;
  /// Returns whether the next sample belongs to the pair of the last one. Only together do they
  /// show the same state of the machine.
  [[nodiscard]] bool is_in_pair() const noexcept {
    return duel_.has_value() && duel_->is_in_pair();
  }

  /// Returns the result so far; complete after `done`. `load`: the machine's load average.
  [[nodiscard]] TuneEntry entry(std::chrono::sys_seconds now, float load) const;

 private:
  enum class Phase : std::uint8_t { verify, duel, final, rest, done };

  [[nodiscard]] const Candidate& candidate(CandidateId id) const;
  [[nodiscard]] CandidateId in_duel() const;
  void order_challengers(const TuneEntry* neighbour);
  void begin_next();
  void begin_duel();
  void finish();
  void conclude_duel(const Judgement& found);
  void conclude_final(const Judgement& found);
  bool rest_if_busy(const Judgement& found);
  void drop(CandidateId id);

  TunerOptions options_;
  std::vector<Candidate> candidates_;
  TuneEntry entry_;
  std::optional<TuneEntry> known_;        ///< Only with a ladder of present kernels.
  std::vector<CandidateId> challengers_;  ///< Still to come; the next one is the last.
  std::vector<Rung> chain_;               ///< Rungs that were the incumbent, the rule first.
  CandidateId challenger_ = kRulePick;
  std::optional<Duel> duel_;
  Phase phase_ = Phase::verify;
  Phase interrupted_ = Phase::verify;  ///< Phase that a rest interrupted.
  int rest_count_ = 0;
};

}  // namespace hearth::detail
