// The log of one runtime: a few lines for the person who runs the program, never for control flow.
// Owned by the Runtime. Threads: any; lines of several threads do not mix.
// Invariant: writing a line never throws and never fails the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/settings.hpp>

namespace hearth::detail {

enum class LogLevel : std::uint8_t { trace, debug, info, warn, error, off };

[[nodiscard]] std::string_view name(LogLevel level) noexcept;
/// Returns HEARTH_LOG_LEVEL, else warn.
///
/// Errors: invalid_argument with the valid names.
[[nodiscard]] Result<LogLevel> log_level(const Settings& settings);

struct LogOptions {
  LogLevel level = LogLevel::warn;  ///< Lines below this level are dropped.
  /// Receives each line instead of the standard error stream. Called by one thread at a time; must
  /// not log.
  std::function<void(LogLevel, std::string_view)> output = {};
};

class Log final {
 public:
  explicit Log(LogOptions options = {});
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log();

  /// Returns whether lines of this level are written. Check it before making an expensive text.
  [[nodiscard]] bool is_enabled(LogLevel level) const noexcept {
    return level >= level_ && level != LogLevel::off;
  }
  void write(LogLevel level, std::string_view text) noexcept;
  /// Writes the text that `make` returns. Calls `make` only if the level is on.
  template <class Make>
  requires std::is_invocable_v<const Make&>
  void write(LogLevel level, const Make& make) noexcept {
    if (is_enabled(level)) {
      try {
        write(level, std::string_view(make()));
      } catch (...) {
        write(level, "(a line whose text could not be made)");
      }
    }
  }
  /// Writes only the 1st, 10th, 100th, … line of this key, with the count: for lines that may come
  /// thousands of times. Remembers the most recently used keys.
  template <class Make>
  requires std::is_invocable_v<const Make&>
  void write_counted(LogLevel level, std::string_view key, const Make& make) noexcept {
    if (is_enabled(level)) {
      if (const std::uint64_t count = count_line(key); count != 0) {
        write(level, [&] { return make() + repetition(count); });
      }
    }
  }
  template <class Text>
  void trace(const Text& text) noexcept {
    write(LogLevel::trace, text);
  }
  template <class Text>
  void debug(const Text& text) noexcept {
    write(LogLevel::debug, text);
  }
  void info(std::string_view text) noexcept { write(LogLevel::info, text); }
  void warn(std::string_view text) noexcept { write(LogLevel::warn, text); }
  void error(std::string_view text) noexcept { write(LogLevel::error, text); }

 private:
  struct Impl;
  /// Returns the number of lines of this key if this one is to be written, else 0.
  [[nodiscard]] std::uint64_t count_line(std::string_view key) noexcept;
  [[nodiscard]] static std::string repetition(std::uint64_t count);

  LogLevel level_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hearth::detail
