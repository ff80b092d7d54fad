#include "memory_labels.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "picture_text.hpp"

namespace hearth::bench {
namespace {

constexpr double kGlyphShare = 0.6;  // width of a letter, as a share of the text's size
constexpr double kNumberSize = 8;    // size of a number above the stack
constexpr double kGap = 2.5;         // around a number, in pixels
constexpr std::size_t kMostLeaders = 120;

struct Corners {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  [[nodiscard]] bool meets(const Corners& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

struct Placed {
  Corners box;
  ThinBlock::Spot spot;
};

// Places a number above the stack and above placed numbers; nullopt if that is too high.
std::optional<Corners> box_over(const ThinBlock::Spot& spot,
                                double width,
                                double top,
                                double ceiling,
                                const std::vector<Placed>& placed) {
  Corners box{.left = spot.x - width / 2,
              .top = top - kNumberSize - 2 * kGap,
              .right = spot.x + width / 2,
              .bottom = top - kGap};
  for (bool is_free = false; !is_free;) {
    is_free = true;
    for (const Placed& other : placed) {
      // A line goes down from each number. Neither may cross the other's number.
      const Corners line{.left = other.spot.x - 1,
                         .top = other.box.bottom,
                         .right = other.spot.x + 1,
                         .bottom = other.spot.y};
      if (box.meets(other.box) || box.meets(line)) {
        const double up = box.bottom - other.box.top + 0.5;
        box.top -= up;
        box.bottom -= up;
        is_free = false;
      }
    }
    if (box.top < ceiling) {
      return std::nullopt;
    }
  }
  const Corners line{.left = spot.x - 1, .top = box.bottom, .right = spot.x + 1, .bottom = spot.y};
  const bool is_crossed =
      std::ranges::any_of(placed, [&](const Placed& other) { return line.meets(other.box); });
  return is_crossed ? std::nullopt : std::optional(box);
}

}  // namespace

std::string label_in(const Box& room, const std::vector<std::string>& texts) {
  const auto length = [](const std::string& text, double size) {
    return static_cast<double>(text.size()) * size * kGlyphShare;
  };
  const auto fits = [&](const std::string& text, double size, double along, double across) {
    return across >= size + 0.5 && length(text, size) + 3 <= along;
  };
  for (const std::string& text : texts) {
    for (const double size : {kTextSize, kSmallTextSize}) {
      if (fits(text, size, room.width, room.height)) {
        return fmt::format(
            "<text class=\"in\" font-size=\"{:g}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
            size,
            room.left + std::min(4.0, (room.width - length(text, size)) / 2),
            room.top + room.height / 2 + size * 0.35,
            escaped(text));
      }
      if (&text != &texts.front() && fits(text, size, room.height, room.width)) {
        return fmt::format(
            "<text class=\"in\" font-size=\"{0:g}\" text-anchor=\"middle\" "
            "transform=\"rotate(-90 {1:.1f} {2:.1f})\" x=\"{1:.1f}\" y=\"{2:.1f}\">{3}</text>\n",
            size,
            room.left + room.width / 2 + size * 0.35,
            room.top + room.height / 2,
            escaped(text));
      }
    }
  }
  return {};
}

Leaders draw_leaders(const std::vector<ThinBlock>& blocks,
                     const std::function<double(double left, double right)>& top_in,
                     double ceiling) {
  Leaders result;
  std::vector<Placed> placed;
  for (const ThinBlock& block : blocks) {
    if (placed.size() == kMostLeaders) {
      result.left_out.push_back(block.number);
      continue;
    }
    const std::string text = fmt::format("{}", block.number);
    const double width = static_cast<double>(text.size()) * kNumberSize * kGlyphShare + 2 * kGap;
    std::optional<Placed> best;
    for (const ThinBlock::Spot& spot : block.spots) {
      const double top = top_in(spot.x - width / 2, spot.x + width / 2);
      const std::optional<Corners> box = box_over(spot, width, top, ceiling, placed);
      if (box && (!best || spot.y - box->bottom < best->spot.y - best->box.bottom)) {
        best = Placed{.box = *box, .spot = spot};
      }
    }
    if (!best) {
      result.left_out.push_back(block.number);
      continue;
    }
    placed.push_back(*best);
    result.svg += fmt::format(
        "<line class=\"lead\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/><circle "
        "class=\"lead\" cx=\"{0:.1f}\" cy=\"{2:.1f}\" r=\"1.6\"/><text class=\"out\" "
        "text-anchor=\"middle\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4}</text>\n",
        best->spot.x,
        best->box.bottom,
        best->spot.y,
        best->box.bottom - kGap + 1,
        text);
  }
  std::ranges::sort(result.left_out);
  result.left_out.erase(std::unique(result.left_out.begin(), result.left_out.end()),
                        result.left_out.end());
  return result;
}

std::string words_of_left_out(const std::vector<std::size_t>& numbers) {
  constexpr std::size_t kMostNamed = 12;
  if (numbers.empty()) {
    return {};
  }
  const auto named = static_cast<std::ptrdiff_t>(std::min(numbers.size(), kMostNamed));
  std::string text = fmt::format("too thin for a number: {}",
                                 fmt::join(numbers.begin(), numbers.begin() + named, ", "));
  return numbers.size() <= kMostNamed
             ? text
             : fmt::format("{} and {} more", text, numbers.size() - kMostNamed);
}

}  // namespace hearth::bench
