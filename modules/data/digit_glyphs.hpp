// Shapes of the ten digits: a few styles each, as pen strokes in a box of width 1 and height 1, y
// downwards.
// Constant data. Threads: any.
// Invariants: (1) every digit has at least two styles; (2) a stroke has at least two points; (3)
// the pen passes through all points on a smooth curve, and a repeated point is a corner.
#pragma once

#include <vector>

namespace hearth::detail {

struct GlyphPoint {
  float x = 0;
  float y = 0;
};
using GlyphStroke = std::vector<GlyphPoint>;
using GlyphStyle = std::vector<GlyphStroke>;

/// Returns the styles of the digits 0 to 9.
///
/// Cost: builds the table; call it once for a series of images.
[[nodiscard]] std::vector<std::vector<GlyphStyle>> digit_glyphs();

}  // namespace hearth::detail
