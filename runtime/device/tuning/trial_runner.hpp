// The trial runner: performs the actions of a Tuner on a backend of its own. Verifies candidates by
// their bytes, and times them. Private to runtime. Owned by one thread, which drives the backend.
// Invariants: (1) a candidate is timed only after its results had the rule's bytes on three sets of
// data, with intact guard lines; (2) a mark stands on disk while a candidate runs for the first
// time; (3) the operands of consecutive runs differ, so that data are as cold as in a program.
#pragma once

#include <hearth/autotune/tune_store.hpp>
#include <hearth/autotune/tuner.hpp>
#include <hearth/backends/backend.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>

#include "trial_memory.hpp"
#include "wanted_call.hpp"

namespace hearth {

struct TrialOptions {
  detail::TunerOptions tuner = {};
  /// Bytes that the runs of a sample walk, at least: more than a private cache holds.
  std::int64_t rotated_bytes = std::int64_t{4} << 20;
};

class TrialRunner final {
 public:
  /// `store`: holds the marks; null for none. Both outlive the runner.
  TrialRunner(Backend& backend, const detail::TuneStore* store, TrialOptions options)
      : backend_(backend), store_(store), options_(options) {}

  /// Runs the trials of a call. Returns nothing if the deadline comes first, or if the call has no
  /// candidates.
  ///
  /// Errors: those of TrialMemory::make(), of TuneStore::begin_trying() and of the rule's kernel.
  [[nodiscard]] Result<std::optional<detail::TuneEntry>> tune(const WantedCall& wanted,
                                                              const detail::TuneEntry* known,
                                                              Deadline deadline);

 private:
  /// Outcome of one run. `refused`: nothing ran.
  struct Ran {
    bool is_refused = false;
    Status status = {};
  };
  [[nodiscard]] Ran run(const TrialMemory& memory, std::size_t set, detail::CandidateId pick);
  [[nodiscard]] Status verify(TrialMemory& memory,
                              detail::Tuner& tuner,
                              const WantedCall& wanted,
                              const detail::Candidate& candidate,
                              const std::string& label);
  /// Returns why the candidate must not be used; empty if it computes the rule's bytes. Errors:
  /// those of the rule.
  [[nodiscard]] Result<std::string> compare(TrialMemory& memory,
                                            const detail::Candidate& candidate,
                                            bool& is_refused);
  void sample(const TrialMemory& memory, detail::Tuner& tuner, detail::CandidateId pick);

  Backend& backend_;
  const detail::TuneStore* store_;
  TrialOptions options_;
  std::map<detail::CandidateId, std::int32_t> run_counts_;  ///< Runs of a sample.
  std::size_t next_set_ = 0;
};

}  // namespace hearth
