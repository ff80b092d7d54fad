#include "explain_picture.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "picture_text.hpp"

namespace hearth::bench {
namespace {

constexpr double kLeft = 24;
constexpr double kTop = 76;
constexpr double kBarWidth = 420;
constexpr double kTextLeft = kLeft + kBarWidth + 16;
constexpr double kWidth = 1240;
constexpr double kRowHeight = 44;
constexpr double kBarHeight = 20;
constexpr const char* kReadColor = "#4e79a7";
constexpr const char* kWriteColor = "#d9741a";

std::int64_t moved(const ExplainedKernel& kernel) noexcept {
  return kernel.bytes_read + kernel.bytes_written;
}

std::string bar(double x, double y, double width, const char* color) {
  return fmt::format("<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{}' fill='{}'/>\n",
                     x,
                     y,
                     width,
                     kBarHeight,
                     color);
}

std::string text(double x, double y, int size, const char* color, const std::string& words) {
  return fmt::format("<text x='{:.1f}' y='{:.1f}' font-size='{}' fill='{}'>{}</text>\n",
                     x,
                     y,
                     size,
                     color,
                     escaped(words));
}

std::string row(const ExplainedKernel& kernel, double y, double bytes_to_width) {
  const double read = static_cast<double>(kernel.bytes_read) * bytes_to_width;
  const double written = static_cast<double>(kernel.bytes_written) * bytes_to_width;
  std::string svg = bar(kLeft, y, read, kReadColor) + bar(kLeft + read, y, written, kWriteColor);
  const std::string ops = kernel.op_count > 1 ? fmt::format(" ({} ops)", kernel.op_count) : "";
  svg +=
      text(kTextLeft,
           y + 14,
           13,
           "#222",
           fmt::format("{}{}, {}", kernel.name, ops, readable(static_cast<double>(moved(kernel)))));
  if (!kernel.boundary.empty()) {
    svg += text(kTextLeft, y + 30, 11, "#666", "ends: " + kernel.boundary);
  }
  return svg;
}

}  // namespace

std::string draw_explanation(const Explanation& explanation, const std::string& title) {
  std::int64_t most = 1;
  for (const ExplainedKernel& kernel : explanation.kernels) {
    most = std::max(most, moved(kernel));
  }
  const double height =
      kTop + kRowHeight * static_cast<double>(explanation.kernels.size()) + 2 * kLeft;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1:.0f}' "
      "viewBox='0 0 {0} {1:.0f}' font-family='sans-serif'>\n"
      "<rect width='100%' height='100%' fill='#ffffff'/>\n",
      kWidth,
      height);
  svg += text(kLeft, 28, 18, "#222", title);
  svg +=
      text(kLeft,
           50,
           13,
           "#444",
           fmt::format("{} ops in {} kernels, {} launches on {}; {} read, {} written; one kernel "
                       "for all would move {}",
                       explanation.op_count(),
                       explanation.kernels.size(),
                       explanation.launches,
                       explanation.device,
                       readable(static_cast<double>(explanation.bytes_read())),
                       readable(static_cast<double>(explanation.bytes_written())),
                       readable(static_cast<double>(explanation.ideal_bytes))));
  double y = kTop;
  for (const ExplainedKernel& kernel : explanation.kernels) {
    svg += row(kernel, y, kBarWidth / static_cast<double>(most));
    y += kRowHeight;
  }
  svg += bar(kLeft, y + 4, 12, kReadColor) + text(kLeft + 18, y + 18, 12, "#444", "bytes read");
  svg += bar(kLeft + 110, y + 4, 12, kWriteColor) +
         text(kLeft + 128, y + 18, 12, "#444", "bytes written");
  return svg + "</svg>\n";
}

}  // namespace hearth::bench
