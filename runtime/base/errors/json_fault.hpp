// The error text of an invalid JSON document: nlohmann-json's text without the exception's name in
// front. Depends on nothing of that library but this form. Stateless. Threads: any.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace hearth {

/// Turns "[json.exception.out_of_range.403] key 'x' not found" into "key 'x' not found". Texts of
/// other exceptions stay unchanged.
[[nodiscard]] inline std::string json_fault(const std::exception& fault) {
  std::string_view text = fault.what();
  if (const std::size_t end = text.find("] "); text.starts_with("[json.") && end != text.npos) {
    text.remove_prefix(end + 2);
  }
  return std::string(text);
}

}  // namespace hearth
