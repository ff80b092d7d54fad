// A picture of what a device made of a program's ops.
#pragma once

#include <string>

#include <hearth/runtime/explanation.hpp>

namespace hearth::bench {

/// An SVG file: a bar for each kernel, as long as the bytes that it moves, with its ops beside it
/// and the rule that ended it below; at the top the sums.
[[nodiscard]] std::string draw_explanation(const Explanation& explanation,
                                           const std::string& title);

}  // namespace hearth::bench
