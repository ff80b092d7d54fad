// Texts in the pictures that hearth-bench draws. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::bench {

/// As text in an SVG file.
[[nodiscard]] std::string escaped(std::string_view text);
/// In lines of at most that width in a sans-serif font, as wide as those usually are: between
/// words, or behind a sign in a word that is too long, or anywhere in one that has none.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, int font_size, double width);
/// "3.25 MiB"
[[nodiscard]] std::string readable(double bytes);

}  // namespace hearth::bench
