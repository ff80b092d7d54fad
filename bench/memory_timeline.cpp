#include "memory_timeline.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "memory_blocks.hpp"
#include "memory_labels.hpp"
#include "memory_legend.hpp"
#include "picture_text.hpp"

namespace hearth::bench {
namespace {

constexpr double kLeft = 76;
constexpr double kTop = 64;
constexpr double kLeastWidth = 1060;
constexpr double kMostWidth = 2200;
constexpr double kEventWidth = 9;
constexpr double kLeastHeight = 560;
constexpr double kMostHeight = 1400;
constexpr double kBandHeight = 8;
constexpr double kTableWidth = 400;
constexpr double kBottom = 56;
// Beyond this number of tensors, those below a share of the peak are drawn in a common band. Each
// band costs a step for each event that moves it.
constexpr std::size_t kMostBands = 2000;
constexpr double kMoved = 1.5;  // pixels: a label may move this far
constexpr double kThin = 3;     // pixels: below it a border would hide the band

struct Piece {
  std::size_t begin = 0;  // events
  std::size_t end = 0;
  double low_bytes = 0;
};

/// A tensor's place in the picture: a step for each event that moved it.
struct Band {
  LiveTensor tensor;
  std::size_t group = 0;
  std::vector<Piece> pieces;
};

/// Replays the trace: the place of each tensor after each event.
class Timeline {
 public:
  Timeline(const MemoryTrace& trace, MemoryAxis axis)
      : trace_(trace), axis_(axis), blocks_(blocks_of(trace)) {
    while (present_count_ < trace_.size() && trace_[present_count_].time == trace_.front().time) {
      ++present_count_;
    }
    find_peak();
    find_small();
    replay();
    width_ = std::clamp(kEventWidth * shown_events(trace_.size()), kLeastWidth, kMostWidth);
    height_ =
        std::clamp(kBandHeight * static_cast<double>(at_peak_.size()), kLeastHeight, kMostHeight);
  }

  [[nodiscard]] std::string svg(const std::string& title) const;

 private:
  struct Live {
    std::size_t band = 0;
    std::int64_t size_bytes = 0;
  };

