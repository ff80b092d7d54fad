// RecurrentWeights: what one layer of an Lstm or a Gru learns for one direction. A module, part of
// these. Threads: one at a time.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace hearth {

struct RecurrentConfig {
  std::int64_t in = 0;         ///< Features of each place of a sequence.
  std::int64_t hidden = 0;     ///< Features of the state.
  std::int64_t layers = 1;     ///< Each but the first reads the outputs of the one before.
  bool bias = true;            ///< Whether each gate has two.
  bool bidirectional = false;  ///< A second set of weights reads from the end.
};

/// The gates one after another, as in PyTorch: input, forget, cell, output for an Lstm; reset,
/// update, new for a Gru.
struct RecurrentWeights {
  Tensor input_weight;                ///< [gates·hidden, in]
  Tensor hidden_weight;               ///< [gates·hidden, hidden]
  std::optional<Tensor> input_bias;   ///< [gates·hidden]
  std::optional<Tensor> hidden_bias;  ///< [gates·hidden]

  /// All start uniform in ±1/sqrt(hidden). Requires sizes of 1 or more.
  RecurrentWeights(std::int64_t gates,
                   const RecurrentConfig& config,
                   const Device& device,
                   Generator& generator,
                   DType dtype,
                   SourceLoc loc);

  /// Shapes: x [..., in]; result [..., gates·hidden].
  [[nodiscard]] Tensor of_input(Arg x) const;
  /// Shapes: hidden [n, hidden]; result [n, gates·hidden].
  [[nodiscard]] Tensor of_hidden(Arg hidden) const;

  HEARTH_MODULE(RecurrentWeights, input_weight, hidden_weight, input_bias, hidden_bias)
};

namespace detail {
/// The weights of all layers, those of a layer's two directions side by side.
/// Errors: ArgumentError naming the layer for a size below 1.
[[nodiscard]] std::vector<RecurrentWeights> recurrent_weights(std::string_view layer,
                                                              std::int64_t gates,
                                                              const RecurrentConfig& config,
                                                              const Device& device,
                                                              Generator& generator,
                                                              DType dtype,
                                                              SourceLoc loc);
/// Errors: ShapeError naming the layer when x is not [n, length, in] with a length of 1 or more, or
/// a state is not [layers·directions, n, hidden]; DtypeError when x is not of the weight's type.
void require_sequences(std::string_view layer, const Arg& x, std::int64_t in, const Tensor& weight);
void require_state(std::string_view layer, const Tensor& state, const Shape& wanted, SourceLoc loc);
}  // namespace detail

}  // namespace hearth
