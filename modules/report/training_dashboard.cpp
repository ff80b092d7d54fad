#include "training_dashboard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace hearth::detail {
namespace {

struct Area {
  int row = 0;
  int column = 0;
  int rows = 0;
  int columns = 0;
};

struct Curve {
  std::string name;
  std::vector<double> values;  ///< Evenly spaced along the axis; a non-finite value leaves a gap.
  TextStyle style = TextStyle::first;
  bool in_percent = false;
};

std::size_t glyph_bytes(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return std::min(size, text.size() - at);
}

int columns_of(std::string_view text) {
  int columns = 0;
  for (std::size_t at = 0; at < text.size(); at += glyph_bytes(text, at)) {
    ++columns;
  }
  return columns;
}

std::string utf8_of(unsigned code) {
  return {static_cast<char>(0xe0U | (code >> 12U)),
          static_cast<char>(0x80U | ((code >> 6U) & 0x3fU)),
          static_cast<char>(0x80U | (code & 0x3fU))};
}

/// A grid of dots: eight per cell as Braille patterns, one per cell in ASCII.
class DotField {
 public:
  DotField(const Area& area, bool is_unicode)
      : area_(area),
        across_(is_unicode ? 2 : 1),
        down_(is_unicode ? 4 : 1),
        cells_(static_cast<std::size_t>(std::max(area.rows, 0) * std::max(area.columns, 0))),
        is_unicode_(is_unicode) {}

  [[nodiscard]] int width() const noexcept { return area_.columns * across_; }
  [[nodiscard]] int height() const noexcept { return area_.rows * down_; }

  void set(int x, int y, TextStyle style) {
    if (x < 0 || y < 0 || x >= width() || y >= height()) {
      return;
    }
    // Bits of a Braille cell: the left column from the top, then the right one, then the lowest
    // two.
    static constexpr std::array<std::array<unsigned, 2>, 4> kBits{
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    Cell& cell = cells_[static_cast<std::size_t>((y / down_) * area_.columns + x / across_)];
    cell.dots |= kBits[static_cast<std::size_t>(y % down_)][static_cast<std::size_t>(x % across_)];
    cell.style = style;
  }
  void line(int x0, int y0, int x1, int y1, TextStyle style) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      set(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps, style);
    }
  }
  void draw(TextPicture& picture) const {
    for (int row = 0; row < area_.rows; ++row) {
      for (int column = 0; column < area_.columns; ++column) {
        const Cell& cell = cells_[static_cast<std::size_t>(row * area_.columns + column)];
        if (cell.dots != 0) {
          picture.put(area_.row + row,
                      area_.column + column,
                      is_unicode_ ? utf8_of(0x2800U + cell.dots) : "*",
                      cell.style);
        }
      }
    }
  }

 private:
  struct Cell {
    unsigned dots = 0;
    TextStyle style = TextStyle::plain;
  };

  Area area_;
  int across_;
  int down_;
  std::vector<Cell> cells_;
  bool is_unicode_;
};

std::string number(double value, bool in_percent = false) {
  const double size = std::abs(value);
  return in_percent                                  ? fmt::format("{:.1f} %", 100 * value)
         : size != 0 && (size < 1e-3 || size >= 1e5) ? fmt::format("{:.2e}", value)
         : size >= 100                               ? fmt::format("{:.1f}", value)
                                                     : fmt::format("{:.4f}", value);
}

/// Joins as many parts as fit, with blanks between them.
std::string fitting(const std::vector<std::string>& parts, int room, int gap) {
  std::string text;
  for (const std::string& part : parts) {
    const std::string more =
        text.empty() ? part : std::string(static_cast<std::size_t>(gap), ' ') + part;
    if (columns_of(text) + columns_of(more) > room) {
      break;
    }
    text += more;
  }
  return text;
}

