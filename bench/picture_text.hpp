// Texts in the pictures that hearth-bench draws. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace hearth::bench {

/// As text in an SVG file.
[[nodiscard]] std::string escaped(std::string_view text);
/// "3.25 MiB"
[[nodiscard]] std::string readable(double bytes);

}  // namespace hearth::bench
