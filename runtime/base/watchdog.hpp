// Watchdog: knows who waits for whom, and says so when a deadline has passed and somebody asks. A
// Runtime owns one; threads that wait enter themselves, and those that others wait for (devices,
// workers, coordinators) register as witnesses, whom a report asks.
// Threads: any.
// Invariants: (1) nobody is asked under a lock; (2) a report is there kAnswerLimit after it was
// asked for, whichever witness does not answer; (3) a report names a witness that does not answer,
// with what can be seen of it from outside.
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
  /// How long a report waits for its witnesses, together.
  static constexpr std::chrono::milliseconds kAnswerLimit{100};

  /// Someone whom others wait for. The functions are called by any thread, several at a time.
  struct Witness {
    std::string name;  ///< "device sim:0"
    /// Sends the question; the answer, a line or several, comes from the witness's own thread.
    /// Never waits.
    UniqueFunction<void(Promise<std::string> answer)> ask;
    /// What can be seen from outside of a witness that does not answer. Never waits.
    UniqueFunction<std::string()> observe;
  };

  /// A wait of the calling thread, entered as long as it lives. Null: not watched.
  class Wait final {
   public:
    /// Lifetime: `subject` and `whom` outlive it. Cost: a lock, there and back; for a thread that
    /// is about to sleep.
    Wait(Watchdog* watchdog, std::string_view subject, std::string_view whom, Deadline deadline);
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait();

    /// The wait goes on until another deadline.
    void renew(Deadline deadline);

   private:
    friend class Watchdog;
    Watchdog* const watchdog_;
    const std::string_view subject_;
    const std::string_view whom_;
    Deadline deadline_;  // under the watchdog's mutex
    const ThreadContext* thread_ = nullptr;
    std::optional<TimePoint> traced_from_;  // it is an event of a trace, too
    Wait* previous_ = nullptr;
    Wait* next_ = nullptr;
  };

  /// `makes_reports`: whether attach_report() makes the report, or leaves it to the code that asks.
  explicit Watchdog(bool makes_reports = false) noexcept : makes_reports_(makes_reports) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() = default;

  /// Asks this witness from now on, as long as the result lives.
  [[nodiscard]] std::shared_ptr<const void> watch(Witness witness) HEARTH_EXCLUDES(mutex_);

  /// What `error`, of the calling thread's wait for `subject`, has for a report: one for later,
  /// which costs a moment, or the report itself, for which it waits.
  void attach_report(Error& error, std::string subject) HEARTH_EXCLUDES(mutex_);
  /// Who waits for whom now, one a line, after the calling thread gave up on `subject`. Waits for
  /// the witnesses' answers: never on a thread that others wait for. A witness passes its own
  /// registration as `myself`: it is not asked.
  [[nodiscard]] std::string report(std::string_view subject,
                                   const std::shared_ptr<const void>& myself = nullptr)
      HEARTH_EXCLUDES(mutex_);
  /// The waiting threads alone. Never waits.
  [[nodiscard]] std::string waits() HEARTH_EXCLUDES(mutex_);
  /// Its runtime's. It stands here because every Pending has a watchdog at hand.
  [[nodiscard]] FailureBook& failures() const noexcept { return *failures_; }
  /// The same.
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

/// Keeps the event of a wait of the calling thread, from `begin` to now.
void trace_wait(Trace& trace,
                TimePoint begin,
                std::string_view subject,
                SourceLoc location) noexcept;

/// "3.250 s more", "for ever": what is left of a wait, for reports.
[[nodiscard]] std::string time_left(Deadline deadline);

}  // namespace detail

}  // namespace hearth
