// ProcessRow: values as the bytes of one text, for an exchange between processes of one build on
// machines of one kind. Private to parallel. Values. Threads: one at a time.
// Invariant: values are read in the order in which they were added.
#pragma once

#include <hearth/runtime/base/error.hpp>

#include <cstddef>
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
  ProcessRow& add_text(const std::string& text);
  /// Adds an error's code and text; null: none.
  ProcessRow& add_failure(const ErrorRef& error);
  [[nodiscard]] std::string take() { return std::move(bytes_); }

  /// Errors: bad_format, thrown, when the row is at its end.
  template <class T>
  requires std::is_trivially_copyable_v<T> T read() {
    T value{};
    std::memcpy(&value, next(sizeof value), sizeof value);
    return value;
  }
  [[nodiscard]] std::string read_text();
  /// An error of process `who`; null if there was none. A lost device of another process is no
  /// loss here, so its code becomes collective_failed.
  [[nodiscard]] ErrorRef read_failure(const std::string& who);

 private:
  /// The next bytes of the row.
  [[nodiscard]] const char* next(std::size_t size);

  std::string bytes_;
  std::size_t place_ = 0;
};

}  // namespace hearth::detail