/// The text, or as much of its beginning as fits with an ellipsis.
std::string shortened(std::string_view text, int room, bool is_unicode) {
  if (columns_of(text) <= room) {
    return std::string(text);
  }
  const std::string_view mark = is_unicode ? "…" : "..";
  const int kept = room - columns_of(mark);
  if (kept < 1) {
    return {};
  }
  std::size_t end = 0;
  for (int column = 0; column < kept; ++column) {
    end += glyph_bytes(text, end);
  }
  std::string_view beginning = text.substr(0, end);
  if (text[end] != ' ') {  // in the middle of a word: drop the word if over half remains
    const std::size_t blank = beginning.find_last_of(' ');
    beginning = blank != beginning.npos && 2 * blank > end ? beginning.substr(0, blank) : beginning;
  }
  while (beginning.ends_with(' ')) {
    beginning.remove_suffix(1);
  }
  return std::string(beginning) + std::string(mark);
}

std::string bytes_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes >= std::int64_t{1000} << 30
             ? fmt::format("{:.2f} TiB", value / (1 << 30) / (1 << 10))
         : bytes >= std::int64_t{1} << 30 ? fmt::format("{:.2f} GiB", value / (1 << 30))
         : bytes >= 1 << 20               ? fmt::format("{:.1f} MiB", value / (1 << 20))
                                          : fmt::format("{:.0f} KiB", value / (1 << 10));
}

std::string bar_of(double share, int columns, bool is_unicode) {
  const int filled =
      static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * std::max(columns, 0)));
  std::string bar;
  for (int i = 0; i < columns; ++i) {
    bar += i < filled ? (is_unicode ? "█" : "#") : (is_unicode ? "░" : ".");
  }
  return bar;
}

