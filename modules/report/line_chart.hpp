// line_chart: curves over a common axis as an SVG element, for a report. Private to modules.
// Stateless. Threads: any. Invariant: the result is well-formed XML without external references.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::detail {

struct ChartLine {
  std::string name;
  std::vector<double> values;  ///< A non-finite value leaves a gap.
};

struct LineChart {
  std::string title;
  std::string axis;         ///< Label of the x axis.
  double first = 1;         ///< Position of the first value on the x axis.
  double stride = 1;        ///< Distance between two values on the x axis.
  bool in_percent = false;  ///< Whether values are printed in per cent.
  std::vector<ChartLine> lines;
};

[[nodiscard]] std::string svg_of(const LineChart& chart);

/// Escapes text for XML: & < > " become entities.
[[nodiscard]] std::string escaped(std::string_view text);

/// Formats a number with the digits that distinguish multiples of `step`, and thousands separators:
/// "12,000", "0.025", "2e-5". A step of 0: four digits, without trailing zeros.
[[nodiscard]] std::string readable_number(double value, double step);

/// Returns at least two round numbers that cut [low, high] into about `count` parts: 1, 2 or 5
/// times a power of ten.
[[nodiscard]] std::vector<double> round_ticks(double low, double high, int count);

}  // namespace hearth::detail
