// ProcessRow: values as the bytes of one text, for an exchange between processes of one build on
// machines of one kind. Private to parallel. Values. Threads: one at a time.
// Invariant: values are read in the order in which they were added.
#pragma once

#include <hearth/runtime/base/error.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

namespace hearth::detail {

class ProcessRow final {
 public:
  ProcessRow() = default;
  /// The row of another process.
  explicit ProcessRow(std::string bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  requires std::is_trivially_copyable_v<T> ProcessRow& add(T value) {
    const char* const first = reinterpret_cast<const char*>(&value);
    bytes_.append(first, sizeof value);
    return *this;
  }
  ProcessRow& add_text(const std::string& text) {
    add<std::uint64_t>(text.size());
    bytes_ += text;
    return *this;
  }
  /// Adds an error's code and text; null: none.
  ProcessRow& add_failure(const ErrorRef& error) {
    add<bool>(error != nullptr);
    return error ? add(error->code).add_text(error->text) : *this;
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

  /// Errors: bad_format, thrown, when the row is at its end.
  template <class T>
  requires std::is_trivially_copyable_v<T> T read() {
    T value{};
    std::memcpy(&value, next(sizeof value), sizeof value);
    return value;
  }
  std::string read_text() {
    const auto size = static_cast<std::size_t>(read<std::uint64_t>());
    const char* const first = next(size);
    return {first, size};
  }
  /// An error of process `who`; null if there was none. A lost device of another process is no
  /// loss here, so its code becomes collective_failed.
  ErrorRef read_failure(const std::string& who) {
    if (!read<bool>()) {
      return nullptr;
    }
    const auto code = read<ErrorCode>();
    const bool is_local = code == ErrorCode::device_lost || code == ErrorCode::device_closed ||
                          code == ErrorCode::cancelled;
    return std::make_shared<const Error>(
        Error{.code = is_local ? ErrorCode::collective_failed : code,
              .text = who + ": " + read_text()});
  }

 private:
  [[nodiscard]] const char* next(std::size_t size) {
    if (size > bytes_.size() - place_) {
      throw_error(Error{.code = ErrorCode::bad_format,
                        .text = "ProcessGroup: a process sent a row that is too short"});
    }
    const char* const first = bytes_.data() + place_;
    place_ += size;
    return first;
  }

  std::string bytes_;
  std::size_t place_ = 0;
};

}  // namespace hearth::detail