void put_right(TextPicture& picture, int row, std::string_view text, TextStyle style) {
  picture.put(row, picture.columns() - columns_of(text), text, style);
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

Range range_of(const std::vector<Curve>& curves) {
  Range range;
  for (const Curve& curve : curves) {
    for (const double value : curve.values) {
      if (std::isfinite(value)) {
        range.low = std::min(range.low, value);
        range.high = std::max(range.high, value);
      }
    }
  }
  if (range.high - range.low < 1e-12 * std::max(std::abs(range.high), 1.0)) {
    range.high += std::max(std::abs(range.high) * 0.05, 1e-6);
    range.low -= std::max(std::abs(range.low) * 0.05, 1e-6);
  }
  return range;
}

void draw_names(TextPicture& picture,
                const Area& area,
                std::string_view title,
                const std::vector<Curve>& curves) {
  picture.put(area.row, area.column, title, TextStyle::strong);
  int column = area.column + columns_of(title) + 2;
  for (const Curve& curve : curves) {
    const auto last = std::find_if(curve.values.rbegin(), curve.values.rend(), [](double value) {
      return std::isfinite(value);
    });
    const std::string text =
        curve.name + (last == curve.values.rend() ? "" : " " + number(*last, curve.in_percent));
    if (column + columns_of(text) > area.column + area.columns) {
      break;
    }
    picture.put(area.row, column, text, curve.style);
    column += columns_of(text) + 2;
  }
}

void draw_frame(TextPicture& picture, const Area& inner, std::string_view axis, bool is_unicode) {
  for (int row = 0; row < inner.rows; ++row) {
    picture.put(inner.row + row, inner.column - 1, is_unicode ? "│" : "|", TextStyle::faint);
  }
  std::string base = is_unicode ? "└" : "+";
  for (int i = 0; i < inner.columns; ++i) {
    base += is_unicode ? "─" : "-";
  }
  picture.put(inner.row + inner.rows, inner.column - 1, base, TextStyle::faint);
  picture.put(inner.row + inner.rows, inner.column + 1, axis, TextStyle::faint);
}

void draw_curve(DotField& field, const Curve& curve, const Range& range) {
  const auto count = static_cast<int>(curve.values.size());
  int last_x = -1;
  int last_y = 0;
  for (int i = 0; i < count; ++i) {
    const double value = curve.values[static_cast<std::size_t>(i)];
    if (!std::isfinite(value)) {
      last_x = -1;
      continue;
    }
    const int x = count == 1 ? field.width() / 2 : i * (field.width() - 1) / (count - 1);
    const int y = static_cast<int>(
        std::lround((range.high - value) / (range.high - range.low) * (field.height() - 1)));
    if (last_x >= 0) {
      field.line(last_x, last_y, x, y, curve.style);
    } else {
      field.set(x, y, curve.style);
    }
    last_x = x;
    last_y = y;
  }
}

// Draws a title with the curves' names and last values, a scale at the left, and the curves.
void draw_chart(TextPicture& picture,
                const Area& area,
                std::string_view title,
                const std::vector<Curve>& curves,
                std::string_view axis,
                bool is_unicode) {
  constexpr int kScale = 9;  // columns of the scale at the left
  if (area.rows < 4 || area.columns < kScale + 8) {
    return;
  }
  const Area inner{.row = area.row + 1,
                   .column = area.column + kScale + 1,
                   .rows = area.rows - 2,
                   .columns = area.columns - kScale - 2};
  const Range range = range_of(curves);
  draw_names(picture, area, title, curves);
  draw_frame(picture, inner, axis, is_unicode);
  if (!std::isfinite(range.low)) {
    picture.put(inner.row + inner.rows / 2, inner.column + 2, "no data yet", TextStyle::faint);
    return;
  }
  const bool is_share = std::ranges::all_of(curves, &Curve::in_percent);
  const auto scale = [&](int row, double value) {
    picture.put(inner.row + row,
                area.column,
                fmt::format("{:>{}}", number(value, is_share), kScale),
                TextStyle::faint);
  };
  scale(0, range.high);
  scale(inner.rows - 1, range.low);
  if (inner.rows >= 7) {
    const int middle = inner.rows / 2;
    scale(middle, range.high - (range.high - range.low) * middle / (inner.rows - 1));
  }
  DotField field(inner, is_unicode);
  for (const Curve& curve : curves) {
    draw_curve(field, curve, range);
  }
  field.draw(picture);
}

std::vector<Curve> loss_curves(const DashboardFigures& figures) {
  const TrainingHistory& history = *figures.history;
  Curve steps{.name = "step", .values = history.steps.points(), .style = TextStyle::first};
  if (history.steps.open_count() > 0) {
    steps.values.push_back(history.steps.open_sum() /
                           static_cast<double>(history.steps.open_count()));
  }
  std::vector<Curve> curves{std::move(steps)};
  // Stretched to the steps' axis: an epoch's figure is placed at its end.
  Curve validation{.name = "validation", .values = {}, .style = TextStyle::second};
  const double done = static_cast<double>(figures.place.epoch - 1) +
                      static_cast<double>(figures.place.batch) /
                          static_cast<double>(std::max<std::int64_t>(figures.place.batch_count, 1));
  constexpr int kPlaces = 256;
  const double until = std::max(done, static_cast<double>(history.epochs.size()));
  for (int i = 1; i <= kPlaces && until > 0; ++i) {
    const double at = until * i / kPlaces;
    const auto epoch = static_cast<std::size_t>(at);
    const bool is_known = epoch >= 1 && epoch <= history.epochs.size() &&
                          history.epochs[epoch - 1].validation_loss.has_value();
    validation.values.push_back(is_known ? *history.epochs[epoch - 1].validation_loss
                                         : std::numeric_limits<double>::quiet_NaN());
  }
  if (std::ranges::any_of(validation.values, [](double value) { return std::isfinite(value); })) {
    curves.push_back(std::move(validation));
  }
  return curves;
}

std::vector<Curve> metric_curves(const DashboardFigures& figures) {
  constexpr std::array<TextStyle, 3> kStyles{TextStyle::first, TextStyle::second, TextStyle::third};
  const TrainingHistory& history = *figures.history;
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < std::min(history.metrics.size(), kStyles.size()); ++i) {
    Curve curve{.name = history.metrics[i].name,
                .values = {},
                .style = kStyles[i],
                .in_percent = history.metrics[i].in_percent};
    for (const EpochRecord& epoch : history.epochs) {
      curve.values.push_back(i < epoch.metrics.size() ? epoch.metrics[i]
                                                      : std::numeric_limits<double>::quiet_NaN());
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

double share_of_run(const DashboardFigures& figures) {
  const auto batches = static_cast<double>(std::max<std::int64_t>(figures.place.batch_count, 1));
  return (static_cast<double>(figures.place.epoch - 1) +
          static_cast<double>(figures.place.batch) / batches) /
         static_cast<double>(std::max<std::int64_t>(figures.epochs, 1));
}

// Draws elapsed and remaining time at the right, and the title in the remaining space.
void draw_title(TextPicture& picture,
                const DashboardFigures& figures,
                double share,
                bool is_unicode) {
  constexpr int kGap = 2;
  const double done = share - figures.share_at_begin;
  const std::string so_far = readable_time(figures.elapsed);
  std::vector<std::string> times{so_far + " elapsed", so_far};
  if (done > 0 && share < 1) {
    const std::string to_go = readable_time(figures.elapsed * ((1 - share) / done)) + " left";
    times.insert(times.begin(), {so_far + " elapsed, " + to_go, to_go});
  }
  constexpr int kLeastTitle = 12;
  const int title = std::min(columns_of(figures.title), kLeastTitle);
  const auto fits = [&](const std::string& time) {
    return title + kGap + columns_of(time) <= picture.columns();
  };
  const auto time = std::ranges::find_if(times, fits);
  const int taken = time == times.end() ? 0 : columns_of(*time) + kGap;
  picture.put(
      0, 0, shortened(figures.title, picture.columns() - taken, is_unicode), TextStyle::strong);
  if (time != times.end()) {
    put_right(picture, 0, *time, TextStyle::plain);
  }
}

// Draws two rows of label, bar and value. Both bars have the same ends.
void draw_progress(TextPicture& picture,
                   const DashboardFigures& figures,
                   double share,
                   bool is_unicode) {
  constexpr int kGap = 2;
  constexpr int kLeastBar = 5;
  const RunPlace& place = figures.validated ? *figures.validated : figures.place;
  const double of_epoch = static_cast<double>(place.batch) /
                          static_cast<double>(std::max<std::int64_t>(place.batch_count, 1));
  const std::string count = fmt::format(
      "{}{}/{}", figures.validated ? "validating " : "", place.batch, place.batch_count);
  const std::array<std::string, 2> labels{
      fmt::format("epoch {}/{}", figures.place.epoch, figures.epochs), "all"};
  std::array<std::string, 2> counts{figures.validated ? count : count + " batches",
                                    fmt::format("{:.1f} % of the run", 100 * share)};
  const int begin = columns_of(labels[0]) + kGap;
  if (begin + std::max(columns_of(counts[0]), columns_of(counts[1])) > picture.columns()) {
    counts = {count, fmt::format("{:.1f} %", 100 * share)};
  }
  const int width =
      picture.columns() - begin - kGap - std::max(columns_of(counts[0]), columns_of(counts[1]));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const int row = 1 + static_cast<int>(i);
    picture.put(row, 0, labels[i]);
    if (begin + columns_of(counts[i]) <= picture.columns()) {
      put_right(picture, row, counts[i], TextStyle::plain);
    }
    if (width >= kLeastBar) {
      picture.put(row,
                  begin,
                  bar_of(i == 0 ? of_epoch : share, width, is_unicode),
                  i == 0 ? TextStyle::first : TextStyle::second);
    }
  }
}

// Draws rows 0 to 3: title, progress, current figures.
int draw_head(TextPicture& picture, const DashboardFigures& figures, bool is_unicode) {
  const double share = share_of_run(figures);
  draw_title(picture, figures, share, is_unicode);
  draw_progress(picture, figures, share, is_unicode);
  std::vector<std::string> now{"loss " + number(figures.loss),
                               fmt::format("{:.0f} samples/s", figures.samples_per_s),
                               fmt::format("learning rate {:.3g}", figures.learning_rate)};
  if (figures.best_epoch) {
    now.push_back(
        fmt::format("best {} in epoch {}",
                    figures.best_text.empty() ? number(figures.best_value) : figures.best_text,
                    *figures.best_epoch));
  }
  constexpr int kGap = 3;
  constexpr int kEndless = 1 << 20;
  if (columns_of(fitting(now, kEndless, kGap)) > picture.columns()) {
    now[2] = fmt::format("rate {:.3g}", figures.learning_rate);
  }
  picture.put(3, 0, fitting(now, picture.columns(), kGap));
  return 5;
}

int draw_devices(TextPicture& picture, const DashboardFigures& figures, int row, bool is_unicode) {
  constexpr int kGap = 2;
  int begin = 0;
  for (const DashboardDevice& device : figures.devices) {
    begin = std::max(begin, columns_of(device.name) + kGap);
  }
  std::vector<std::string> texts;  // of all devices, so that their bars have the same ends
  int widest = 0;
  for (const DashboardDevice& device : figures.devices) {
    texts.push_back(device.is_lost ? "lost"
                                   : fitting({bytes_text(device.live_bytes) + " live",
                                              "peak " + bytes_text(device.peak_bytes),
                                              "of " + bytes_text(device.budget_bytes)},
                                             picture.columns() - begin,
                                             kGap));
    widest = std::max(widest, columns_of(texts.back()));
  }
  for (std::size_t i = 0; i < texts.size() && row < picture.rows() - 1; ++i, ++row) {
    const DashboardDevice& device = figures.devices[i];
    picture.put(row, 0, shortened(device.name, picture.columns(), is_unicode), TextStyle::strong);
    picture.put(row, begin, texts[i], device.is_lost ? TextStyle::warning : TextStyle::plain);
    constexpr int kLeastBar = 5;
    constexpr int kMostBar = 40;
    const int bar = begin + widest + kGap;
    const int width = std::min(picture.columns() - bar, kMostBar);
    if (width >= kLeastBar && device.budget_bytes > 0 && !device.is_lost) {
      picture.put(
          row,
          bar,
          bar_of(static_cast<double>(device.live_bytes) / static_cast<double>(device.budget_bytes),
                 width,
                 is_unicode),
          TextStyle::third);
    }
  }
  return row;
}

}  // namespace

TextPicture::TextPicture(int rows, int columns)
    : rows_(std::max(rows, 0)),
      columns_(std::max(columns, 0)),
      cells_(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_)) {}

