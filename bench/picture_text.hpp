// Texts in the pictures that hearth-bench draws. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::bench {

/// Escapes a text for an SVG file.
[[nodiscard]] std::string escaped(std::string_view text);
/// Splits a text into lines of at most this width in an average sans-serif font. Lines break
/// between words. A word that is too long breaks behind a sign, or at any letter if it has none.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, int font_size, double width);
/// Text such as "3.25 MiB".
[[nodiscard]] std::string readable(double bytes);

}  // namespace hearth::bench
