#include "memory_timeline.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include <hearth/runtime/base/chrome_trace.hpp>

#include "picture_text.hpp"

namespace hearth::bench {
namespace {

constexpr double kLeft = 76;
constexpr double kTop = 64;
constexpr double kWidth = 1060;
constexpr double kHeight = 560;
constexpr double kTableLeft = kLeft + kWidth + 28;
constexpr double kTableWidth = 400;
constexpr double kBottom = 56;
// Tensors below a share of the peak are drawn in a common band, where there are more than so many:
// each band costs a step for each event that moves it.
constexpr std::size_t kMostBands = 2000;
constexpr double kGlyphWidth = 5.7;
constexpr std::size_t kTableRows = 10;
// Dark enough for white text.
constexpr const char* kColors[] = {"#4e79a7",
                                   "#d9741a",
                                   "#4f9a3f",
                                   "#c94a4d",
                                   "#8f5f96",
                                   "#3f8f8a",
                                   "#a8841a",
                                   "#c2566b",
                                   "#84604b",
                                   "#5a6fc0",
                                   "#a04f78",
                                   "#6d7f2e"};

constexpr const char* kWeightColors[] = {"#5b6270", "#6d7688", "#4a5363"};
constexpr const char* kSmallColor = "#c3c8d1";

struct Piece {
  std::size_t begin = 0;  // events
  std::size_t end = 0;
  double low_bytes = 0;
};

/// A tensor's place in the picture: a step for each event that moved it.
struct Band {
  LiveTensor tensor;
  std::vector<Piece> pieces;
};

// What lives long is called by its name, "layers.0.weight" or "mean.layers.0.weight"; what a step
// makes by its op and the layer that it is of.
std::string name_of(const LiveTensor& tensor) {
  const TensorOrigin& origin = tensor.origin;
  if (origin.module_path.empty()) {
    return origin.op;
  }
  return tensor.is_exclusive ? origin.module_path
                             : fmt::format("{} of {}", origin.op, layer_of(origin.module_path));
}

std::string place_of(const LiveTensor& tensor) {
  const SourceLoc location = tensor.origin.location;
  if (location.line == 0) {
    return {};
  }
  const std::string_view file = location.file;
  return fmt::format("{}:{}", file.substr(file.find_last_of('/') + 1), location.line);
}

/// The trace, replayed: what lies where after each event.
class Timeline {
 public:
  Timeline(const MemoryTrace& trace, MemoryAxis axis) : trace_(trace), axis_(axis) {
    while (present_count_ < trace_.size() && trace_[present_count_].time == trace_.front().time) {
      ++present_count_;
    }
    find_peak();
    find_small();
    replay();
  }

  [[nodiscard]] std::string svg(const std::string& title) const;

 private:
  struct Live {
    std::size_t band = 0;
    std::int64_t size_bytes = 0;
  };

  void find_peak();
  /// How large a tensor has to be for a band of its own.
  void find_small();
  void replay();
  void close_bands(std::size_t event);
  [[nodiscard]] bool is_small(const LiveTensor& tensor) const {
    return tensor.size_bytes < least_bytes_;
  }
  /// The same for the same op on the same shapes.
  [[nodiscard]] const char* color_of(const LiveTensor& tensor) const {
    if (tensor.is_exclusive) {
      return kWeightColors[std::hash<std::string>()(tensor.origin.module_path) %
                           std::size(kWeightColors)];
    }
    const auto known = colors_.find(tensor.origin.op + tensor.origin.type);
    return known == colors_.end() ? kSmallColor : kColors[known->second % std::size(kColors)];
  }
  /// What was there at the beginning takes no room.
  [[nodiscard]] double x(std::size_t event) const {
    const double share = axis_ == MemoryAxis::time ? time_of(event) / std::max(last(), 1e-9)
                                                   : shown_events(event) / std::max(last(), 1.0);
    return kLeft + kWidth * std::clamp(share, 0.0, 1.0);
  }
  [[nodiscard]] double shown_events(std::size_t event) const {
    return static_cast<double>(event - std::min(event, present_count_));
  }
  /// Milliseconds from the beginning.
  [[nodiscard]] double time_of(std::size_t event) const {
    if (trace_.empty()) {
      return 0;
    }
    const detail::TimePoint time = trace_[std::min(event, trace_.size() - 1)].time;
    return std::chrono::duration<double, std::milli>(time - trace_.front().time).count();
  }
  /// The end of the axis.
  [[nodiscard]] double last() const {
    return axis_ == MemoryAxis::time ? time_of(trace_.size()) : shown_events(trace_.size());
  }
  [[nodiscard]] double y(double bytes) const {
    return kTop + kHeight * (1 - bytes / (1.06 * static_cast<double>(peak_bytes_)));
  }
  [[nodiscard]] std::string polygon(const std::vector<Piece>& pieces,
                                    const std::vector<double>& heights,
                                    std::string_view color,
                                    const std::string& hover) const;
  [[nodiscard]] std::string band(const Band& band) const;
  [[nodiscard]] std::string base_band() const;
  [[nodiscard]] std::string axes() const;
  [[nodiscard]] std::string table() const;

