#include "line_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace hearth::detail {
namespace {

constexpr double kWidth = 560;
constexpr double kHeight = 260;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 36;
constexpr double kBottom = 40;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void take(double value) {
    if (std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  [[nodiscard]] bool is_empty() const { return low > high; }
};

// Text of a value: a number or, in per cent, "97.25 %".
std::string value_text(double value, bool is_share) {
  return is_share ? readable_number(value * 100, 0.01) + " %" : readable_number(value, 0);
}

// Maps values to pixels.
struct Frame {
  double x_low, x_high, y_low, y_high;

  [[nodiscard]] double x(double value) const {
    return kLeft + (value - x_low) / (x_high - x_low) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    return kHeight - kBottom - (value - y_low) / (y_high - y_low) * (kHeight - kTop - kBottom);
  }
};

std::string grid_of(const LineChart& chart,
                    const Frame& frame,
                    const std::vector<double>& x_ticks,
                    const std::vector<double>& y_ticks) {
  std::string text;
  const double scale = chart.in_percent ? 100 : 1;
  const double y_step = (y_ticks[1] - y_ticks[0]) * scale;
  for (const double tick : y_ticks) {
    text += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft,
        frame.y(tick),
        kWidth - kRight,
        frame.y(tick),
        kLeft - 8,
        frame.y(tick) + 4,
        readable_number(tick * scale, y_step) + (chart.in_percent ? " %" : ""));
  }
  for (const double tick : x_ticks) {
    if (tick >= frame.x_low && tick <= frame.x_high) {
      text += fmt::format(
          "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
          frame.x(tick),
          kHeight - kBottom + 18,
          readable_number(tick, 1));
    }
  }
  return text + fmt::format(
                    "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" "
                    "text-anchor=\"middle\">{}</text>\n",
                    (kLeft + kWidth - kRight) / 2,
                    kHeight - 6,
                    escaped(chart.axis));
}

// The line, broken where values are not finite, and a dot for each value if there are few.
std::string curve_of(const LineChart& chart, const Frame& frame, std::size_t index) {
  const ChartLine& line = chart.lines[index];
  constexpr std::size_t kMostDots = 60;
  std::string text;
  std::string path;
  std::string dots;
  bool is_down = false;
  for (std::size_t i = 0; i < line.values.size(); ++i) {
    const double value = line.values[i];
    if (!std::isfinite(value)) {
      is_down = false;
      continue;
    }
    const double at = chart.first + chart.stride * static_cast<double>(i);
    path += fmt::format("{}{:.1f} {:.1f}", is_down ? " L" : " M", frame.x(at), frame.y(value));
    is_down = true;
    if (line.values.size() <= kMostDots) {
      dots += fmt::format(
          "<circle class=\"dot{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} {}: "
          "{}</title></circle>\n",
          index,
          frame.x(at),
          frame.y(value),
          escaped(chart.axis),
          readable_number(at, 1),
          value_text(value, chart.in_percent));
    }
  }
  if (!path.empty()) {
    text += fmt::format("<path class=\"line{}\" d=\"{}\"/>\n", index, path.substr(1));
  }
  return text + dots;
}

std::string legend_of(const LineChart& chart) {
  std::string text;
  double x = kWidth - kRight;
  for (std::size_t i = chart.lines.size(); i-- > 0;) {
    x -= 7.2 * static_cast<double>(chart.lines[i].name.size()) + 30;
    text += fmt::format(
        "<path class=\"line{}\" d=\"M{:.1f} 18 L{:.1f} 18\"/><text class=\"tick\" x=\"{:.1f}\" "
        "y=\"22\">{}</text>\n",
        i,
        x,
        x + 16,
        x + 20,
        escaped(chart.lines[i].name));
  }
  return text;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string readable_number(double value, double step) {
  if (!std::isfinite(value)) {
    return fmt::format("{}", value);
  }
  constexpr double kLeast = 1e-4;
  constexpr double kMost = 1e9;
  constexpr int kDigits = 4;
  const double size = std::fabs(value);
  if (size <= step * 1e-3) {
    return "0";
  }
  const int magnitude = static_cast<int>(std::floor(std::log10(size)));
  // Digits after the first, so that values one step apart differ. The addend keeps a step just
  // below a power of ten at that power.
  const int digits =
      step > 0 ? magnitude - static_cast<int>(std::floor(std::log10(step) + 1e-9)) : kDigits - 1;
  const bool is_small = size < kLeast || (step > 0 && step < kLeast);
  if (is_small || size >= kMost) {
    // "2e-5": without trailing zeros.
    std::string text = fmt::format("{:.{}e}", value, std::clamp(digits, 0, 15));
    const std::size_t e = text.find('e');
    std::string front = text.substr(0, e);
    if (step <= 0 && front.find('.') != std::string::npos) {
      front.erase(front.find_last_not_of('0') + 1);
      front.erase(front.find_last_not_of('.') + 1);
    }
    const int power = std::atoi(text.c_str() + e + 1);
    return fmt::format("{}e{}", front, power);
  }
  std::string text = fmt::format("{:.{}f}", value, std::clamp(digits - magnitude, 0, 15));
  if (step <= 0 && text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    text.erase(text.find_last_not_of('.') + 1);
  }
  const std::size_t begin = value < 0 ? 1 : 0;
  for (auto place = std::min(text.find('.'), text.size()); place > begin + 3;) {
    place -= 3;
    text.insert(place, ",");
  }
  return text;
}

std::vector<double> round_ticks(double low, double high, int count) {
  if (!std::isfinite(high - low)) {
    return {low, high};  // the distance exceeds the range of double
  }
  // Values that differ in their last bits only count as one: no tick fits between them.
  constexpr double kLeast = 1e-300;
  if (!(high - low > std::max(kLeast, 1e-9 * std::max(std::fabs(low), std::fabs(high))))) {
    const double margin = low == 0 ? 1 : std::max(std::fabs(low) / 2, kLeast);
    low -= margin;
    high += margin;
  }
  const double rough = (high - low) / std::max(count, 1);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double part : {1.0, 2.0, 5.0}) {
    if (part * power >= rough * 0.999) {
      step = part * power;
      break;
    }
  }
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  std::vector<double> ticks;
  for (double number = first; number <= last; ++number) {
    ticks.push_back(number * step);
  }
  return ticks;
}

std::string svg_of(const LineChart& chart) {
  Range values;
  std::size_t length = 1;
  for (const ChartLine& line : chart.lines) {
    for (const double value : line.values) {
      values.take(value);
    }
    length = std::max(length, line.values.size());
  }
  if (values.is_empty()) {
    values = {.low = 0, .high = 1};
  }
  const std::vector<double> y_ticks = round_ticks(values.low, values.high, 5);
  const double last = chart.first + chart.stride * static_cast<double>(length - 1);
  // A single value stands in the middle.
  const double half = length == 1 ? chart.stride / 2 : 0;
  const Frame frame{.x_low = chart.first - half,
                    .x_high = last + half,
                    .y_low = y_ticks.front(),
                    .y_high = y_ticks.back()};
  std::vector<double> x_ticks;
  for (const double tick : round_ticks(chart.first, last, 8)) {
    if (tick == std::round(tick)) {  // epochs and steps are whole numbers
      x_ticks.push_back(tick);
    }
  }
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\">\n<title>{2}</title>\n<text class=\"title\" x=\"{3}\" "
      "y=\"22\">{2}</text>\n",
      kWidth,
      kHeight,
      escaped(chart.title),
      kLeft);
  text += grid_of(chart, frame, x_ticks, y_ticks);
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    text += curve_of(chart, frame, i);
  }
  if (chart.lines.size() > 1) {
    text += legend_of(chart);
  }
  return text + "</svg>\n";
}

}  // namespace hearth::detail
