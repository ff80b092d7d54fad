// LostReports: the failures that reports of updates carry, kept for the case that a program drops a
// report unread: then its next step throws the failure. Shared by an optimizer or trainer and what
// fulfils its reports. Threads: any. Invariant: a report that the program still holds is left to
// it.
#pragma once

#include <memory>
#include <vector>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/sync.hpp>

namespace hearth {

class LostReports final {
 public:
  LostReports() = default;
  LostReports(const LostReports&) = delete;
  LostReports& operator=(const LostReports&) = delete;
  ~LostReports() = default;

  /// The error for a report's promise, which fails with `error`. It dies with the report, and not
  /// before the fulfiller has let go of the promise: how a dropped one is known, by the next call.
  [[nodiscard]] ErrorRef add(ErrorRef error) HEARTH_EXCLUDES(mutex_);
  /// The first failure whose report was dropped and which nobody has read, also not through a
  /// tensor; nullptr where there is none. Forgets what was read.
  [[nodiscard]] ErrorRef take_dropped() HEARTH_EXCLUDES(mutex_);

 private:
  struct Entry {
    ErrorRef error;
    std::weak_ptr<const Error> reported;
  };

  detail::Mutex mutex_;
  std::vector<Entry> entries_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
