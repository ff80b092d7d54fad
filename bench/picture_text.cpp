#include "picture_text.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace hearth::bench {
namespace {

constexpr double kWidthOfLetter = 0.6;  // of the font's size, in texts with few wide letters

/// Length of the text's first line.
std::size_t first_line(std::string_view text, std::size_t most) {
  if (text.size() <= most) {
    return text.size();
  }
  if (const std::size_t blank = text.rfind(' ', most);
      blank != std::string_view::npos && blank > 0) {
    return blank;
  }
  const std::size_t sign = text.find_last_of("+/.,", most - 1);
  std::size_t end = sign != std::string_view::npos && sign > 0 ? sign + 1 : most;
  while (end > 1 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) {
    --end;  // not within a letter of UTF-8
  }
  return end;
}

}  // namespace

std::vector<std::string> wrapped(std::string_view text, int font_size, double width) {
  const auto most = static_cast<std::size_t>(
      std::max(1.0, width / (kWidthOfLetter * static_cast<double>(font_size))));
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = first_line(text, most);
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  return lines;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string readable(double bytes) {
  if (bytes >= 1 << 20) {
    return fmt::format("{:.2f} MiB", bytes / (1 << 20));
  }
  return bytes >= 1 << 10 ? fmt::format("{:.1f} KiB", bytes / (1 << 10))
                          : fmt::format("{:.0f} B", bytes);
}

}  // namespace hearth::bench
