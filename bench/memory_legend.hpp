// Text parts of a memory picture: colours, a legend of kinds, the largest groups at the peak, and a
// list of all blocks by number. Pure functions to SVG text. Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memory_blocks.hpp"

namespace hearth::bench {

inline constexpr std::string_view kSmallColor = "#c3c8d1";

/// A colour dark enough for white text. Each kind has one hue, with two shades for neighbours.
[[nodiscard]] std::string_view color_of(BlockKind kind, std::size_t group) noexcept;
/// A square of that colour, 10 pixels wide.
[[nodiscard]] std::string swatch(double x, double y, std::string_view color);
/// Cuts a text to this number of letters; a cut text ends in dots.
[[nodiscard]] std::string cut_to(const std::string& text, std::size_t letters);

/// Bytes of a kind.
struct KindBytes {
  std::int64_t at_peak = 0;
  std::int64_t most = 0;
};
using BytesByKind = std::array<KindBytes, kBlockKinds>;

/// Draws the kinds with their bytes at the peak, the largest first.
[[nodiscard]] std::string draw_kinds(const MemoryBlocks& blocks,
                                     const BytesByKind& bytes,
                                     double x,
                                     double y);
/// The y at which draw_kinds() ends.
[[nodiscard]] double end_of_kinds(const MemoryBlocks& blocks, double y);

/// Draws the first `most_rows` of the groups that are live at the peak.
[[nodiscard]] std::string draw_largest(const MemoryBlocks& blocks,
                                       const std::vector<std::size_t>& groups_at_peak,
                                       std::size_t most_rows,
                                       double x,
                                       double y);

/// Draws all groups by number, in columns, from y on. `beginnings`: of each group, as text.
[[nodiscard]] std::string draw_list(const MemoryBlocks& blocks,
                                    const std::vector<std::string>& beginnings,
                                    double x,
                                    double y,
                                    double width);
[[nodiscard]] double height_of_list(const MemoryBlocks& blocks, double width) noexcept;

}  // namespace hearth::bench
