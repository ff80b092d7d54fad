// A device that is tuned: its fingerprint, its store, and a backend of its own for trials. Private
// to runtime. A value. Threads: any; calls block on the disk and run kernels.
#pragma once

#include <hearth/autotune/fingerprint.hpp>
#include <hearth/autotune/numerics.hpp>
#include <hearth/autotune/tune_store.hpp>
#include <hearth/backends/backend.hpp>

#include <filesystem>
#include <functional>
#include <memory>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/result.hpp>

#include "picks.hpp"
#include "wanted_call.hpp"

namespace hearth {

/// Result of TuneSubject::tune().
struct TuneRound {
  TunedEntries tuned;
  int improved_count = 0;  ///< Entries whose pick is not the rule.
  int unclear_count = 0;   ///< Calls without a verdict: the machine was busy.
  int left_count = 0;      ///< Calls that the deadline left over.
};

struct TuneSubject {
  /// Opens a backend for trials. Empty: the device has no candidates, or no speed of its own.
  std::function<Result<std::unique_ptr<Backend>>()> open = {};
  detail::Fingerprint fingerprint = {};
  AutotuneLevel level = AutotuneLevel::off;

  /// Returns the device's picks, with the stored entries; null if the device follows its rules. The
  /// log reports a store that cannot be read.
  [[nodiscard]] std::shared_ptr<Picks> picks(int core_count, detail::Log& log) const;
  /// Runs the trials of these calls, and commits each call's result to the store.
  ///
  /// Errors: those of the store, of opening, and of the rules' kernels; not_found if there is no
  /// cache folder.
  [[nodiscard]] Result<TuneRound> tune(const WantedCalls& wanted,
                                       Deadline deadline,
                                       detail::Log& log) const;
};

}  // namespace hearth
