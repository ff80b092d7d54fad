// A trial: performs the actions of a Tuner for one wanted call, on a backend and memory of its own.
// Verifies candidates by their bytes, and times them. Private to runtime. Owned by the thread that
// drives the backend.
// Invariants: (1) a candidate is timed only after its results had the rule's bytes on three sets of
// data, with intact guard lines; (2) a mark stands on disk while a candidate runs for the first
// time; (3) the operands of consecutive runs differ, so that data are as cold as in a program; (4)
// a step ends within one run of a kernel after its interruption, and reports nothing then.
#pragma once

#include <hearth/autotune/tune_store.hpp>
#include <hearth/autotune/tuner.hpp>
#include <hearth/backends/backend.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hearth/runtime/base/result.hpp>

#include "trial_memory.hpp"
#include "wanted_call.hpp"

namespace hearth {

struct TrialOptions {
  detail::TunerOptions tuner = {};
  /// Bytes that the runs of a sample walk, at least: more than a private cache holds.
  std::int64_t rotated_bytes = std::int64_t{4} << 20;
  /// Limit of the call's operands; larger calls have no trial.
  std::int64_t most_bytes = std::int64_t{1} << 40;
  /// Limit of one run of the rule; longer calls have no trial.
  std::chrono::nanoseconds longest_run = std::chrono::hours(1);
};

class Trial final {
 public:
  /// Called before each run of a kernel.
  using IsInterrupted = std::function<bool()>;
  enum class Step : std::uint8_t { taken, interrupted };

  /// Begins the trials of a call. Returns null if it has no candidates, or exceeds a limit.
  ///
  /// Errors: those of TrialMemory::make() and of the rule's kernel.
  /// Lifetime: `backend` and `store` outlive the trial. `store` holds the marks; null for none.
  [[nodiscard]] static Result<std::unique_ptr<Trial>> begin(Backend& backend,
                                                            const detail::TuneStore* store,
                                                            const TrialOptions& options,
                                                            WantedCall wanted,
                                                            const detail::TuneEntry* known);
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial() = default;

  /// Returns what comes next: `verify` and `sample` by step(), `rest` by the caller, or `done`.
  [[nodiscard]] detail::TuneAction next() const { return tuner_->next(); }
  /// Verifies a candidate, or takes the four samples of a pair.
  ///
  /// Errors: those of TuneStore::begin_trying() and of the rule's kernel.
  [[nodiscard]] Result<Step> step(const IsInterrupted& is_interrupted);
  void rested() { tuner_->rested(); }

  [[nodiscard]] const detail::TuneKey& key() const noexcept { return wanted_.key; }
  /// Returns the result so far; complete after `done`.
  [[nodiscard]] detail::TuneEntry entry() const;

 private:
  /// Outcome of one run. `refused`: nothing ran.
  struct Ran {
    bool is_refused = false;
    Status status = {};
  };
  Trial(Backend& backend,
        const detail::TuneStore* store,
        const TrialOptions& options,
        WantedCall wanted)
      : backend_(backend), store_(store), options_(options), wanted_(std::move(wanted)) {}

  [[nodiscard]] Ran run(std::size_t set, detail::CandidateId pick);
  [[nodiscard]] Result<std::chrono::nanoseconds> time_rule();
  [[nodiscard]] Result<Step> verify(detail::CandidateId id, const IsInterrupted& is_interrupted);
  /// Returns why the candidate must not be used; empty if it computes the rule's bytes.
  [[nodiscard]] Result<std::string> compare(detail::CandidateId id, bool& is_refused);
  void end_verification(const std::string& mistake, bool is_refused);
  [[nodiscard]] Step sample_pair(const IsInterrupted& is_interrupted);
  [[nodiscard]] Step sample(detail::CandidateId pick, const IsInterrupted& is_interrupted);
  /// Runs the candidate `count` times. Returns nothing if interrupted.
  [[nodiscard]] Result<std::optional<std::chrono::nanoseconds>> timed(
      detail::CandidateId pick, std::int32_t count, const IsInterrupted& is_interrupted);

  Backend& backend_;
  const detail::TuneStore* store_;
  TrialOptions options_;
  WantedCall wanted_;
  std::string label_;
  std::optional<TrialMemory> memory_;  ///< refers to wanted_
  std::vector<detail::Candidate> candidates_;
  std::optional<detail::Tuner> tuner_;
  std::size_t data_ = 0;  ///< Sets of data that the open verification has passed.
  std::map<detail::CandidateId, std::int32_t> run_counts_;  ///< Runs of a sample.
  std::size_t next_set_ = 0;
};

}  // namespace hearth
