// FailureBook: what went wrong in one runtime, and whether the program has read it. A failure that
// nobody reads must not be silent: the next step or sync() throws it, the log names it when the
// last tensor or Pending that carries it dies, and the runtime's end counts what is left. Shared by
// the runtime's tables and its Watchdog. Threads: any. Invariants: (1) one cause is one Failure,
// however many tensors and Pendings carry its error; (2) a failure is read when the program gets
// its error from any of them; (3) the book keeps the texts of kMostListed unread failures and
// counts the others; (4) what succeeds never comes here.
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

/// A cause that spoils results, and whether the program knows it. Made by a FailureBook.
class Failure final : public std::enable_shared_from_this<Failure> {
 public:
  using Count = std::shared_ptr<std::atomic<std::uint64_t>>;

  /// `unread`: how many failures of the book nobody has read.
  Failure(Error error, Count unread);
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;
  ~Failure() = default;

  [[nodiscard]] bool is_read() const noexcept {
    return is_read_.load(std::memory_order_acquire);  // partners: mark_read, mark_unread
  }
  void mark_read() noexcept;
  /// Its reader has passed it on into another result, which is to be read.
  void mark_unread() noexcept;
  /// One more op did not run because of it.
  void count_op() noexcept { op_count_.fetch_add(1, std::memory_order_relaxed); }
  /// The error; the failure is read when a program gets it.
  [[nodiscard]] ErrorRef error();
  /// Error, device, op, line and how many ops it cost, for the log.
  [[nodiscard]] std::string to_string() const;
  /// Equal for the failures of one op and line: one mistake in a loop is many failures.
  [[nodiscard]] std::string key() const;

 private:
  const Error error_;
  const Count unread_;
  std::atomic<bool> is_read_{false};
  std::atomic<std::uint64_t> op_count_{0};
};

/// The failure that the error, or one of its causes, belongs to; nullptr for an error that is in no
/// book.
[[nodiscard]] Failure* find_failure(const Error& error) noexcept;
/// The program has got this error.
void mark_read(const Error& error) noexcept;
/// The program's code threw this error on, into a result that somebody else is to read.
void mark_unread(const Error& error) noexcept;

class FailureBook final : public RefCounted<FailureBook> {
 public:
  static constexpr std::size_t kMostListed = 64;

  FailureBook() = default;
  FailureBook(const FailureBook&) = delete;
  FailureBook& operator=(const FailureBook&) = delete;
  ~FailureBook() = default;

  /// Failures that die unread are logged there from now on, up to close(). Comes before the first
  /// failure.
  void open(std::weak_ptr<Log> log);
  /// What dies from here on is not logged: report() follows.
  void close() noexcept { is_open_.store(false, std::memory_order_release); }

  /// Enters a cause: the same error, which now counts as unread. An error of a failure that is in a
  /// book stays as it is. What the program asked for (cancelled, device_closed) is not entered.
  [[nodiscard]] ErrorRef enter(ErrorRef error) noexcept HEARTH_EXCLUDES(mutex_);
  /// The same where an update was lost: that is a failure even when the program cancelled what it
  /// needs.
  [[nodiscard]] ErrorRef enter_lost_update(ErrorRef error) noexcept HEARTH_EXCLUDES(mutex_);
  /// The program of this stream expects failures and looks for them, as a replay does: they count
  /// as read.
  void expect_failures(const std::string& device, std::uint64_t lane) HEARTH_EXCLUDES(mutex_);
  void expect_no_more(const std::string& device, std::uint64_t lane) HEARTH_EXCLUDES(mutex_);

  /// How many failures nobody has read.
  [[nodiscard]] std::uint64_t unread_count() const noexcept {
    return unread_->load(std::memory_order_acquire);  // partners: enter, mark_read, mark_unread
  }
  /// Logs how many failures were never read, and the first causes; nothing when there is none.
  void report(Log& log) noexcept HEARTH_EXCLUDES(mutex_);

 private:
  [[nodiscard]] ErrorRef add(const Error& error) HEARTH_EXCLUDES(mutex_);
  /// The last tensor or Pending that carried it is gone.
  void note_death(const Failure& failure) noexcept;

  const Failure::Count unread_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::atomic<bool> is_open_{false};
  std::weak_ptr<Log> log_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Failure>> listed_ HEARTH_GUARDED_BY(mutex_);  ///< The oldest first.
  std::set<std::pair<std::string, std::uint64_t>> expecting_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::detail