  void find_peak();
  /// Sets the smallest size of a tensor with a band of its own.
  void find_small();
  void replay();
  void close_bands(std::size_t event);
  [[nodiscard]] bool is_small(const LiveTensor& tensor) const {
    return tensor.size_bytes < least_bytes_;
  }
  [[nodiscard]] BlockKind kind_of(const Band& band) const {
    return blocks_.groups[band.group].kind;
  }
  /// Position of a new block: long-lived tensors by kind, then the others in order of creation.
  [[nodiscard]] std::vector<std::uint64_t>::iterator place_of_new(BlockKind kind);
  /// Tensors that existed at the beginning take no width.
  [[nodiscard]] double x(std::size_t event) const {
    const double share = axis_ == MemoryAxis::time ? time_of(event) / std::max(last(), 1e-9)
                                                   : shown_events(event) / std::max(last(), 1.0);
    return kLeft + width_ * std::clamp(share, 0.0, 1.0);
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
  /// End of the axis.
  [[nodiscard]] double last() const {
    return axis_ == MemoryAxis::time ? time_of(trace_.size()) : shown_events(trace_.size());
  }
  [[nodiscard]] double y(double bytes) const {
    return kTop + height_ * (1 - bytes / (1.06 * static_cast<double>(peak_bytes_)));
  }
  /// Height in pixels.
  [[nodiscard]] double tall(double bytes) const { return y(0) - y(bytes); }
  [[nodiscard]] std::string polygon(const std::vector<Piece>& pieces,
                                    const std::vector<double>& heights,
                                    std::string_view color,
                                    const std::string& hover) const;
  [[nodiscard]] std::string band(const Band& band) const;
  /// The widest part of a band that does not move.
  [[nodiscard]] Box room_in(const Band& band) const;
  /// Label of a band, as far as it fits: full text, name or number; horizontal or upright.
  [[nodiscard]] std::string label(const Band& band) const;
  /// Labels for long-lived kinds whose bands are too thin for labels: one for each kind, which is
  /// then in `labelled`.
  [[nodiscard]] std::string kind_labels(std::set<BlockKind>& labelled) const;
  /// Numbers for the bands without one, and a line that lists those that did not fit.
  [[nodiscard]] std::string leaders(const std::vector<const Band*>& thin,
                                    const std::set<std::size_t>& labelled) const;
  [[nodiscard]] std::string labels() const;
  [[nodiscard]] std::string base_band() const;
  [[nodiscard]] std::string axes() const;
  /// The position on the axis where each group's first tensor is made.
  [[nodiscard]] std::vector<std::string> beginnings() const;
  [[nodiscard]] std::string peak_lines() const;
  [[nodiscard]] std::string table() const;

  const MemoryTrace& trace_;
  const MemoryAxis axis_;
  std::int64_t least_bytes_ = 0;
  std::size_t present_count_ = 0;
  std::int64_t peak_bytes_ = 1;
  std::size_t peak_event_ = 0;
  std::vector<std::size_t> at_peak_;  // groups, the largest first
  MemoryBlocks blocks_;
  BytesByKind kinds_ = {};
  double width_ = kLeastWidth;
  double height_ = kLeastHeight;
  std::vector<Band> bands_;
  std::vector<std::uint64_t> order_;  // live blocks with bands, from the lowest up
  std::map<std::uint64_t, Live> live_;
  std::vector<double> base_bytes_;  // small tensors, after each event
  std::vector<double> tops_;        // of the stack, after each event
};

void Timeline::find_peak() {
  const auto apply = [&](std::size_t i, std::map<std::uint64_t, std::size_t>& groups) {
    const MemoryEvent& event = trace_[i];
    if (event.what == MemoryEvent::What::freed) {
      groups.erase(event.block);
    } else {
      groups.insert_or_assign(event.block, blocks_.by_event[i]);
    }
  };
  std::map<std::uint64_t, std::size_t> live;
  std::array<std::int64_t, kBlockKinds> by_kind = {};
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < trace_.size(); ++i) {
    const auto count = [&](std::int64_t sign) {
      const auto found = live.find(trace_[i].block);
      if (found != live.end()) {
        const BlockGroup& group = blocks_.groups[found->second];
        by_kind[static_cast<std::size_t>(group.kind)] += sign * group.tensor.size_bytes;
        bytes += sign * group.tensor.size_bytes;
      }
    };
    count(-1);
    apply(i, live);
    count(1);
    for (std::size_t kind = 0; kind < by_kind.size(); ++kind) {
      kinds_[kind].most = std::max(kinds_[kind].most, by_kind[kind]);
    }
    if (bytes > peak_bytes_) {
      peak_bytes_ = bytes;
      peak_event_ = i;
      for (std::size_t kind = 0; kind < by_kind.size(); ++kind) {
        kinds_[kind].at_peak = by_kind[kind];
      }
    }
  }
  live.clear();
  for (std::size_t i = 0; i < trace_.size() && i <= peak_event_; ++i) {
    apply(i, live);
  }
  for (const auto& [block, group] : live) {
    at_peak_.push_back(group);
  }
  std::ranges::sort(at_peak_);
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

std::vector<std::uint64_t>::iterator Timeline::place_of_new(BlockKind kind) {
  return lives_long(kind)
             ? std::ranges::find_if(order_,
                                    [&](std::uint64_t block) {
                                      return kind_of(bands_[live_.at(block).band]) > kind;
                                    })
             : order_.end();
}

void Timeline::close_bands(std::size_t event) {
  for (const std::uint64_t block : order_) {
    bands_[live_.at(block).band].pieces.back().end = event;
  }
}

// Small tensors are the floor. Weights and optimizer state lie on it, and then the other tensors in
// order of creation. They move down when one below them is released.
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
        order_.insert(place_of_new(blocks_.groups[blocks_.by_event[i]].kind), event.block);
      }
      live_[event.block] = {.band = bands_.size(), .size_bytes = event.tensor.size_bytes};
      bands_.push_back({.tensor = event.tensor, .group = blocks_.by_event[i], .pieces = {}});
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
    tops_.push_back(low);
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
  const double thinnest = heights.empty() ? 0 : tall(std::ranges::min(heights));
  return fmt::format("<polygon points=\"{}\" fill=\"{}\"{}><title>{}</title></polygon>\n",
                     points,
                     color,
                     thinnest < kThin ? " stroke=\"none\"" : "",
                     hover);
}

std::string Timeline::band(const Band& band) const {
  const auto bytes = static_cast<double>(band.tensor.size_bytes);
  return polygon(band.pieces,
                 std::vector<double>(band.pieces.size(), bytes),
                 color_of(kind_of(band), band.group),
                 escaped(fmt::format("{}: {} {}, {}",
                                     band.group + 1,
                                     name_of(kind_of(band)),
                                     readable(bytes),
                                     band.tensor.origin.to_string())));
}

Box Timeline::room_in(const Band& band) const {
  const double height = tall(static_cast<double>(band.tensor.size_bytes));
  Box best;
  for (std::size_t i = 0; i < band.pieces.size(); ++i) {
    double top = y(band.pieces[i].low_bytes) - height;
    double bottom = top + height;
    for (std::size_t end = i; end < band.pieces.size(); ++end) {
      const double low = y(band.pieces[end].low_bytes);
      top = std::max(top, low - height);
      bottom = std::min(bottom, low);
      if (bottom - top < height - kMoved) {
        break;
      }
      const double left = x(band.pieces[i].begin);
      if (const double width = x(band.pieces[end].end) - left; width > best.width) {
        best = {.left = left, .top = top, .width = width, .height = bottom - top};
      }
    }
  }
  return best;
}

std::string Timeline::label(const Band& band) const {
  const Box room = room_in(band);
  const std::string name = fmt::format("{} {}", band.group + 1, name_of(band.tensor));
  const std::vector<std::string> texts{
      fmt::format("{} {} {}",
                  name,
                  band.tensor.origin.type,
                  readable(static_cast<double>(band.tensor.size_bytes))),
      name,
      fmt::format("{}", band.group + 1)};
  return label_in(room, texts);
}

std::string Timeline::kind_labels(std::set<BlockKind>& labelled) const {
  struct Span {
    double low = 1e300;
    double high = 0;
    std::size_t count = 0;
    double tallest = 0;
  };
  std::map<BlockKind, Span> spans;
  for (const Band& band : bands_) {
    const auto piece = std::ranges::find_if(band.pieces, [&](const Piece& each) {
      return each.begin <= peak_event_ && peak_event_ < each.end;
    });
    if (lives_long(kind_of(band)) && piece != band.pieces.end()) {
      const auto bytes = static_cast<double>(band.tensor.size_bytes);
      Span& span = spans[kind_of(band)];
      span.low = std::min(span.low, piece->low_bytes);
      span.high = std::max(span.high, piece->low_bytes + bytes);
      span.tallest = std::max(span.tallest, tall(bytes));
      span.count += 1;
    }
  }
  std::string text;
  for (const auto& [kind, span] : spans) {
    const double room = tall(span.high - span.low);
    if (span.tallest < kSmallTextSize + 0.5 && room >= kSmallTextSize + 0.5) {
      labelled.insert(kind);
      text += fmt::format(
          "<text class=\"in\" font-size=\"{:g}\" x=\"{:.1f}\" y=\"{:.1f}\">{}: {}, "
          "{}</text>\n",
          room >= kTextSize ? kTextSize : kSmallTextSize,
          kLeft + 4,
          y((span.low + span.high) / 2) + 3,
          name_of(kind),
          span.count,
          readable(span.high - span.low));
    }
  }
  return text;
}

std::string Timeline::leaders(const std::vector<const Band*>& thin,
                              const std::set<std::size_t>& labelled) const {
  constexpr std::size_t kSpots = 12;  // in a piece, at most
  std::vector<ThinBlock> blocks;
  for (const Band* band : thin) {
    ThinBlock block{.number = band->group + 1, .spots = {}};
    const double half = tall(static_cast<double>(band->tensor.size_bytes)) / 2;
    for (const Piece& piece : band->pieces) {
      const double left = x(piece.begin);
      const double width = x(piece.end) - left;
      const std::size_t spots = std::clamp<std::size_t>(piece.end - piece.begin, 1, kSpots);
      for (std::size_t i = 0; i < spots && width > 0; ++i) {
        const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(spots);
        block.spots.push_back({.x = left + width * share, .y = y(piece.low_bytes) - half});
      }
    }
    blocks.push_back(std::move(block));
  }
  // Bands without any number come first.
  std::stable_partition(blocks.begin(), blocks.end(), [&](const ThinBlock& block) {
    return !labelled.contains(block.number - 1);
  });
  const auto top_in = [this](double left, double right) {
    double highest = y(0);
    const auto place = [this](const auto& top) {
      return static_cast<std::size_t>(&top - tops_.data());
    };
    auto top = std::partition_point(
        tops_.begin(), tops_.end(), [&](const auto& each) { return x(place(each) + 1) <= left; });
    for (; top != tops_.end() && x(place(*top)) < right; ++top) {
      highest = std::min(highest, y(*top));
    }
    return highest;
  };
  constexpr double kCeiling = 44;  // the title is above
  Leaders drawn = draw_leaders(blocks, top_in, kCeiling);
  std::erase_if(drawn.left_out, [&](std::size_t number) { return labelled.contains(number - 1); });
  return drawn.svg + fmt::format("<text class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                                 kLeft,
                                 kTop + height_ + 38,
                                 words_of_left_out(drawn.left_out));
}

std::string Timeline::labels() const {
  std::set<BlockKind> kinds;
  std::string text = kind_labels(kinds);
  std::set<std::size_t> labelled;  // groups
  std::vector<const Band*> without;
  for (const Band& each : bands_) {
    const std::string inside = each.pieces.empty() ? std::string() : label(each);
    text += inside;
    if (!inside.empty()) {
      labelled.insert(each.group);
    } else if (!each.pieces.empty() && !kinds.contains(kind_of(each))) {
      without.push_back(&each);
    }
  }
  std::ranges::stable_sort(without, {}, &Band::group);
  // One number is enough for a group that can hardly be seen.
  std::vector<const Band*> thin;
  std::set<std::size_t> known = labelled;
  for (const Band* const each : without) {
    const bool is_new = known.insert(each->group).second;
    if (is_new || tall(static_cast<double>(each->tensor.size_bytes)) >= kThin) {
      thin.push_back(each);
    }
  }
  return text + leaders(thin, labelled);
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
  double step = 1;
  while (static_cast<double>(peak_bytes_) / step > 6) {
    step *= 2;
  }
  for (double bytes = 0; bytes <= 1.06 * static_cast<double>(peak_bytes_); bytes += step) {
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n"
        "<text class=\"axis\" text-anchor=\"end\" x=\"{3:.1f}\" y=\"{4:.1f}\">{5}</text>\n",
        kLeft,
        kLeft + width_,
        y(bytes),
        kLeft - 8,
        y(bytes) + 4,
        bytes >= 1 << 20  ? fmt::format("{:g} MiB", bytes / (1 << 20))
        : step >= 1 << 10 ? fmt::format("{:g} KiB", bytes / (1 << 10))
                          : fmt::format("{:g} B", bytes));
  }
  constexpr int kTicks = 8;
  for (const double tick : round_numbers(last(), kTicks)) {
    const double at = kLeft + width_ * tick / std::max(last(), 1e-9);
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n"
        "<text class=\"axis\" text-anchor=\"middle\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4:g}</text>\n",
        at,
        kTop,
        kTop + height_ + 4,
        kTop + height_ + 18,
        tick);
  }
  text += fmt::format(
      "<text class=\"axis\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
      kLeft + width_ / 2,
      kTop + height_ + 38,
      axis_ == MemoryAxis::time
          ? std::string("milliseconds")
          : fmt::format("allocations and releases, in {:.2f} ms", time_of(trace_.size())));
  return text;
}

