// RecurrentWeights: the weights of one layer and direction of an Rnn, Lstm or Gru. A module.
// RecurrentConfig, RecurrentOptions, RecurrentResult: settings of these layers, and of their runs.
// Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace hearth {

struct RecurrentConfig {
  std::int64_t in = 0;      ///< Features of each position of a sequence.
  std::int64_t hidden = 0;  ///< Features of the hidden state.
  std::int64_t layers = 1;  ///< Number of stacked layers; each reads the outputs of the one before.
  bool bias = true;         ///< Whether each gate has an input bias and a hidden bias.
  bool bidirectional = false;  ///< Whether a second set of weights reads the sequence from its end.
  /// Probability of dropout on the outputs of each layer but the last. Needs two layers or more.
  double dropout = 0.0;
};

/// Options of a run of an Rnn or a Gru.
struct RecurrentOptions {
  std::optional<Tensor> state = {};  ///< [layers·directions, n, hidden]; zeros if omitted.
  /// Number of positions of each sequence, [n], i32 or i64; all positions if omitted. The layer
  /// does not read positions beyond it. Their outputs are 0. The backward direction starts at the
  /// last position of each sequence, and the state is that at its end. A length of 0 keeps the
  /// state.
  std::optional<Tensor> lengths = {};
};

/// Result of a run of an Rnn or a Gru.
struct RecurrentResult {
  Tensor output;  ///< [n, length, hidden·directions]: the last layer's.
  Tensor state;   ///< [layers·directions, n, hidden]: after the last position.
};

/// Weights of one direction. The gates are concatenated in PyTorch's order: input, forget, cell,
/// output for an Lstm; reset, update, new for a Gru. An Rnn has one gate.
struct RecurrentWeights {
  Tensor input_weight;                ///< [gates·hidden, in]
  Tensor hidden_weight;               ///< [gates·hidden, hidden]
  std::optional<Tensor> input_bias;   ///< [gates·hidden]
  std::optional<Tensor> hidden_bias;  ///< [gates·hidden]

  /// Initialises all weights uniformly in ±1/sqrt(hidden). Requires sizes of 1 or more.
  RecurrentWeights(std::int64_t gates,
                   const RecurrentConfig& config,
                   const Device& device,
                   Generator& generator,
                   DType dtype,
                   SourceLoc loc);

  /// Projects the input to all gates.
  ///
  /// Shapes: x [..., in]; result [..., gates·hidden].
  [[nodiscard]] Tensor of_input(Arg x) const;
  /// Projects the hidden state to all gates.
  ///
  /// Shapes: hidden [n, hidden]; result [n, gates·hidden].
  [[nodiscard]] Tensor of_hidden(Arg hidden) const;

  HEARTH_MODULE(RecurrentWeights, input_weight, hidden_weight, input_bias, hidden_bias)
};

namespace detail {
/// Creates the weights of all layers; the two directions of a layer are neighbours.
///
/// Errors: ArgumentError naming the layer for a size below 1, a dropout outside [0, 1], or dropout
/// with one layer.
[[nodiscard]] std::vector<RecurrentWeights> recurrent_weights(std::string_view layer,
                                                              std::int64_t gates,
                                                              const RecurrentConfig& config,
                                                              const Device& device,
                                                              Generator& generator,
                                                              DType dtype,
                                                              SourceLoc loc);
}  // namespace detail

}  // namespace hearth
