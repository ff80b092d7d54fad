#include "explain_picture.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "picture_text.hpp"

namespace hearth::bench {
namespace {

constexpr double kLeft = 24;
constexpr double kBarWidth = 420;
constexpr double kTextLeft = kLeft + kBarWidth + 16;
constexpr double kWidth = 1240;
constexpr double kTextWidth = kWidth - kLeft - kTextLeft;
constexpr double kBarHeight = 20;
constexpr double kRowGap = 12;  // between rows
constexpr const char* kReadColor = "#4e79a7";
constexpr const char* kWriteColor = "#d9741a";

/// Lines of one size and colour.
struct Style {
  int size = 11;
  const char* color = "#666";
};
constexpr Style kTitle{.size = 18, .color = "#222"};
constexpr Style kSums{.size = 13, .color = "#444"};
constexpr Style kName{.size = 13, .color = "#222"};
constexpr Style kPlace{.size = 11, .color = "#4a6a8a"};
constexpr Style kEnd{.size = 11, .color = "#666"};

std::int64_t moved(const ExplainedKernel& kernel) noexcept {
  return kernel.bytes_read + kernel.bytes_written;
}

std::string bytes(std::int64_t count) {
  return readable(static_cast<double>(count));
}

std::string bar(double x, double y, double width, const char* color) {
  return fmt::format("<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{}' fill='{}'/>\n",
                     x,
                     y,
                     width,
                     kBarHeight,
                     color);
}

/// From `y` on, which becomes the place below it, in as many lines as it takes.
std::string text(double x, double& y, double width, const Style& style, std::string_view words) {
  std::string svg;
  for (const std::string& line : wrapped(words, style.size, width)) {
    y += style.size + 4;
    svg += fmt::format("<text x='{:.1f}' y='{:.1f}' font-size='{}' fill='{}'>{}</text>\n",
                       x,
                       y - 4,
                       style.size,
                       style.color,
                       escaped(line));
  }
  return svg;
}

std::string place_of(const ExplainedKernel& kernel) {
  std::string words = kernel.module_path.empty() ? "" : "in " + kernel.module_path + " ";
  if (kernel.location.line != 0) {
    const std::string_view file = kernel.location.file;
    words += fmt::format("at {}:{}", file.substr(file.find_last_of('/') + 1), kernel.location.line);
  }
  return words;
}

/// `times`: how often it comes.
std::string row(const ExplainedKernel& kernel,
                std::size_t number,
                std::size_t times,
                double& y,
                double bytes_to_width) {
  const double top = y;
  const double read = static_cast<double>(kernel.bytes_read) * bytes_to_width;
  const double written = static_cast<double>(kernel.bytes_written) * bytes_to_width;
  std::string svg = bar(kLeft, y, read, kReadColor) + bar(kLeft + read, y, written, kWriteColor);
  svg += text(kTextLeft,
              y,
              kTextWidth,
              kName,
              fmt::format("{}. {}{}{}, {}reads {}, writes {}",
                          number,
                          times > 1 ? fmt::format("{} times ", times) : "",
                          kernel.name,
                          kernel.op_count > 1 ? fmt::format(" ({} ops)", kernel.op_count) : "",
                          times > 1 ? "each " : "",
                          bytes(kernel.bytes_read),
                          bytes(kernel.bytes_written)));
  svg += text(kTextLeft, y, kTextWidth, kPlace, place_of(kernel));
  if (!kernel.boundary.empty()) {
    svg += text(kTextLeft, y, kTextWidth, kEnd, "ends: " + kernel.boundary);
  }
  y = std::max(y, top + kBarHeight) + kRowGap;
  return svg;
}

std::string counted(std::int64_t count, std::string_view what) {
  const std::string_view ending = count == 1 ? "" : what.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", count, what, ending);
}

std::string words_of_sums(const Explanation& explanation) {
  std::string words = fmt::format(
      "{} in {} on {}: {}, {} saved; {} read, {} written; one kernel for all would "
      "move {}",
      counted(explanation.op_count(), "op"),
      counted(std::ssize(explanation.kernels), "kernel"),
      explanation.device,
      counted(explanation.launches, "launch"),
      counted(explanation.launches_saved(), "launch"),
      bytes(explanation.bytes_read()),
      bytes(explanation.bytes_written()),
      bytes(explanation.ideal_bytes));
  if (explanation.unneeded_ops > 0) {
    words += fmt::format("; {} more eliminated, as nothing uses what {}",
                         counted(explanation.unneeded_ops, "op"),
                         explanation.unneeded_ops == 1 ? "it makes" : "they make");
  }
  return words;
}

std::string legend(double y) {
  const auto entry = [y](double x, const char* color, const char* words) {
    double line = y + 2;
    return bar(x, y, 12, color) + text(x + 18, line, kWidth, kSums, words);
  };
  return entry(kLeft, kReadColor, "bytes read") + entry(kLeft + 110, kWriteColor, "bytes written");
}

}  // namespace

std::string draw_explanation(const Explanation& explanation, const std::string& title) {
  const std::vector<ExplainedKernel>& kernels = explanation.kernels;
  std::int64_t most = 1;
  for (const ExplainedKernel& kernel : kernels) {
    most = std::max(most, moved(kernel));
  }
  constexpr double kAllWidth = kWidth - 2 * kLeft;
  double y = 12;
  std::string body = text(kLeft, y, kAllWidth, kTitle, title);
  body += text(kLeft, y, kAllWidth, kSums, words_of_sums(explanation));
  y += kRowGap;
  for (const detail::RepeatedKernels& some : detail::repeated(kernels)) {
    for (std::size_t i = some.first; i < some.first + some.length; ++i) {
      body += row(kernels[i], i + 1, some.times, y, kBarWidth / static_cast<double>(most));
    }
  }
  body += legend(y);
  return fmt::format(
             "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1:.0f}' "
             "viewBox='0 0 {0} {1:.0f}' font-family='sans-serif'>\n"
             "<rect width='100%' height='100%' fill='#ffffff'/>\n",
             kWidth,
             y + kBarHeight + kLeft) +
         body + "</svg>\n";
}

}  // namespace hearth::bench
