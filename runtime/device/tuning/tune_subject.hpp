// A device that is tuned: its fingerprint, its store, and how its backend for trials is opened.
// Private to runtime. A value. Threads: any; calls block on the disk and run kernels.
#pragma once

#include <hearth/autotune/fingerprint.hpp>
#include <hearth/autotune/numerics.hpp>
#include <hearth/autotune/tune_store.hpp>
#include <hearth/backends/backend.hpp>

#include <functional>
#include <memory>
#include <string>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/settings.hpp>

#include "wanted_call.hpp"

namespace hearth {

/// Returns the value of HEARTH_AUTOTUNE; balanced if it is not set.
///
/// Errors: invalid_argument for an unknown level.
[[nodiscard]] Result<AutotuneLevel> autotune_level(const detail::Settings& settings);

/// Result of TuneSubject::tune().
struct TuneRound {
  TunedEntries tuned;
  int improved_count = 0;  ///< Entries whose pick is not the rule.
  int unclear_count = 0;   ///< Calls without a verdict: the machine was busy.
  int left_count = 0;      ///< Calls that the deadline left over.
};

struct TuneSubject {
  /// Opens a backend for trials. Empty: the device has no candidates.
  std::function<Result<std::unique_ptr<Backend>>()> open = {};
  detail::Fingerprint fingerprint = {};
  AutotuneLevel level = AutotuneLevel::off;

  /// Whether the device follows stored picks.
  [[nodiscard]] bool has_picks() const noexcept {
    return open != nullptr && level != AutotuneLevel::off;
  }
  /// Whether trials may run.
  [[nodiscard]] bool has_trials() const noexcept {
    return open != nullptr && detail::most_challengers(level) > 0;
  }
  /// Opens the store.
  ///
  /// Errors: not_found if there is no cache folder; those of TuneStore::open().
  [[nodiscard]] Result<detail::TuneStore> open_store(detail::TuneAccess access,
                                                     detail::Log& log) const;
  /// Returns the stored entries. The log reports a store that cannot be read.
  [[nodiscard]] std::vector<detail::TuneEntry> stored(detail::Log& log) const;
  /// Runs the trials of these calls on the calling thread, and commits each call's result to the
  /// store.
  ///
  /// Errors: those of open_store(), of opening, and of the rules' kernels.
  [[nodiscard]] Result<TuneRound> tune(const WantedCalls& wanted,
                                       Deadline deadline,
                                       detail::Log& log) const;
};

/// Returns the entry of a key; without one, an entry without trials. The entry also has the
/// quarantines of the kind's other keys: a candidate that failed for one call is tried for none.
[[nodiscard]] detail::TuneEntry known_entry(const detail::TuneFile& file,
                                            const detail::TuneKey& key);
/// Describes a result for a log: "matmul f32 32x4096x4096 ...: candidate 3, ratio 0.87".
[[nodiscard]] std::string describe(const detail::TuneEntry& entry);

}  // namespace hearth
