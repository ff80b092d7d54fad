// What blocks of a memory picture are called: inside of them, or, where there is no room for a
// number, above the stack, with a line down to the block. Pure functions to SVG text. Threads: any.
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

/// The first of the texts that fits, lying or, all but the first one, upright; empty: none does.
[[nodiscard]] std::string label_in(const Box& room, const std::vector<std::string>& texts);

/// A block, and where a line to it may end.
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
  std::vector<std::size_t> left_out;  ///< Numbers for which there was no room, each once.
};

/// `top_in(left, right)`: the highest point of the stack between these, as y. No number lies above
/// `ceiling`. Blocks come in the order of their importance.
[[nodiscard]] Leaders draw_leaders(const std::vector<ThinBlock>& blocks,
                                   const std::function<double(double left, double right)>& top_in,
                                   double ceiling);
/// "too thin for a number: 3, 4 and 7 more"; empty where all have one.
[[nodiscard]] std::string words_of_left_out(const std::vector<std::size_t>& numbers);

}  // namespace hearth::bench