  const MemoryTrace& trace_;
  const MemoryAxis axis_;
  std::int64_t least_bytes_ = 0;
  std::size_t present_count_ = 0;
  std::map<std::string, std::size_t> colors_;
  std::int64_t peak_bytes_ = 1;
  std::size_t peak_event_ = 0;
  std::vector<LiveTensor> at_peak_;
  std::vector<Band> bands_;
  std::vector<std::uint64_t> order_;  // live blocks with bands, from the lowest up
  std::map<std::uint64_t, Live> live_;
  std::vector<double> base_bytes_;  // small ones, after each event
};

void Timeline::find_peak() {
  std::map<std::uint64_t, LiveTensor> live;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < trace_.size(); ++i) {
    const MemoryEvent& event = trace_[i];
    if (event.what == MemoryEvent::What::freed) {
      bytes -= event.tensor.size_bytes;
      live.erase(event.block);
      continue;
    }
    bytes += event.what == MemoryEvent::What::made ? event.tensor.size_bytes : 0;
    live.insert_or_assign(event.block, event.tensor);
    if (bytes > peak_bytes_) {
      peak_bytes_ = bytes;
      peak_event_ = i;
    }
  }
  live.clear();
  for (std::size_t i = 0; i < trace_.size() && i <= peak_event_; ++i) {
    if (trace_[i].what == MemoryEvent::What::freed) {
      live.erase(trace_[i].block);
    } else {
      live.insert_or_assign(trace_[i].block, trace_[i].tensor);
    }
  }
  for (const auto& [block, tensor] : live) {
    at_peak_.push_back(tensor);
  }
  std::ranges::stable_sort(at_peak_, std::ranges::greater(), &LiveTensor::size_bytes);
}

void Timeline::find_small() {
  std::vector<std::int64_t> sizes;
  for (const MemoryEvent& event : trace_) {
    if (event.what != MemoryEvent::What::freed) {
      sizes.push_back(event.tensor.size_bytes);
    }
  }
  if (sizes.size() > kMostBands) {
    std::ranges::nth_element(
        sizes, sizes.begin() + static_cast<std::ptrdiff_t>(kMostBands), std::ranges::greater());
    least_bytes_ = sizes[kMostBands] + 1;
  }
}

void Timeline::close_bands(std::size_t event) {
  for (const std::uint64_t block : order_) {
    bands_[live_.at(block).band].pieces.back().end = event;
  }
}

// Small ones are the floor; on it stand weights and optimizer state, and on those the other tensors
// in the order in which they were made; they come down when one below them goes.
void Timeline::replay() {
  double base = 0;
  for (std::size_t i = 0; i < trace_.size(); ++i) {
    const MemoryEvent& event = trace_[i];
    const auto bytes = static_cast<double>(event.tensor.size_bytes);
    const bool in_base = is_small(event.tensor);
    close_bands(i);
    if (event.what != MemoryEvent::What::replaced && in_base) {
      base += event.what == MemoryEvent::What::made ? bytes : -bytes;
    }
    if (!in_base && event.what == MemoryEvent::What::freed) {
      std::erase(order_, event.block);
      live_.erase(event.block);
    } else if (!in_base) {
      if (event.what == MemoryEvent::What::made) {
        const auto place =
            event.tensor.is_exclusive
                ? std::ranges::find_if(order_,
                                       [&](std::uint64_t block) {
                                         return !bands_[live_.at(block).band].tensor.is_exclusive;
                                       })
                : order_.end();
        order_.insert(place, event.block);
      }
      live_[event.block] = {.band = bands_.size(), .size_bytes = event.tensor.size_bytes};
      bands_.push_back({.tensor = event.tensor, .pieces = {}});
      colors_.try_emplace(event.tensor.origin.op + event.tensor.origin.type, colors_.size());
    }
    base_bytes_.push_back(base);
    double low = base;
    for (const std::uint64_t block : order_) {
      const Live& live = live_.at(block);
      std::vector<Piece>& pieces = bands_[live.band].pieces;
      if (pieces.empty() || pieces.back().low_bytes != low) {
        pieces.push_back({.begin = i, .end = i, .low_bytes = low});
      }
      low += static_cast<double>(live.size_bytes);
    }
  }
  close_bands(trace_.size());
}

std::string Timeline::polygon(const std::vector<Piece>& pieces,
                              const std::vector<double>& heights,
                              std::string_view color,
                              const std::string& hover) const {
  std::string points;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const double top = y(pieces[i].low_bytes + heights[i]);
    points +=
        fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", x(pieces[i].begin), top, x(pieces[i].end), top);
  }
  for (std::size_t i = pieces.size(); i-- > 0;) {
    const double bottom = y(pieces[i].low_bytes);
    points += fmt::format(
        "{:.1f},{:.1f} {:.1f},{:.1f} ", x(pieces[i].end), bottom, x(pieces[i].begin), bottom);
  }
  return fmt::format(
      "<polygon points=\"{}\" fill=\"{}\"><title>{}</title></polygon>\n", points, color, hover);
}

