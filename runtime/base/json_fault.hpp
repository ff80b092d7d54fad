// What is wrong with a JSON text, in words for the one who has the file: nlohmann-json's own,
// without the name of its exception in front. Knows nothing of that library but this form.
// Stateless. Threads: any.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace hearth {

/// "[json.exception.out_of_range.403] key 'x' not found" becomes "key 'x' not found"; what other
/// exceptions say stays as it is.
[[nodiscard]] inline std::string json_fault(const std::exception& fault) {
  std::string_view text = fault.what();
  if (const std::size_t end = text.find("] "); text.starts_with("[json.") && end != text.npos) {
    text.remove_prefix(end + 2);
  }
  return std::string(text);
}

}  // namespace hearth
