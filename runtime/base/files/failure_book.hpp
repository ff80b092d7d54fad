// FailureBook: the failures of one runtime, and whether the program has read them. An unread
// failure must not be silent. The next step or sync() throws it. The log names it when the last
// tensor or Pending that carries it dies. The runtime's end counts the unread ones.
// Shared by the runtime's tables and its Watchdog. Threads: any.
// Invariants: (1) one cause is one Failure, however many tensors and Pendings carry its error; (2)
// a failure counts as read when the program receives its error from any of them; (3) the book keeps
// the texts of kMostListed unread failures and counts the others; (4) successful work never enters
// the book.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/sync.hpp>

namespace hearth::detail {

class Log;

/// A cause that spoils results, and whether the program has read it. Made by a FailureBook.
class Failure final : public std::enable_shared_from_this<Failure> {
 public:
  using Count = std::shared_ptr<std::atomic<std::uint64_t>>;

  /// `unread`: the book's number of unread failures.
  Failure(Error error, Count unread);
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;
  ~Failure() = default;

  [[nodiscard]] bool is_read() const noexcept {
    return is_read_.load(std::memory_order_acquire);  // partners: mark_read, mark_unread
  }
  void mark_read() noexcept;
  /// Marks the failure unread: its reader passed it on into another result.
  void mark_unread() noexcept;
  /// Counts one more op that did not run because of the failure.
  void count_op() noexcept { op_count_.fetch_add(1, std::memory_order_relaxed); }
  /// Returns the error. Call it when the program receives the error: marks the failure as read.
  [[nodiscard]] ErrorRef error();
  /// Returns error, device, op, line and number of ops lost, for the log.
  [[nodiscard]] std::string to_string() const;
  /// Returns a key that is equal for all failures of one op and line: one mistake in a loop makes
  /// many failures.
  [[nodiscard]] std::string key() const;

 private:
  const Error error_;
  const Count unread_;
  std::atomic<bool> is_read_{false};
  std::atomic<std::uint64_t> op_count_{0};
};

/// Returns the failure of the error or of one of its causes; nullptr if the error is in no book.
[[nodiscard]] Failure* find_failure(const Error& error) noexcept;
/// Marks the error's failure as read by the program.
void mark_read(const Error& error) noexcept;
/// Marks the error's failure as unread: the program's code rethrew it into another result.
void mark_unread(const Error& error) noexcept;

class FailureBook final : public RefCounted<FailureBook> {
 public:
  static constexpr std::size_t kMostListed = 64;

  FailureBook() = default;
  FailureBook(const FailureBook&) = delete;
  FailureBook& operator=(const FailureBook&) = delete;
  ~FailureBook() = default;

  /// Starts logging failures that die unread, until close(). Call it before the first failure.
  void open(std::weak_ptr<Log> log);
  /// Stops logging failures that die unread; report() follows.
  void close() noexcept { is_open_.store(false, std::memory_order_release); }

  /// Enters a cause. Returns the same error, which now counts as unread. An error whose failure is
  /// in a book already stays unchanged. Codes that the program caused itself (cancelled,
  /// device_closed) are not entered.
  [[nodiscard]] ErrorRef enter(ErrorRef error) noexcept HEARTH_EXCLUDES(mutex_);
  /// Enters the cause of a lost update. Such a loss is a failure even if the program cancelled its
  /// input.
  [[nodiscard]] ErrorRef enter_lost_update(ErrorRef error) noexcept HEARTH_EXCLUDES(mutex_);
  /// Counts failures of this stream as read from now on, for a program that checks for failures
  /// itself, like a replay.
  void expect_failures(const std::string& device, std::uint64_t lane) HEARTH_EXCLUDES(mutex_);
  void expect_no_more(const std::string& device, std::uint64_t lane) HEARTH_EXCLUDES(mutex_);

  /// Returns the number of unread failures.
  [[nodiscard]] std::uint64_t unread_count() const noexcept {
    return unread_->load(std::memory_order_acquire);  // partners: enter, mark_read, mark_unread
  }
  /// Logs the number of unread failures and the first causes; nothing if there are none.
  void report(Log& log) noexcept HEARTH_EXCLUDES(mutex_);

 private:
  [[nodiscard]] ErrorRef add(const Error& error) HEARTH_EXCLUDES(mutex_);
  /// Called when the last tensor or Pending that carried the failure is gone.
  void record_death(const Failure& failure) noexcept;

  const Failure::Count unread_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::atomic<bool> is_open_{false};
  std::weak_ptr<Log> log_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Failure>> listed_ HEARTH_GUARDED_BY(mutex_);  ///< Oldest first.
  std::set<std::pair<std::string, std::uint64_t>> expecting_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::detail