std::string Timeline::band(const Band& band) const {
  const auto bytes = static_cast<double>(band.tensor.size_bytes);
  std::string text =
      polygon(band.pieces,
              std::vector<double>(band.pieces.size(), bytes),
              color_of(band.tensor),
              escaped(fmt::format("{}, {}", readable(bytes), band.tensor.origin.to_string())));
  const auto widest = std::ranges::max_element(
      band.pieces, {}, [](const Piece& piece) { return piece.end - piece.begin; });
  const double room = x(widest->end) - x(widest->begin) - 8;
  const double tall = y(widest->low_bytes) - y(widest->low_bytes + bytes);
  std::string label =
      fmt::format("{} {} {}", name_of(band.tensor), band.tensor.origin.type, readable(bytes));
  if (static_cast<double>(label.size()) * kGlyphWidth > room) {
    label = name_of(band.tensor);
  }
  if (tall >= 11 && static_cast<double>(label.size()) * kGlyphWidth <= room) {
    text += fmt::format("<text class=\"in\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                        x(widest->begin) + 4,
                        y(widest->low_bytes + bytes / 2) + 3.5,
                        escaped(label));
  }
  return text;
}

std::string Timeline::base_band() const {
  if (least_bytes_ == 0) {
    return {};
  }
  std::vector<Piece> small;
  std::vector<double> heights;
  for (std::size_t i = 0; i < base_bytes_.size(); ++i) {
    if (heights.empty() || heights.back() != base_bytes_[i]) {
      small.push_back({.begin = i, .end = i + 1, .low_bytes = 0});
      heights.push_back(base_bytes_[i]);
    }
    small.back().end = i + 1;
  }
  return polygon(small,
                 heights,
                 kSmallColor,
                 fmt::format("tensors below {}, too many to be drawn alone",
                             readable(static_cast<double>(least_bytes_))));
}

