// A place in the user's source: file and line of the call that caused an op.
// Value type, two words. Threads: any.
// std::source_location is not used because clang-tidy 14 cannot parse it with libstdc++ 12.
#pragma once

#include <cstdint>

namespace hearth {

struct SourceLoc {
  const char* file = "";  ///< A string literal (static lifetime), as __builtin_FILE gives.
  std::uint32_t line = 0;

  /// The place of the caller, when used as a default argument.
  static constexpr SourceLoc current(const char* file = __builtin_FILE(),
                                     std::uint32_t line = __builtin_LINE()) noexcept {
    return SourceLoc{file, line};
  }

  friend constexpr bool operator==(const SourceLoc& a, const SourceLoc& b) noexcept {
    return a.file == b.file && a.line == b.line;
  }
};

}  // namespace hearth
