// TransformerConfig: options of TransformerEncoderLayer and TransformerDecoderLayer.
// A value; any thread.
#pragma once

#include <hearth/modules/rotary_embedding.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// Function between the linear layers of a feed-forward block.
enum class FeedForwardActivation : std::uint8_t {
  relu,    ///< linear2(relu(linear1(x))).
  gelu,    ///< linear2(gelu(linear1(x))).
  swiglu,  ///< linear2(silu(gate(x))·linear1(x)): a third linear layer, as in Llama.
};

struct TransformerConfig {
  std::int64_t width = 0;      ///< Size of the last axis of x.
  std::int64_t heads = 1;      ///< Number of query heads; divides the width.
  std::int64_t key_heads = 0;  ///< Number of key and value heads; 0: one per query head.
  std::int64_t inner = 0;      ///< Features between the linear layers; 0: 4 * width.
  /// Probability of dropout on the outputs of attention and linear layers, not on weights.
  double dropout = 0.1;
  /// Function between the linear layers.
  FeedForwardActivation activation = FeedForwardActivation::relu;
  /// Norms before each block (pre-norm) rather than after each residual sum.
  bool norm_first = false;
  double epsilon = 1e-5;  ///< Added to the variance in all norms.
  bool bias = true;       ///< Whether projections, linear layers and norms add a bias.
  /// Rotation of queries and keys by their positions in self-attention; none if omitted.
  std::optional<RotaryOptions> rotary = {};
};

}  // namespace hearth