const TextCell& TextPicture::at(int row, int column) const {
  return cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
                static_cast<std::size_t>(column)];
}

void TextPicture::put(int row, int column, std::string_view text, TextStyle style) {
  if (row < 0 || row >= rows_) {
    return;
  }
  for (std::size_t at = 0; at < text.size() && column < columns_; ++column) {
    const std::size_t size = glyph_bytes(text, at);
    const std::string_view glyph = text.substr(at, size);
    at += size;
    if (column >= 0) {
      const bool is_control = size == 1 && static_cast<unsigned char>(glyph[0]) < 0x20;
      cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
             static_cast<std::size_t>(column)] = {.glyph = is_control ? " " : std::string(glyph),
                                                  .style = style};
    }
  }
}

std::string TextPicture::line(int row) const {
  std::string text;
  for (int column = 0; column < columns_; ++column) {
    text += at(row, column).glyph;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

TextPicture draw_dashboard(const DashboardFigures& figures,
                           int rows,
                           int columns,
                           bool is_unicode) {
  TextPicture picture(rows, columns);
  const int top = draw_head(picture, figures, is_unicode);
  const auto devices = static_cast<int>(figures.devices.size());
  const int room = std::max(picture.rows() - top - 2, 0);  // without the message row
  constexpr int kLeastChart = 5;
  const int device_rows = std::min(devices, std::max(room - kLeastChart, std::min(room, 1)));
  const int chart_rows = room - device_rows - 1;
  const std::vector<Curve> metrics = metric_curves(figures);
  if (chart_rows >= kLeastChart) {
    constexpr int kLeastWidth = 44;
    const bool is_beside = !metrics.empty() && picture.columns() >= 2 * kLeastWidth;
    const bool is_below = !metrics.empty() && !is_beside && chart_rows >= 2 * kLeastChart + 1;
    const int width = is_beside ? picture.columns() / 2 - 1 : picture.columns();
    const int height = is_below ? chart_rows / 2 : chart_rows;
    draw_chart(picture,
               {.row = top, .column = 0, .rows = height, .columns = width},
               "loss",
               loss_curves(figures),
               "steps",
               is_unicode);
    if (is_beside || is_below) {
      draw_chart(picture,
                 {.row = is_below ? top + height : top,
                  .column = is_beside ? width + 2 : 0,
                  .rows = is_below ? chart_rows - height : height,
                  .columns = width},
                 "metrics",
                 metrics,
                 "epochs",
                 is_unicode);
    }
  }
  const int below = chart_rows >= kLeastChart ? top + chart_rows + 1 : top;
  draw_devices(picture, figures, below, is_unicode);
  picture.put(picture.rows() - 1,
              0,
              shortened(figures.message, picture.columns(), is_unicode),
              TextStyle::faint);
  return picture;
}

}  // namespace hearth::detail
