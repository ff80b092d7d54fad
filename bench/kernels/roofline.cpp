#include "roofline.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "bench/picture_text.hpp"

namespace hearth::bench {
namespace {

constexpr double kWidth = 900;
constexpr double kHeight = 520;
constexpr double kLeft = 70;
constexpr double kTop = 50;
constexpr double kRight = 20;
constexpr double kBottom = 60;
constexpr double kGoodShare = 0.6;

/// A logarithmic axis over whole decades.
struct Axis {
  double low;   ///< Logarithm of its first value.
  double high;  ///< Logarithm of its last value.
  double begin;
  double end;

  [[nodiscard]] double at(double value) const noexcept {
    const double place = std::clamp((std::log10(value) - low) / (high - low), 0.0, 1.0);
    return begin + place * (end - begin);
  }
};

struct Dot {
  const Row* row;
  double intensity;  ///< Operations for each byte.
  double rate;       ///< GFLOP/s.
};

std::vector<Dot> dots_of(const Report& report) {
  std::vector<Dot> dots;
  for (const Row& row : report.rows) {
    if (row.time.is_known() && row.flops > 0 && row.bytes > 0) {
      dots.push_back({&row, row.flops / row.bytes, row.flops / row.time.lowest.count()});
    }
  }
  return dots;
}

std::string grid(const Axis& x, const Axis& y) {
  std::string svg;
  for (double decade = x.low; decade <= x.high; ++decade) {
    const double at = x.at(std::pow(10, decade));
    svg += fmt::format(
        "<line x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}' class='grid'/>"
        "<text x='{0:.1f}' y='{3}' text-anchor='middle'>{4:g}</text>\n",
        at,
        y.begin,
        y.end,
        y.begin + 18,
        std::pow(10, decade));
  }
  for (double decade = y.low; decade <= y.high; ++decade) {
    const double at = y.at(std::pow(10, decade));
    svg += fmt::format(
        "<line x1='{1}' x2='{2}' y1='{0:.1f}' y2='{0:.1f}' class='grid'/>"
        "<text x='{3}' y='{4:.1f}' text-anchor='end'>{5:g}</text>\n",
        at,
        x.begin,
        x.end,
        x.begin - 8,
        at + 4,
        std::pow(10, decade));
  }
  return svg;
}

}  // namespace

std::string draw_roofline(const Report& report) {
  const double peak = report.roofs.flops_per_second / 1e9;
  const double memory = report.roofs.bytes_per_second / 1e9;
  const std::vector<Dot> dots = dots_of(report);
  double least = memory * 0.1;
  double from = 0.1;
  double to = 1000;
  for (const Dot& dot : dots) {
    least = std::min(least, dot.rate);
    from = std::min(from, dot.intensity);
    to = std::max(to, dot.intensity);
  }
  const Axis x{.low = std::floor(std::log10(from)),
               .high = std::ceil(std::log10(to)),
               .begin = kLeft,
               .end = kWidth - kRight};
  const Axis y{.low = std::floor(std::log10(std::max(least, 1e-3))),
               .high = std::ceil(std::log10(peak)),
               .begin = kHeight - kBottom,
               .end = kTop};
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {} {}' font-family='sans-serif' "
      "font-size='12'>\n<style>.grid{{stroke:#ddd}} .roof{{stroke:#333;stroke-width:2;fill:none}} "
      ".good{{fill:#2a7}} .bad{{fill:#c33}}</style>\n<rect width='100%' height='100%' "
      "fill='#fff'/>\n<text x='{}' y='24' font-size='15'>{}: {}</text>\n",
      kWidth,
      kHeight,
      kLeft,
      escaped(report.device),
      escaped(report.roofs.to_string()));
  svg += grid(x, y);
  const double ridge = peak / memory;
  svg +=
      fmt::format("<polyline class='roof' points='{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}'/>\n",
                  x.begin,
                  y.at(std::pow(10, x.low) * memory),
                  x.at(ridge),
                  y.at(peak),
                  x.end,
                  y.at(peak));
  for (const Dot& dot : dots) {
    const double roof = std::min(peak, dot.intensity * memory);
    svg += fmt::format(
        "<circle cx='{:.1f}' cy='{:.1f}' r='4' class='{}'><title>{}: {}, {:.4g} GFLOP/s, {:.0f} % "
        "of "
        "its roof</title></circle>\n",
        x.at(dot.intensity),
        y.at(dot.rate),
        dot.rate < kGoodShare * roof ? "bad" : "good",
        escaped(dot.row->label()),
        readable_time(dot.row->time.lowest),
        dot.rate,
        100 * dot.rate / roof);
  }
  svg += fmt::format(
      "<text x='{}' y='{}' text-anchor='middle'>operations a byte</text>\n"
      "<text x='16' y='{}' transform='rotate(-90 16 {})' "
      "text-anchor='middle'>GFLOP/s</text>\n</svg>\n",
      kWidth / 2,
      kHeight - 16,
      kHeight / 2,
      kHeight / 2);
  return svg;
}

}  // namespace hearth::bench
