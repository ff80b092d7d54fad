// LostReports: the failures in reports of updates. If a program drops a report unread, its next
// step throws the failure.
// Shared by an optimizer or trainer and the code that fulfils its reports. Threads: any. Invariant:
// a report that the program still holds is never taken.
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

  /// Returns the error for a report's promise, which fails with `error`. The result lives until the
  /// report dies and the fulfiller has released the promise. take_dropped() detects a dropped
  /// report by that.
  [[nodiscard]] ErrorRef add(ErrorRef error) HEARTH_EXCLUDES(mutex_);
  /// Returns the first failure whose report was dropped and that is unread, also through a tensor;
  /// nullptr if there is none. Removes entries that were read.
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
