// Watchdog: records each wait, and reports the open ones on request after a deadline has passed.
// A Runtime owns one. Waiting threads register their waits. Awaited parties (devices, workers,
// coordinators) register as witnesses, which a report queries.
// Threads: any.
// Invariants: (1) no witness is queried under a lock; (2) a report is complete kAnswerLimit after
// its request, even if a witness does not answer; (3) a report names a witness that does not
// answer, with its state as seen from outside.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/base/trace.hpp>
#include <hearth/runtime/base/unique_function.hpp>

namespace hearth {

template <class T>
class Promise;

namespace detail {

class Watchdog final : public RefCounted<Watchdog> {
 public:
  /// Total time that a report waits for its witnesses.
  static constexpr std::chrono::milliseconds kAnswerLimit{100};

  /// A party that others wait for. Its functions are called by any thread, several at a time.
  struct Witness {
    std::string name;  ///< "device sim:0"
    /// Sends the question. The answer, one or more lines, comes from the witness's own thread.
    /// Never waits.
    UniqueFunction<void(Promise<std::string> answer)> ask;
    /// Returns what is visible from outside of a witness that does not answer. Never waits.
    UniqueFunction<std::string()> observe;
  };

  /// A wait of the calling thread, registered while this object lives. Null: not watched.
  class Wait final {
   public:
    /// Registers the wait. For a thread that is about to sleep.
    ///
    /// Lifetime: `subject` and `awaited_name` outlive it.
    /// Cost: a lock at each end.
    Wait(Watchdog* watchdog,
         std::string_view subject,
         std::string_view awaited_name,
         Deadline deadline);
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait();

    /// Continues the wait until another deadline.
    void renew(Deadline deadline);

   private:
    friend class Watchdog;
    Watchdog* const watchdog_;
    const std::string_view subject_;
    const std::string_view awaited_name_;
    Deadline deadline_;  // under the watchdog's mutex
    const ThreadContext* thread_ = nullptr;
    std::optional<TimePoint> traced_from_;  // the wait is also an event of a trace
    Wait* previous_ = nullptr;
    Wait* next_ = nullptr;
  };

  /// `makes_reports`: whether attach_report() makes the report at once, or leaves it to a later
  /// reader.
  explicit Watchdog(bool makes_reports = false) noexcept : makes_reports_(makes_reports) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() = default;

  /// Queries this witness in reports as long as the result lives.
  [[nodiscard]] std::shared_ptr<const void> watch(Witness witness) HEARTH_EXCLUDES(mutex_);

  /// Attaches a report to `error` of the calling thread's wait for `subject`. A deferred report is
  /// cheap; for a finished one this call waits.
  void attach_report(Error& error, std::string subject) HEARTH_EXCLUDES(mutex_);
  /// Reports the open waits now, one a line, after the calling thread ended its wait for
  /// `subject`. Waits for the witnesses' answers, so never call it on a thread that others wait
  /// for. A witness passes its own registration as `myself`, so that it is not queried.
  [[nodiscard]] std::string report(std::string_view subject,
                                   const std::shared_ptr<const void>& myself = nullptr)
      HEARTH_EXCLUDES(mutex_);
  /// Returns the waiting threads only. Never waits.
  [[nodiscard]] std::string waits() HEARTH_EXCLUDES(mutex_);
  /// Returns the runtime's failure book, which is here because every Pending has a watchdog.
  [[nodiscard]] FailureBook& failures() const noexcept { return *failures_; }
  /// Returns the runtime's trace, which is here because every Pending has a watchdog.
  [[nodiscard]] Trace& trace() noexcept { return trace_; }

 private:
  [[nodiscard]] std::string report_of(const std::string& waiter,
                                      std::string_view subject,
                                      const std::shared_ptr<const void>& myself)
      HEARTH_EXCLUDES(mutex_);

  const bool makes_reports_;
  const IntrusivePtr<FailureBook> failures_ = make_intrusive<FailureBook>();
  Trace trace_;
  Mutex mutex_;
  Wait* first_ HEARTH_GUARDED_BY(mutex_) = nullptr;
  Wait* last_ HEARTH_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::weak_ptr<Witness>> witnesses_ HEARTH_GUARDED_BY(mutex_);
};

/// Records the event of a wait of the calling thread, from `begin` to now.
void trace_wait(Trace& trace,
                TimePoint begin,
                std::string_view subject,
                SourceLoc location) noexcept;

/// Returns the remaining time of a wait for reports: "3.250 s more", "for ever".
[[nodiscard]] std::string time_left(Deadline deadline);

}  // namespace detail

}  // namespace hearth
