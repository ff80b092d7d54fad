// Errors as values with provenance, and the exceptions that carry them to a caller.
// An Error holds the cause, the op, the device and stream, and the line of the user's program that
// issued the op.
// Threads: any; an Error is immutable once it is shared.
// Invariants: (1) the first cause is kept: wrapping adds `cause`, never replaces it; (2) every code
// has a sentence (describe).
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <hearth/runtime/base/source_loc.hpp>

namespace hearth {

// Recordings store the numbers: append new codes.
enum class ErrorCode : std::uint8_t {
  shape_mismatch,     ///< Shapes do not fit the op's rule.
  dtype_mismatch,     ///< Element types do not fit the op's rule.
  device_mismatch,    ///< Tensors of one op live on different devices.
  invalid_argument,   ///< A value is outside what the function accepts.
  out_of_range,       ///< An index or a class label is outside its range.
  stream_misuse,      ///< A stream was used by two threads at once.
  unsupported,        ///< The backend does not offer this op for these types or layouts.
  out_of_memory,      ///< The device's budget or the machine's memory is used up.
  kernel_failed,      ///< A kernel reported a failure.
  non_finite,         ///< A loss or gradient became NaN or infinite.
  device_lost,        ///< The device stopped working; all its tensors are gone.
  device_closed,      ///< The device or its runtime was shut down.
  not_found,          ///< A device, file or named tensor does not exist.
  deadline_exceeded,  ///< A wait took longer than its deadline.
  cancelled,          ///< The work was cancelled.
  worker_failed,      ///< A worker's function threw; the cause has its message.
  collective_failed,  ///< A collective was aborted on all its ranks.
  io_error,           ///< The operating system refused to read or write.
  bad_format,         ///< A file's bytes do not match its format.
  internal,           ///< A bug of ours; please report it.
  overloaded,         ///< A server refused a request: it could not answer it in time.
};

/// Returns a code's sentence, as in the list above.
[[nodiscard]] std::string_view describe(ErrorCode code) noexcept;
/// Returns the enumerator's name, for logs and tests.
[[nodiscard]] std::string_view name(ErrorCode code) noexcept;
std::ostream& operator<<(std::ostream& out, ErrorCode code);

namespace detail {

/// Report of the open waits, in many lines, for an error of a passed deadline (see Watchdog).
/// Querying all witnesses takes time, so the report is made when the program requests it, and shows
/// the state at that time. RuntimeOptions::eager_reports makes it together with the error.
///
/// Threads: any; copies share the query.
class Report final {
 public:
  Report() = default;
  /// Holds a finished report.
  explicit Report(std::string text) : text_(std::move(text)) {}
  /// Calls `ask` for each report.
  explicit Report(std::function<std::string()> ask)
      : ask_(std::make_shared<const std::function<std::string()>>(std::move(ask))) {}

  /// Returns the report; empty if there is none. May wait up to Watchdog::kAnswerLimit for answers,
  /// so never call it on a thread that others wait for.
  [[nodiscard]] std::string operator()() const { return ask_ ? (*ask_)() : text_; }
  /// Returns the report if it is finished, else an empty text. Never waits.
  [[nodiscard]] const std::string& made() const noexcept { return text_; }
  [[nodiscard]] bool empty() const noexcept { return !ask_ && text_.empty(); }

 private:
  std::string text_;
  std::shared_ptr<const std::function<std::string()>> ask_;
};

class Failure;

}  // namespace detail

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string text;     ///< "matmul: inner dimensions differ: lhs f32[4, 8], rhs f32[9, 3]"
  std::string op = {};  ///< The op's name, or empty.
  std::string module_path = {};  ///< "model.layers.3.inner", or empty.
  std::string device = {};       ///< "cpu:0", or empty.
  std::uint64_t stream = 0;      ///< The stream's number on that device; 0 = none.
  std::uint64_t sequence = 0;    ///< The op's number in its stream.
  SourceLoc location = {};       ///< The user's call; line 0 = unknown.
  std::shared_ptr<const Error> cause = {};
  /// Report of a passed deadline: `error.report()` returns the open waits.
  detail::Report report = {};
  /// For the library: whether the program has read the error (see FailureBook). Null for errors
  /// that are in no book.
  std::shared_ptr<detail::Failure> failure = {};

  /// Returns one readable line per level, then the report if it is finished.
  [[nodiscard]] std::string to_string() const;
};

using ErrorRef = std::shared_ptr<const Error>;

/// Base of all exceptions of the library. what() is Error::to_string().
class Exception : public std::runtime_error {
 public:
  explicit Exception(Error error);
  explicit Exception(ErrorRef error);

  [[nodiscard]] const Error& error() const noexcept { return *error_; }
  [[nodiscard]] ErrorCode code() const noexcept { return error_->code; }
  /// Returns the open waits if a deadline passed, else an empty text. May wait (see Report).
  [[nodiscard]] std::string report() const { return error_->report(); }
  [[nodiscard]] const ErrorRef& shared_error() const noexcept { return error_; }

 private:
  ErrorRef error_;
};

/// A mistake of the caller, thrown on the caller's thread before anything is queued.
class ArgumentError : public Exception {
 public:
  using Exception::Exception;
};
class ShapeError final : public ArgumentError {
 public:
  using ArgumentError::ArgumentError;
};
class DtypeError final : public ArgumentError {
 public:
  using ArgumentError::ArgumentError;
};
class DeviceMismatch final : public ArgumentError {
 public:
  using ArgumentError::ArgumentError;
};
/// A failure on a device after the call returned. Every read of an affected result throws it.
class DeviceError : public Exception {
 public:
  using Exception::Exception;
};
/// Memory was exhausted. For a tensor, the text has the requested bytes, the state of the pools and
/// the largest free block. It also lists the largest tensors with their source lines. For host
/// memory of the program itself, the text has the bytes, and nothing was queued.
class OutOfMemory final : public DeviceError {
 public:
  using DeviceError::DeviceError;
};
/// A file could not be read, written or parsed.
class FileError final : public Exception {
 public:
  using Exception::Exception;
};
class DeadlineExceeded final : public Exception {
 public:
  using Exception::Exception;
};

/// A ModelServer refused a request at once. Ask again later, or another server.
class ServerOverloaded final : public Exception {
 public:
  using Exception::Exception;
};

/// Throws the exception class of the error's code.
[[noreturn]] void throw_error(ErrorRef error);
[[noreturn]] void throw_error(Error error);

}  // namespace hearth
