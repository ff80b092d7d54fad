// The work of `hearth-bench tune run`: trials of problems by the tuner of Runtime::tune, which
// programs on this machine read. The only file here that includes runtime/device. Owned by a
// command. Threads: the command's.
// Invariants: (1) a key is that of a program's call on a device of its own; (2) the results are
// committed to the store one by one.
#pragma once

#include <hearth/autotune/tune_entry.hpp>
#include <hearth/backends/backend.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/result.hpp>

#include "problem.hpp"
#include "report.hpp"
#include "runtime/device/tuning/tune_subject.hpp"

namespace hearth::bench {

/// A problem with the names by which a table shows it.
struct TuneTarget {
  std::string suite = {};  ///< Empty for a problem of the command line.
  std::string name = {};
  Problem problem = {};
};

/// Returns the problems of suites, of filters, and of texts as "matmul m=32 n=64 k=64". Each
/// problem comes once. Without names: the suites of products and convolutions.
///
/// Errors: invalid_argument, with the nearest name.
[[nodiscard]] Result<std::vector<TuneTarget>> tune_targets(std::span<const std::string> names);

/// Returns the level of trials: `chosen`, or if empty HEARTH_AUTOTUNE.
///
/// Errors: invalid_argument for an unknown level, and for one without trials.
[[nodiscard]] Result<AutotuneLevel> level_of_trials(const std::string& chosen);

class TuneRun final {
 public:
  /// Opens a device with the cores that a program with this device alone would have.
  ///
  /// Errors: not_found for an unknown device; invalid_argument for one without choices; those of
  /// opening, and of TuneSubject::open_store().
  [[nodiscard]] static Result<std::unique_ptr<TuneRun>> open(const std::string& device,
                                                             AutotuneLevel level);
  /// Takes a subject; tests pass their own.
  ///
  /// Errors: as open().
  [[nodiscard]] static Result<std::unique_ptr<TuneRun>> open(TuneSubject subject);

  [[nodiscard]] const BackendInfo& info() const noexcept { return backend_->info(); }
  [[nodiscard]] const std::string& store_path() const noexcept { return store_path_; }
  /// Returns the call of a problem as a program makes it.
  [[nodiscard]] WantedCall wanted(const Problem& problem);
  /// Runs the trials of a problem, unless the store has its result.
  ///
  /// Errors: none; a failure is a row that is wrong, with the reason.
  [[nodiscard]] Row tune(const TuneTarget& target, Deadline deadline);

 private:
  TuneRun() = default;
  struct Choices;
  [[nodiscard]] Choices choices_of(const Problem& problem);

  detail::Log log_{detail::LogOptions{}};
  TuneSubject subject_;
  std::unique_ptr<Backend> backend_;  ///< Lists candidates; trials open backends of their own.
  std::string store_path_;
};

}  // namespace hearth::bench
