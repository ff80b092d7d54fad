// Draws the kernels that a device made of a program's ops.
#pragma once

#include <span>
#include <string>

#include <hearth/runtime/explanation.hpp>

namespace hearth::bench {

/// Greatest height of a picture, for any number of kernels.
inline constexpr int kMostPictureHeight = 1600;

/// Draws an SVG file with bars for each kernel, whose lengths show the bytes that it moves and the
/// time that it took. Its ops stand beside the bars, the rule that ended it below them, and the
/// sums at the top. Repeated kernels are drawn once. If not all kernels fit, the costliest are
/// drawn, and a line stands for those between two of them.
///
/// `seconds`: of each kernel; empty: not measured.
[[nodiscard]] std::string draw_explanation(const Explanation& explanation,
                                           const std::string& title,
                                           std::span<const double> seconds = {});

}  // namespace hearth::bench
