// A tuning entry: the results of one key's trials, with the evidence.
// Values. Threads: any.
// Invariants: (1) the ladder ends with the rule; (2) each rung above it was faster than the rule in
// fresh samples or than the rung below it; (3) a quarantined candidate is on no rung.
#pragma once

#include <hearth/autotune/candidate.hpp>
#include <hearth/autotune/judge.hpp>
#include <hearth/autotune/tune_key.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hearth::detail {

/// A candidate with its times. `text_hash`: the kernel that was timed.
struct Rung {
  CandidateId id = kRulePick;
  std::uint64_t text_hash = 0;
  RunTime low = {};
  RunTime median = {};

  friend bool operator==(const Rung&, const Rung&) = default;
};

/// Comparison that passed before a candidate's first trial.
enum class VerifiedBy : std::uint8_t {
  same_bytes = 1,  ///< Bytes equal to the rule's, guard lines intact.
  reference = 2,   ///< Within the tolerance of the reference; another bits class.
};
struct Verified {
  CandidateId id = kRulePick;
  VerifiedBy how = VerifiedBy::same_bytes;
  std::uint64_t text_hash = 0;

  friend bool operator==(const Verified&, const Verified&) = default;
};

/// A candidate that must not run for this key.
struct Quarantined {
  CandidateId id = kRulePick;
  std::uint64_t text_hash = 0;
  std::string reason = {};

  friend bool operator==(const Quarantined&, const Quarantined&) = default;
};

/// Why the first rung won: the final duel against the rule.
struct TuneEvidence {
  double ratio_low = 0;  ///< Interval of the ratio to the rule, and its median; 0: no duel.
  double ratio = 0;
  double ratio_high = 0;
  RunTime spread = {};  ///< Inner quartile range of the winner.
  std::int32_t pair_count = 0;
  float dirty_share = 0;
  float clock_mhz = 0;
  float load = 0;             ///< Load average of the machine.
  Doubt doubt = Doubt::none;  ///< Reason of a duel without a verdict.

  friend bool operator==(const TuneEvidence&, const TuneEvidence&) = default;
};

struct TuneEntry {
  static constexpr std::size_t kMostRungs = 4;
  static constexpr std::size_t kMostRemarks = 32;  ///< Limit of `verified` and of `quarantined`.
  static constexpr std::size_t kMostText = 200;    ///< Characters of a label or a reason.

  TuneKey key = {};
  std::string label = {};         ///< to_string() of the key.
  std::vector<Rung> ladder = {};  ///< Fastest first. Empty: no trial has ended.
  TuneEvidence evidence = {};
  std::vector<Verified> verified = {};
  std::vector<Quarantined> quarantined = {};
  std::chrono::sys_seconds tuned_at = {};
  std::uint8_t slow_sittings = 0;  ///< Later sittings in which the winner was over 10 % slower.

  friend bool operator==(const TuneEntry&, const TuneEntry&) = default;
};

/// Returns the first rung that the call may run. A rung counts if the call lists its candidate, the
/// kernel's text is the one that was timed, and the numerics allow it. Returns kRulePick for an
/// entry without trials, and for one whose rule has another text by now.
///
/// Cost: O(rungs · candidates), some 20 ns.
[[nodiscard]] CandidateId pick_from(const TuneEntry& entry,
                                    std::span<const Candidate> candidates,
                                    Numerics numerics) noexcept;

[[nodiscard]] bool is_verified(const TuneEntry& entry, const Candidate& candidate) noexcept;
[[nodiscard]] bool is_quarantined(const TuneEntry& entry, const Candidate& candidate) noexcept;
/// Quarantines a candidate and removes its rung. A reason is cut to kMostText characters; beyond
/// kMostRemarks the oldest quarantine is replaced.
void quarantine(TuneEntry& entry, CandidateId id, std::uint64_t text_hash, std::string reason);
/// Removes the candidate's rung: the backend refused the pick when it was to run.
void drop_rung(TuneEntry& entry, CandidateId id) noexcept;
/// Removes the rungs whose kernel, by id and text, is quarantined.
void drop_quarantined_rungs(TuneEntry& entry) noexcept;

/// Compares the winner's time in a later sitting with its evidence.
void note_sitting(TuneEntry& entry, RunTime median) noexcept;
/// Returns whether the key should be tuned again: without a ladder, unclear, older than 90 days, or
/// slower in two later sittings.
[[nodiscard]] bool is_stale(const TuneEntry& entry, std::chrono::sys_seconds now) noexcept;
/// Returns whether the text of the rule or of the winner is no longer the one that was timed.
[[nodiscard]] bool is_of_other_kernels(const TuneEntry& entry,
                                       std::span<const Candidate> candidates) noexcept;
/// Returns whether the entry is stale, or of other kernels.
[[nodiscard]] bool is_stale(const TuneEntry& entry,
                            std::span<const Candidate> candidates,
                            std::chrono::sys_seconds now) noexcept;

/// Merges two entries of one key. The later ladder counts; remarks of both are kept, but a ladder
/// never keeps a rung that the other entry quarantined.
[[nodiscard]] TuneEntry merged(const TuneEntry& a, const TuneEntry& b);

}  // namespace hearth::detail
