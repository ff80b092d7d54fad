// The loops of Rnn, Lstm and Gru over layers, directions and positions. Private to modules.
// Threads: as the layers.
#pragma once

#include <hearth/modules/layer_scope.hpp>
#include <hearth/modules/mode.hpp>
#include <hearth/modules/recurrent_weights.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::detail {

/// One run of a layer over its sequences. Refers to the layer and to the caller's operands.
class RecurrentRun {
 public:
  /// Checks x and makes the masks of the lengths. `mode` is empty for a caller that gives none.
  ///
  /// Errors: ShapeError naming the layer if x is not [n, length, in] with a length of 1 or more, or
  /// the lengths are not [n]; DtypeError if x has not the weights' dtype, or the lengths are no
  /// i32 or i64; ArgumentError without a mode if the layer has dropout, and in training without a
  /// generator or a GeneratorScope. DeviceError later for a length outside [0, length].
  RecurrentRun(std::string_view layer,
               const std::vector<RecurrentWeights>& weights,
               const RecurrentConfig& config,
               const Arg& x,
               std::optional<Mode> mode,
               Generator* generator,
               const std::optional<Tensor>& lengths);

  [[nodiscard]] const std::vector<RecurrentWeights>& weights() const noexcept { return weights_; }
  [[nodiscard]] std::size_t directions() const noexcept { return config_.bidirectional ? 2 : 1; }
  [[nodiscard]] SourceLoc loc() const noexcept { return loc_; }
  /// Sequences [n, length, in]; 0 beyond their lengths.
  [[nodiscard]] const Tensor& x() const noexcept { return x_; }

  /// The state at the start of direction `number`, [n, hidden]: a part of `states`, or zeros.
  ///
  /// Errors: ShapeError naming the layer for states of another shape.
  [[nodiscard]] Tensor state(const std::optional<Tensor>& states, std::size_t number) const;
  /// `now` in the sequences that have this position, and `else_value` in the others.
  [[nodiscard]] Tensor inside(std::int64_t position, Tensor now, const Arg& else_value) const;
  /// Output of a layer as the next one reads it.
  [[nodiscard]] Tensor dropped(Tensor output) const;

 private:
  void require_x(const Arg& x) const;
  void take_lengths(const Tensor& lengths);

  std::string_view layer_;
  const std::vector<RecurrentWeights>& weights_;
  const RecurrentConfig& config_;
  SourceLoc loc_;
  Tensor x_;
  Generator* generator_ = nullptr;  // null: no dropout
  std::vector<Tensor> inside_;      // [n, 1] for each position; empty: all sequences have all
};

template <std::size_t kStates>
using RecurrentStates = std::array<Tensor, kStates>;

template <std::size_t kStates>
struct RecurrentOutcome {
  Tensor output;                    // [n, length, hidden·directions]
  RecurrentStates<kStates> states;  // [layers·directions, n, hidden] each
};

/// Returns the output of one direction, [n, length, hidden], and leaves its last states in
/// `states`. `cell(weights, of_input, states)` receives the projected input of one position,
/// [n, gates·hidden], and returns the states after it. The first of them is the output.
template <std::size_t kStates, class Cell>
[[nodiscard]] Tensor run_direction(const RecurrentRun& run,
                                   const RecurrentWeights& weights,
                                   const Tensor& x,
                                   bool is_reversed,
                                   RecurrentStates<kStates>& states,
                                   const Cell& cell) {
  const LayerScope scope(weights, weights.input_weight);
  const SourceLoc loc = run.loc();
  const Tensor projected = weights.of_input(Arg(x, loc));  // all positions in one product
  const std::int64_t length = x.shape()[1];
  std::vector<Tensor> outputs(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t place = is_reversed ? length - 1 - i : i;
    Tensor here = slice(Arg(projected, loc), 1, {.start = place, .stop = place + 1});
    RecurrentStates<kStates> next =
        cell(weights, Tensor(squeeze(Arg(std::move(here), loc), 1)), states);
    outputs[static_cast<std::size_t>(place)] = run.inside(place, next.front(), Arg(0.0, loc));
    for (std::size_t k = 0; k < kStates; ++k) {
      states[k] = run.inside(place, std::move(next[k]), Arg(states[k], loc));
    }
  }
  return stack(outputs, 1, loc);
}

/// Runs all layers from the states in `begin`, by cells as in run_direction().
template <std::size_t kStates, class Cell>
[[nodiscard]] RecurrentOutcome<kStates> run_layers(
    const RecurrentRun& run,
    const std::array<std::optional<Tensor>, kStates>& begin,
    const Cell& cell) {
  std::array<std::vector<Tensor>, kStates> last;
  Tensor x = run.x();
  const std::size_t count = run.weights().size();
  for (std::size_t first = 0; first < count; first += run.directions()) {
    std::vector<Tensor> outputs;
    for (std::size_t number = first; number < first + run.directions(); ++number) {
      RecurrentStates<kStates> states;
      for (std::size_t k = 0; k < kStates; ++k) {
        states[k] = run.state(begin[k], number);
      }
      outputs.push_back(run_direction(run, run.weights()[number], x, number > first, states, cell));
      for (std::size_t k = 0; k < kStates; ++k) {
        last[k].push_back(std::move(states[k]));
      }
    }
    x = outputs.size() == 1 ? std::move(outputs.front()) : concat(outputs, -1, run.loc());
    if (first + run.directions() < count) {
      x = run.dropped(std::move(x));
    }
  }
  RecurrentOutcome<kStates> outcome{.output = std::move(x), .states = {}};
  for (std::size_t k = 0; k < kStates; ++k) {
    outcome.states[k] = stack(last[k], 0, run.loc());
  }
  return outcome;
}

}  // namespace hearth::detail
