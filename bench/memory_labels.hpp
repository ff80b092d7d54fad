// Labels of the blocks of a memory picture. A number is drawn inside its block, or above the stack
// with a line down to it if it does not fit. Pure functions to SVG text. Threads: any.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace hearth::bench {

inline constexpr double kTextSize = 10.5;
inline constexpr double kSmallTextSize = 7.5;

struct Box {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

/// The first text that fits: horizontal or, except for the first one, upright; empty if none does.
[[nodiscard]] std::string label_in(const Box& room, const std::vector<std::string>& texts);

/// A block, and the points where a line to it may end.
struct ThinBlock {
  struct Spot {
    double x = 0;
    double y = 0;
  };
  std::size_t number = 0;
  std::vector<Spot> spots;
};

struct Leaders {
  std::string svg;
  std::vector<std::size_t> left_out;  ///< Numbers that did not fit, each once.
};

/// Draws numbers with lines for thin blocks. `top_in(left, right)`: the highest point of the stack
/// in this range, as y. No number lies above `ceiling`. Blocks are in order of importance.
[[nodiscard]] Leaders draw_leaders(const std::vector<ThinBlock>& blocks,
                                   const std::function<double(double left, double right)>& top_in,
                                   double ceiling);
/// Text such as "too thin for a number: 3, 4 and 7 more"; empty if all have one.
[[nodiscard]] std::string words_of_left_out(const std::vector<std::size_t>& numbers);

}  // namespace hearth::bench