std::string Timeline::axes() const {
  std::string text;
  double step = 1024;
  while (static_cast<double>(peak_bytes_) / step > 6) {
    step *= 2;
  }
  for (double bytes = 0; bytes <= 1.06 * static_cast<double>(peak_bytes_); bytes += step) {
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n"
        "<text class=\"axis\" text-anchor=\"end\" x=\"{3:.1f}\" y=\"{4:.1f}\">{5}</text>\n",
        kLeft,
        kLeft + kWidth,
        y(bytes),
        kLeft - 8,
        y(bytes) + 4,
        bytes >= 1 << 20 ? fmt::format("{:g} MiB", bytes / (1 << 20))
                         : fmt::format("{:g} KiB", bytes / (1 << 10)));
  }
  constexpr int kTicks = 8;
  for (const double tick : round_numbers(last(), kTicks)) {
    const double at = kLeft + kWidth * tick / std::max(last(), 1e-9);
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n"
        "<text class=\"axis\" text-anchor=\"middle\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4:g}</text>\n",
        at,
        kTop,
        kTop + kHeight + 4,
        kTop + kHeight + 18,
        tick);
  }
  text += fmt::format(
      "<text class=\"axis\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
      kLeft + kWidth / 2,
      kTop + kHeight + 38,
      axis_ == MemoryAxis::time
          ? std::string("milliseconds")
          : fmt::format("allocations and releases, in {:.2f} ms", time_of(trace_.size())));
  return text;
}

std::string Timeline::table() const {
  std::string text = fmt::format(
      "<text class=\"head\" x=\"{0:.1f}\" y=\"{1:.1f}\">At the peak, the largest of {2}</text>\n",
      kTableLeft,
      kTop + 12,
      at_peak_.size());
  double row = kTop + 36;
  for (std::size_t i = 0; i < std::min(kTableRows, at_peak_.size()); ++i, row += 46) {
    const LiveTensor& tensor = at_peak_[i];
    text += fmt::format(
        "<rect x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{2}\"/>\n"
        "<text class=\"row\" x=\"{3:.1f}\" y=\"{4:.1f}\"><tspan font-weight=\"600\">{5}</tspan> "
        "{6}</text>\n"
        "<text class=\"axis\" x=\"{3:.1f}\" y=\"{7:.1f}\">{8}  {9}</text>\n",
        kTableLeft,
        row,
        color_of(tensor),
        kTableLeft + 20,
        row + 10.5,
        readable(static_cast<double>(tensor.size_bytes)),
        escaped(name_of(tensor)),
        row + 26,
        escaped(tensor.origin.type),
        escaped(place_of(tensor)));
  }
  return text;
}

std::string Timeline::svg(const std::string& title) const {
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\">\n"
      "<style>.title{{font-size:18px;font-weight:600;fill:#1f2430}}"
      ".head{{font-size:14px;font-weight:600;fill:#1f2430}}.row{{font-size:12.5px;fill:#1f2430}}"
      ".axis{{font-size:11px;fill:#5b6270}}.in{{font-size:10.5px;fill:#fff}}"
      ".grid{{stroke:#e3e6eb;stroke-width:1}}polygon{{stroke:#fff;stroke-width:0.6}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text class=\"title\" x=\"{2:.0f}\" y=\"34\">{3}</text>\n",
      kTableLeft + kTableWidth,
      kTop + kHeight + kBottom,
      kLeft,
      escaped(title));
  text += axes();
  text += base_band();
  for (const Band& each : bands_) {
    if (!each.pieces.empty()) {
      text += band(each);
    }
  }
  const double peak = y(static_cast<double>(peak_bytes_));
  text += fmt::format(
      "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"#c0392b\" "
      "stroke-dasharray=\"5 4\"/>\n<text class=\"axis\" style=\"fill:#c0392b\" text-anchor=\"end\" "
      "x=\"{2:.1f}\" y=\"{3:.1f}\">peak {4}</text>\n",
      kLeft,
      peak,
      kLeft + kWidth,
      peak - 5,
      readable(static_cast<double>(peak_bytes_)));
  text += fmt::format(
      "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#c0392b\" "
      "stroke-dasharray=\"5 4\"/>\n",
      (x(peak_event_) + x(peak_event_ + 1)) / 2,
      peak,
      kTop + kHeight);
  return text + table() + "</svg>\n";
}

}  // namespace

std::string draw_memory_timeline(const MemoryTrace& trace,
                                 const std::string& title,
                                 MemoryAxis axis) {
  return Timeline(trace, axis).svg(title);
}

std::vector<double> round_numbers(double last, int count) {
  std::vector<double> numbers{0};
  if (!(last > 0) || count < 1) {
    return numbers;
  }
  const double rough = last / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double share = rough / power;
  const double step = power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
  for (int i = 1; i * step <= last * (1 + 1e-9); ++i) {
    numbers.push_back(i * step);
  }
  return numbers;
}

}  // namespace hearth::bench
