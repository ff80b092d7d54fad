// Draws rows of a report under the roofs of their device. Pure functions. Threads: any.
#pragma once

#include <string>

#include "report.hpp"

namespace hearth::bench {

/// Returns an SVG picture with logarithmic axes: operations for each byte, and rate. A dot is a
/// row, red below 60 % of its roof; its title has the row's figures.
///
/// Requires a report with both roofs. Rows without a time or without operations have no dot.
[[nodiscard]] std::string draw_roofline(const Report& report);

}  // namespace hearth::bench
