// RecurrentWeights: the weights of one layer and direction of an Lstm or a Gru. A module.
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
};

/// Weights of one direction. The gates are concatenated in PyTorch's order: input, forget, cell,
/// output for an Lstm; reset, update, new for a Gru.
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
/// Errors: ArgumentError naming the layer for a size below 1.
[[nodiscard]] std::vector<RecurrentWeights> recurrent_weights(std::string_view layer,
                                                              std::int64_t gates,
                                                              const RecurrentConfig& config,
                                                              const Device& device,
                                                              Generator& generator,
                                                              DType dtype,
                                                              SourceLoc loc);
/// Check the operands of run().
///
/// Errors: ShapeError naming the layer if x is not [n, length, in] with a length of 1 or more, or a
/// state is not [layers·directions, n, hidden]; DtypeError if x has not the weight's dtype.
void require_sequences(std::string_view layer, const Arg& x, std::int64_t in, const Tensor& weight);
void require_state(std::string_view layer, const Tensor& state, const Shape& wanted, SourceLoc loc);
}  // namespace detail

}  // namespace hearth
