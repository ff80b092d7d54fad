// training_dashboard: a training run as a full screen of text: curves of loss and metrics, progress
// and the time left, throughput, memory and state of the devices. Private to modules: what it draws
// on is terminal_screen's matter.
// Stateless. Threads: any. Invariant: whatever the size, nothing lies outside of the picture.
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

/// A screen's worth of text.
class TextPicture final {
 public:
  TextPicture(int rows, int columns);

  [[nodiscard]] int rows() const noexcept { return rows_; }
  [[nodiscard]] int columns() const noexcept { return columns_; }
  [[nodiscard]] const TextCell& at(int row, int column) const;
  /// What lies outside is cut off.
  void put(int row, int column, std::string_view text, TextStyle style = TextStyle::plain);
  /// The text of a row, without blanks at its end.
  [[nodiscard]] std::string line(int row) const;

 private:
  int rows_;
  int columns_;
  std::vector<TextCell> cells_;
};

/// `is_unicode`: whether the terminal shows more than ASCII; curves are finer then.
[[nodiscard]] TextPicture draw_dashboard(const DashboardFigures& figures,
                                         int rows,
                                         int columns,
                                         bool is_unicode);

}  // namespace hearth::detail
