#include <hearth/autotune/fingerprint.hpp>

#include <span>

#include <hearth/runtime/base/checked_file.hpp>

namespace hearth::detail {
namespace {

void append(std::string& text, std::string_view part) {
  for (const char letter : part) {
    const bool is_mark = letter == ';' || letter == '=' || (letter >= 0 && letter < ' ');
    text += is_mark ? '_' : letter;
  }
}

}  // namespace

Fingerprint Fingerprint::of(
    std::initializer_list<std::pair<std::string_view, std::string_view>> facts) {
  std::string text;
  for (const auto& [key, value] : facts) {
    if (!text.empty()) {
      text += ';';
    }
    append(text, key);
    text += '=';
    append(text, value);
  }
  return of_text(std::move(text));
}

Fingerprint Fingerprint::of_text(std::string text) {
  const std::uint64_t hash = xxh64(std::as_bytes(std::span(text)));
  return {.text = std::move(text), .hash = hash};
}

}  // namespace hearth::detail