std::string Timeline::table() const {
  const double left = kLeft + width_ + 28;
  const double kinds = kTop + 12;
  const double largest = end_of_kinds(blocks_, kinds) + 34;
  std::vector<std::size_t> groups = at_peak_;
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  const double room = kTop + height_ - largest - 30;
  return draw_kinds(blocks_, kinds_, left, kinds) +
         draw_largest(
             blocks_, groups, static_cast<std::size_t>(std::max(room, 0.0) / 34), left, largest);
}

std::vector<std::string> Timeline::beginnings() const {
  std::vector<std::string> all;
  for (const BlockGroup& group : blocks_.groups) {
    const std::size_t event = group.first_event;
    all.push_back(event < present_count_        ? "start"
                  : axis_ == MemoryAxis::events ? fmt::format("{}", event - present_count_)
                                                : fmt::format("{:.2f} ms", time_of(event)));
  }
  return all;
}

std::string Timeline::peak_lines() const {
  const double peak = y(static_cast<double>(peak_bytes_));
  return fmt::format(
      "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"#c0392b\" "
      "stroke-dasharray=\"5 4\"/>\n<text class=\"axis\" style=\"fill:#c0392b\" text-anchor=\"end\" "
      "x=\"{2:.1f}\" y=\"{3:.1f}\">peak {4}</text>\n"
      "<line x1=\"{5:.1f}\" y1=\"{1:.1f}\" x2=\"{5:.1f}\" y2=\"{6:.1f}\" stroke=\"#c0392b\" "
      "stroke-dasharray=\"5 4\"/>\n",
      kLeft,
      peak,
      kLeft + width_,
      peak - 5,
      readable(static_cast<double>(peak_bytes_)),
      (x(peak_event_) + x(peak_event_ + 1)) / 2,
      kTop + height_);
}

