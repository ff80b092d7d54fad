// line_chart: curves over a common axis as an SVG element, for a report. Private to modules.
// Stateless. Threads: any. Invariant: what it returns is well-formed XML that refers to nothing
// outside of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::detail {

struct ChartLine {
  std::string name;
  std::vector<double> values;  ///< What is not finite leaves a gap.
};

struct LineChart {
  std::string title;
  std::string axis;         ///< What is counted along x.
  double first = 1;         ///< Where the first value stands on that axis …
  double stride = 1;        ///< … and how far the next one is.
  bool in_percent = false;  ///< Values in per cent.
  std::vector<ChartLine> lines;
};

[[nodiscard]] std::string svg_of(const LineChart& chart);

/// Text as XML has it: & < > " become their entities.
[[nodiscard]] std::string escaped(std::string_view text);

/// A number with as many digits as numbers that are `step` apart need, and thousands set off:
/// "12,000", "0.025", "2e-5". A step of 0: with four digits, without zeros at the end.
[[nodiscard]] std::string readable_number(double value, double step);

/// Round numbers that cut [low, high] into about `count` parts: 1, 2 or 5 times a power of ten.
/// At least two, whatever the range.
[[nodiscard]] std::vector<double> round_ticks(double low, double high, int count);

}  // namespace hearth::detail
