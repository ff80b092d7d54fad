#include "explain_picture.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>
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
constexpr double kTimeHeight = 6;
constexpr double kRowGap = 12;  // between rows
/// Lines for a kernel's names, place and rule.
constexpr std::size_t kMostLines = 4;
/// Height above and below the rows.
constexpr double kFrame = 220;
constexpr double kFoldedHeight = 28;
constexpr const char* kReadColor = "#4e79a7";
constexpr const char* kWriteColor = "#d9741a";
constexpr const char* kTimeColor = "#59a14f";

/// Size and colour of lines.
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

std::string time_text(double seconds) {
  return seconds >= 1      ? fmt::format("{:.2f} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                           : fmt::format("{:.1f} us", seconds * 1e6);
}

std::string bar(double x, double y, double width, const char* color, double height = kBarHeight) {
  return fmt::format("<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{}' fill='{}'/>\n",
                     x,
                     y,
                     width,
                     height,
                     color);
}

/// Writes words from `y` on in as many lines as they need, up to a limit, and moves `y` below them.
std::string text(double x,
                 double& y,
                 double width,
                 const Style& style,
                 std::string_view words,
                 std::size_t most_lines = SIZE_MAX) {
  std::string svg;
  std::vector<std::string> lines = wrapped(words, style.size, width);
  if (lines.size() > most_lines) {
    lines.resize(most_lines);
    std::string& last = lines.back();
    last.replace(last.size() - std::min<std::size_t>(last.size(), 3), 3, "...");
  }
  for (const std::string& line : lines) {
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

/// A drawn kernel and its number of repetitions.
struct Row {
  const ExplainedKernel* kernel = nullptr;
  std::size_t number = 0;  ///< Counted from 1.
  std::size_t times = 1;
  double seconds = 0;  ///< Average of one run.

  [[nodiscard]] std::int64_t moved_bytes() const noexcept {
    return moved(*kernel) * static_cast<std::int64_t>(times);
  }
  [[nodiscard]] double all_seconds() const noexcept { return seconds * static_cast<double>(times); }
};

/// Length of the bars.
struct Scale {
  double of_bytes = 0;
  double of_seconds = 0;  ///< 0: not measured.
};

std::vector<Row> rows_of(const std::vector<ExplainedKernel>& kernels,
                         std::span<const double> seconds) {
  std::vector<Row> rows;
  for (const detail::RepeatedKernels& some : detail::repeated(kernels)) {
    for (std::size_t i = some.first; i < some.first + some.length; ++i) {
      Row row{.kernel = &kernels[i], .number = i + 1, .times = some.times};
      for (std::size_t k = 0; k < some.times && !seconds.empty(); ++k) {
        row.seconds += seconds[i + k * some.length] / static_cast<double>(some.times);
      }
      rows.push_back(row);
    }
  }
  return rows;
}

std::string row_of(const Row& row, double& y, const Scale& scale) {
  const ExplainedKernel& kernel = *row.kernel;
  const double top = y;
  const double read = static_cast<double>(kernel.bytes_read) * scale.of_bytes;
  const double written = static_cast<double>(kernel.bytes_written) * scale.of_bytes;
  const bool has_time = scale.of_seconds > 0;
  std::string svg = bar(kLeft, y, read, kReadColor) + bar(kLeft + read, y, written, kWriteColor);
  if (has_time) {
    svg += bar(kLeft, y + kBarHeight, row.seconds * scale.of_seconds, kTimeColor, kTimeHeight);
  }
  svg += text(kTextLeft,
              y,
              kTextWidth,
              kName,
              fmt::format("{}. {}{}{}, {}{}reads {}, writes {}",
                          row.number,
                          row.times > 1 ? fmt::format("{} times ", row.times) : "",
                          kernel.name,
                          kernel.op_count > 1 ? fmt::format(" ({} ops)", kernel.op_count) : "",
                          row.times > 1 ? "each " : "",
                          has_time ? "took " + time_text(row.seconds) + ", " : "",
                          bytes(kernel.bytes_read),
                          bytes(kernel.bytes_written)),
              kMostLines);
  svg += text(kTextLeft, y, kTextWidth, kPlace, place_of(kernel), kMostLines);
  if (!kernel.boundary.empty()) {
    svg += text(kTextLeft, y, kTextWidth, kEnd, "ends: " + kernel.boundary, kMostLines);
  }
  y = std::max(y, top + kBarHeight + (has_time ? kTimeHeight : 0)) + kRowGap;
  return svg;
}

/// Chooses the rows that fit: the costliest ones, each with a possible line before it.
std::vector<bool> choose(const std::vector<Row>& rows, const Scale& scale) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return scale.of_seconds > 0 ? rows[a].all_seconds() > rows[b].all_seconds()
                                : rows[a].moved_bytes() > rows[b].moved_bytes();
  });
  double whole = kFrame;
  std::vector<double> heights;
  for (const Row& row : rows) {
    double height = 0;
    static_cast<void>(row_of(row, height, scale));
    heights.push_back(height);
    whole += height;
  }
  std::vector<bool> is_drawn(rows.size(), whole <= kMostPictureHeight);
  double height = kFrame + kFoldedHeight;
  for (std::size_t i = 0; i < order.size() && whole > kMostPictureHeight; ++i) {
    height += heights[order[i]] + kFoldedHeight;
    if (height > kMostPictureHeight) {
      break;
    }
    is_drawn[order[i]] = true;
  }
  return is_drawn;
}

