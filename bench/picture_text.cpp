#include "picture_text.hpp"

#include <fmt/format.h>

namespace hearth::bench {

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
