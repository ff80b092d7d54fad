// A picture of what a device made of a program's ops.
#pragma once

#include <span>
#include <string>

#include <hearth/runtime/explanation.hpp>

namespace hearth::bench {

/// The most that a picture is high, whatever the number of kernels.
inline constexpr int kMostPictureHeight = 1600;

/// An SVG file: bars for each kernel, as long as the bytes that it moves and the time that it took,
/// with its ops beside it and the rule that ended it below; at the top the sums. Kernels that come
/// again are drawn once. Where there is no room for all, the costliest are drawn, and a line stands
/// for those between two of them.
///
/// `seconds`: of each kernel; empty: nobody measured.
[[nodiscard]] std::string draw_explanation(const Explanation& explanation,
                                           const std::string& title,
                                           std::span<const double> seconds = {});

}  // namespace hearth::bench
