// Status and Result<T>: fallible returns inside the library, with the names of std::expected (which
// g++ 12 lacks in C++20). Success costs one null pointer test.
// Threads: values, any thread.
#pragma once

#include <optional>
#include <utility>

#include <hearth/runtime/base/error.hpp>

namespace hearth {

class [[nodiscard]] Status {
 public:
  Status() = default;  ///< Success.
  // NOLINTBEGIN(google-explicit-constructor): an error returns as it is
  Status(Error error) : error_(std::make_shared<const Error>(std::move(error))) {}
  Status(ErrorRef error) noexcept : error_(std::move(error)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool has_value() const noexcept { return error_ == nullptr; }
  [[nodiscard]] const Error& error() const noexcept { return *error_; }
  [[nodiscard]] const ErrorRef& shared_error() const noexcept { return error_; }
  /// Throws the matching exception on failure.
  void value() const {
    if (error_) {
      throw_error(error_);
    }
  }

 private:
  ErrorRef error_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a value or an error returns as it is
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : status_(std::move(error)) {}
  Result(ErrorRef error) noexcept : status_(std::move(error)) {}
  Result(Status status) noexcept : status_(std::move(status)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool has_value() const noexcept { return value_.has_value(); }
  [[nodiscard]] const Error& error() const noexcept { return status_.error(); }
  [[nodiscard]] const ErrorRef& shared_error() const noexcept { return status_.shared_error(); }
  [[nodiscard]] const Status& status() const noexcept { return status_; }
  /// Returns the value; throws the matching exception on failure.
  [[nodiscard]] T& value() & {
    status_.value();
    return *value_;
  }
  [[nodiscard]] const T& value() const& {
    status_.value();
    return *value_;
  }
  [[nodiscard]] T&& value() && {
    status_.value();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace hearth

#define HEARTH_DETAIL_CONCAT2(a, b) a##b
#define HEARTH_DETAIL_CONCAT(a, b) HEARTH_DETAIL_CONCAT2(a, b)

/// HEARTH_TRY(auto buffer, pool.allocate(n)): binds the value, or returns the error from this
/// function.
#define HEARTH_TRY(declaration, expression)                               \
  auto HEARTH_DETAIL_CONCAT(hearth_result_, __LINE__) = (expression);     \
  if (!HEARTH_DETAIL_CONCAT(hearth_result_, __LINE__).has_value()) {      \
    return HEARTH_DETAIL_CONCAT(hearth_result_, __LINE__).shared_error(); \
  }                                                                       \
  /* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */         \
  declaration = std::move(HEARTH_DETAIL_CONCAT(hearth_result_, __LINE__)).value()

/// Returns the error of a failed Status from this function.
#define HEARTH_TRY_STATUS(expression)                                              \
  if (::hearth::Status hearth_status = (expression); !hearth_status.has_value()) { \
    return hearth_status.shared_error();                                           \
  }                                                                                \
  static_assert(true)