std::string Timeline::svg(const std::string& title) const {
  const double width = kLeft + width_ + 28 + kTableWidth;
  const double list_top = kTop + height_ + kBottom + 12;
  const double list_width = width - kLeft;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\">\n"
      "<style>.title{{font-size:18px;font-weight:600;fill:#1f2430}}"
      ".head{{font-size:14px;font-weight:600;fill:#1f2430}}.row{{font-size:12.5px;fill:#1f2430}}"
      ".list{{font-size:10px;fill:#1f2430}}"
      ".axis{{font-size:11px;fill:#5b6270}}.in{{fill:#fff;pointer-events:none}}"
      ".out{{font-size:8px;fill:#1f2430}}.lead{{stroke:#1f2430;stroke-opacity:0.6;stroke-width:0.6;"
      "fill:#fff}}"
      ".grid{{stroke:#e3e6eb;stroke-width:1}}polygon{{stroke-width:0.6}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text class=\"title\" x=\"{2:.0f}\" y=\"34\">{3}</text>\n",
      width,
      list_top + height_of_list(blocks_, list_width),
      kLeft,
      escaped(title));
  text += axes() + "<g stroke=\"#fff\">\n" + base_band();
  for (const Band& each : bands_) {
    text += each.pieces.empty() ? "" : band(each);
  }
  text += "</g>\n" + peak_lines();
  return text + labels() + table() + draw_list(blocks_, beginnings(), kLeft, list_top, list_width) +
         "</svg>\n";
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