/// One line for the rows that are not drawn.
std::string folded(std::span<const Row> rows, double& y, const Scale& scale) {
  std::size_t count = 0;
  std::int64_t moved_bytes = 0;
  double seconds = 0;
  for (const Row& row : rows) {
    count += row.times;
    moved_bytes += row.moved_bytes();
    seconds += row.all_seconds();
  }
  const std::string time =
      scale.of_seconds > 0 ? "took " + time_text(seconds) + ", " : std::string();
  std::string svg =
      text(kTextLeft,
           y,
           kTextWidth,
           kEnd,
           fmt::format("{}{}: {} smaller kernel{}, {}moved {}",
                       rows.front().number,
                       rows.size() == 1 ? "" : fmt::format(" to {}", rows.back().number),
                       count,
                       count == 1 ? "" : "s",
                       time,
                       bytes(moved_bytes)),
           1);
  y += kRowGap;
  return svg;
}

std::string counted(std::int64_t count, std::string_view what) {
  const std::string_view ending = count == 1 ? "" : what.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", count, what, ending);
}

std::string words_of_sums(const Explanation& explanation, std::span<const double> seconds) {
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
  if (!seconds.empty()) {
    words += fmt::format("; kernels took {}",
                         time_text(std::accumulate(seconds.begin(), seconds.end(), 0.0)));
  }
  return words;
}

std::string legend(double y, bool has_time) {
  const auto entry = [y](double x, const char* color, const char* words) {
    double line = y + 2;
    return bar(x, y, 12, color) + text(x + 18, line, kWidth, kSums, words);
  };
  return entry(kLeft, kReadColor, "bytes read") + entry(kLeft + 110, kWriteColor, "bytes written") +
         (has_time ? entry(kLeft + 240, kTimeColor, "time") : "");
}

}  // namespace

std::string draw_explanation(const Explanation& explanation,
                             const std::string& title,
                             std::span<const double> seconds) {
  const std::vector<ExplainedKernel>& kernels = explanation.kernels;
  const std::vector<Row> rows = rows_of(kernels, seconds);
  std::int64_t most = 1;
  double longest = 0;
  for (const Row& row : rows) {
    most = std::max(most, moved(*row.kernel));
    longest = std::max(longest, row.seconds);
  }
  const Scale scale{.of_bytes = kBarWidth / static_cast<double>(most),
                    .of_seconds = longest > 0 ? kBarWidth / longest : 0};
  constexpr double kAllWidth = kWidth - 2 * kLeft;
  double y = 12;
  std::string body = text(kLeft, y, kAllWidth, kTitle, title, kMostLines);
  body += text(kLeft, y, kAllWidth, kSums, words_of_sums(explanation, seconds), kMostLines);
  y += kRowGap;
  const std::vector<bool> is_drawn = choose(rows, scale);
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i;
    while (end < rows.size() && !is_drawn[end]) {
      ++end;
    }
    if (end > i) {
      body += folded(std::span(rows).subspan(i, end - i), y, scale);
      i = end;
      continue;
    }
    body += row_of(rows[i++], y, scale);
  }
  body += legend(y, scale.of_seconds > 0);
  return fmt::format(
             "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1:.0f}' "
             "viewBox='0 0 {0} {1:.0f}' font-family='sans-serif'>\n"
             "<rect width='100%' height='100%' fill='#ffffff'/>\n",
             kWidth,
             y + kBarHeight + kLeft) +
         body + "</svg>\n";
}

}  // namespace hearth::bench
