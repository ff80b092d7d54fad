// training_dashboard: lays out a training run as a screen of text. Shows curves of loss and
// metrics, progress and remaining time, throughput, and memory and state of the devices. Private to
// modules; terminal_screen does the output.
// Stateless. Threads: any. Invariant: at any size, nothing is drawn outside of the picture.
#pragma once

#include <hearth/modules/training_console.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::detail {

enum class TextStyle : std::uint8_t { plain, strong, faint, first, second, third, warning };

struct TextCell {
  std::string glyph = " ";  ///< One column wide, in UTF-8.
  TextStyle style = TextStyle::plain;
};

/// A grid of text cells for a whole screen.
class TextPicture final {
 public:
  TextPicture(int rows, int columns);

  [[nodiscard]] int rows() const noexcept { return rows_; }
  [[nodiscard]] int columns() const noexcept { return columns_; }
  [[nodiscard]] const TextCell& at(int row, int column) const;
  /// Writes text at a position; cells outside of the picture are dropped.
  void put(int row, int column, std::string_view text, TextStyle style = TextStyle::plain);
  /// The text of a row, without trailing blanks.
  [[nodiscard]] std::string line(int row) const;

 private:
  int rows_;
  int columns_;
  std::vector<TextCell> cells_;
};

/// Draws the dashboard. `is_unicode`: whether the terminal shows more than ASCII; curves are then
/// finer.
[[nodiscard]] TextPicture draw_dashboard(const DashboardFigures& figures,
                                         int rows,
                                         int columns,
                                         bool is_unicode);

}  // namespace hearth::detail
