// The loops of Lstm and Gru over layers, directions and positions. Private to modules.
// Threads: as the layers.
#pragma once

#include <hearth/modules/recurrent_weights.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace hearth::detail {

/// Returns the output of one direction, [n, length, hidden]. `step` receives the projected input of
/// one position, [n, gates·hidden], and returns [n, hidden]; it holds the state.
template <class Step>
[[nodiscard]] Tensor run_direction(const RecurrentWeights& weights,
                                   const Tensor& x,
                                   bool is_reversed,
                                   SourceLoc loc,
                                   const Step& step) {
  const Tensor projected = weights.of_input(Arg(x, loc));  // all positions in one product
  const std::int64_t length = x.shape()[1];
  std::vector<Tensor> outputs(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t place = is_reversed ? length - 1 - i : i;
    Tensor here = slice(Arg(projected, loc), 1, {.start = place, .stop = place + 1});
    outputs[static_cast<std::size_t>(place)] = step(Tensor(squeeze(Arg(std::move(here), loc), 1)));
  }
  return stack(outputs, 1, loc);
}

/// Returns the output of the last layer. `run(number, weights, x, is_reversed)` returns the output
/// of one direction of one layer; `number` is its index in the state.
template <class Run>
[[nodiscard]] Tensor run_layers(const std::vector<RecurrentWeights>& layers,
                                bool bidirectional,
                                Tensor x,
                                SourceLoc loc,
                                const Run& run) {
  const std::size_t directions = bidirectional ? 2 : 1;
  for (std::size_t first = 0; first < layers.size(); first += directions) {
    std::vector<Tensor> outputs;
    for (std::size_t i = 0; i < directions; ++i) {
      outputs.push_back(run(first + i, layers[first + i], x, i == 1));
    }
    x = directions == 1 ? std::move(outputs.front()) : concat(outputs, -1, loc);
  }
  return x;
}

/// Part `number` of a state [parts, n, hidden].
[[nodiscard]] inline Tensor part_of(const Tensor& state, std::size_t number, SourceLoc loc) {
  const auto at = static_cast<std::int64_t>(number);
  return squeeze(Arg(slice(Arg(state, loc), 0, {.start = at, .stop = at + 1}), loc), 0);
}

}  // namespace hearth::detail
