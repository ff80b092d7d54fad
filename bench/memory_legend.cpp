#include "memory_legend.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "picture_text.hpp"

namespace hearth::bench {
namespace {

constexpr double kKindRow = 20;
constexpr double kLargestRow = 34;
constexpr double kListRow = 15;
constexpr double kListColumn = 385;
constexpr double kListHead = 26;
constexpr std::size_t kListLetters = 62;

std::vector<BlockKind> kinds_of(const MemoryBlocks& blocks) {
  std::vector<BlockKind> kinds;
  for (int kind = 0; kind < kBlockKinds; ++kind) {
    const auto wanted = static_cast<BlockKind>(kind);
    if (std::ranges::any_of(blocks.groups,
                            [&](const BlockGroup& group) { return group.kind == wanted; })) {
      kinds.push_back(wanted);
    }
  }
  return kinds;
}

std::size_t columns_in(double width) noexcept {
  return std::max<std::size_t>(1, static_cast<std::size_t>(width / kListColumn));
}

std::size_t rows_in(const MemoryBlocks& blocks, double width) noexcept {
  const std::size_t columns = columns_in(width);
  return (blocks.groups.size() + columns - 1) / columns;
}

}  // namespace

std::string_view color_of(BlockKind kind, std::size_t group) noexcept {
  constexpr std::string_view kColors[kBlockKinds][2] = {{"#39465a", "#4d5c73"},
                                                        {"#17766f", "#258d85"},
                                                        {"#6e6214", "#857722"},
                                                        {"#74452a", "#8c5a3c"},
                                                        {"#357f32", "#479543"},
                                                        {"#2a5f9e", "#3d78bb"},
                                                        {"#b94d14", "#cf6526"},
                                                        {"#83478f", "#9a5fa7"}};
  return kColors[static_cast<std::size_t>(kind)][group % 2];
}

std::string swatch(double x, double y, std::string_view color) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{}\"/>\n",
      x,
      y - 9,
      color);
}

std::string cut_to(const std::string& text, std::size_t letters) {
  return text.size() <= letters
             ? text
             : text.substr(0, letters - std::min<std::size_t>(letters, 2)) + "..";
}

std::string draw_kinds(const MemoryBlocks& blocks, const BytesByKind& bytes, double x, double y) {
  const auto bytes_of = [&](BlockKind kind) { return bytes[static_cast<std::size_t>(kind)]; };
  std::vector<BlockKind> kinds = kinds_of(blocks);
  std::ranges::stable_sort(
      kinds, std::ranges::greater(), [&](BlockKind kind) { return bytes_of(kind).at_peak; });
  std::string text = fmt::format(
      "<text class=\"head\" x=\"{0:.1f}\" y=\"{1:.1f}\">Kinds</text>\n"
      "<text class=\"axis\" text-anchor=\"end\" x=\"{2:.1f}\" y=\"{1:.1f}\">at the peak</text>\n"
      "<text class=\"axis\" text-anchor=\"end\" x=\"{3:.1f}\" y=\"{1:.1f}\">most</text>\n",
      x,
      y,
      x + 260,
      x + 350);
  for (const BlockKind kind : kinds) {
    y += kKindRow;
    text +=
        swatch(x, y, color_of(kind, 0)) +
        fmt::format(
            "<text class=\"row\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 18, y, name_of(kind));
    for (const auto& [right, size] :
         {std::pair(x + 260, bytes_of(kind).at_peak), std::pair(x + 350, bytes_of(kind).most)}) {
      text += fmt::format(
          "<text class=\"row\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
          right,
          y,
          readable(static_cast<double>(size)));
    }
  }
  return text + fmt::format(
                    "<text class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\">Activations outlive {} "
                    "events; temporaries do not.</text>\n",
                    x,
                    y + kKindRow,
                    kSoon);
}

double end_of_kinds(const MemoryBlocks& blocks, double y) {
  return y + kKindRow * static_cast<double>(kinds_of(blocks).size() + 1);
}

std::string draw_largest(const MemoryBlocks& blocks,
                         const std::vector<std::size_t>& groups_at_peak,
                         std::size_t most_rows,
                         double x,
                         double y) {
  std::string text = fmt::format(
      "<text class=\"head\" x=\"{:.1f}\" y=\"{:.1f}\">At the peak, the largest of {}</text>\n",
      x,
      y,
      groups_at_peak.size());
  for (std::size_t i = 0; i < std::min(most_rows, groups_at_peak.size()); ++i) {
    const BlockGroup& group = blocks.groups[groups_at_peak[i]];
    y += i == 0 ? 22 : kLargestRow;
    text += swatch(x, y, color_of(group.kind, groups_at_peak[i])) +
            fmt::format(
                "<text class=\"row\" x=\"{0:.1f}\" y=\"{1:.1f}\"><tspan "
                "font-weight=\"600\">{2}</tspan> {3}  {4}</text>\n"
                "<text class=\"axis\" x=\"{0:.1f}\" y=\"{5:.1f}\">{6}  {7}</text>\n",
                x + 18,
                y,
                groups_at_peak[i] + 1,
                readable(static_cast<double>(group.tensor.size_bytes)),
                escaped(cut_to(name_of(group.tensor), 40)),
                y + 14,
                escaped(group.tensor.origin.type),
                escaped(place_of(group.tensor)));
  }
  return text;
}

std::string draw_list(const MemoryBlocks& blocks,
                      const std::vector<std::string>& beginnings,
                      double x,
                      double y,
                      double width) {
  std::string text = fmt::format(
      "<text class=\"head\" x=\"{:.1f}\" y=\"{:.1f}\">All blocks by number, the largest first: "
      "what they are, how often they are made (x) and where first (@)</text>\n",
      x,
      y);
  const std::size_t rows = rows_in(blocks, width);
  for (std::size_t i = 0; i < blocks.groups.size(); ++i) {
    const BlockGroup& group = blocks.groups[i];
    const std::size_t column = i / rows;
    const double left = x + kListColumn * static_cast<double>(column);
    const double base = y + kListHead + kListRow * static_cast<double>(i % rows);
    const std::string what = fmt::format("{} {}", name_of(group.tensor), group.tensor.origin.type);
    const std::string rest = fmt::format("{}{}{}",
                                         readable(static_cast<double>(group.tensor.size_bytes)),
                                         group.count > 1 ? fmt::format(" x{}", group.count) : "",
                                         fmt::format(" @{}", beginnings[i]));
    text += fmt::format(
                "<text class=\"list\" text-anchor=\"end\" font-weight=\"600\" x=\"{:.1f}\" "
                "y=\"{:.1f}\">{}</text>\n",
                left + 22,
                base,
                i + 1) +
            swatch(left + 27, base, color_of(group.kind, i)) +
            fmt::format(
                "<text class=\"list\" x=\"{0:.1f}\" y=\"{1:.1f}\"><title>{2}, {3}</title>{4} "
                "<tspan fill=\"#5b6270\">{5}</tspan></text>\n",
                left + 41,
                base,
                name_of(group.kind),
                escaped(group.tensor.origin.to_string()),
                escaped(cut_to(what, kListLetters - rest.size())),
                rest);
  }
  return text;
}

double height_of_list(const MemoryBlocks& blocks, double width) noexcept {
  return kListHead + kListRow * static_cast<double>(rows_in(blocks, width)) + 16;
}

}  // namespace hearth::bench
