// A place in the user's source: file and line of the call that caused an op.
// Value type, two words. Threads: any.
// std::source_location is not used because clang-tidy 14 cannot parse it with libstdc++ 12.
#pragma once

#include <concepts>
#include <cstdint>

namespace hearth {

struct SourceLoc {
  const char* file = "";  ///< A string literal (static lifetime), as from __builtin_FILE.
  std::uint32_t line = 0;

  constexpr SourceLoc() noexcept = default;
  /// Accepts only a string as the file, so that {0, 4} is a shape where both types are accepted.
  template <std::same_as<const char*> File>
  constexpr SourceLoc(File in_file, std::uint32_t at_line) noexcept
      : file(in_file), line(at_line) {}

  /// Returns the place of the caller, when used as a default argument.
  static constexpr SourceLoc current(const char* file = __builtin_FILE(),
                                     std::uint32_t line = __builtin_LINE()) noexcept {
    return SourceLoc{file, line};
  }

  friend constexpr bool operator==(const SourceLoc& a, const SourceLoc& b) noexcept {
    return a.file == b.file && a.line == b.line;
  }
};

}  // namespace hearth
