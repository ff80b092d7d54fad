// TransformerEncoderLayer: self-attention and a feed-forward block of two linear layers, each with
// a residual connection and a norm. A module without state: the caller owns the generator.
// Threads: one at a time.
#pragma once

#include <hearth/modules/dropout.hpp>
#include <hearth/modules/layer_norm.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/multi_head_attention.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>

namespace hearth {

/// A Transformer block. With `causal` in the options it is a decoder layer without cross attention,
/// as in GPT.
///
/// Papers: Vaswani et al., Attention Is All You Need, arXiv:1706.03762; norm_first: Xiong et al.,
/// On Layer Normalization in the Transformer Architecture, arXiv:2002.04745.
struct TransformerEncoderLayer {
  enum class Activation : std::uint8_t { relu, gelu };
  struct Config {
    std::int64_t width = 0;      ///< Size of the last axis of x.
    std::int64_t heads = 1;      ///< Number of query heads; divides the width.
    std::int64_t key_heads = 0;  ///< Number of key and value heads; 0: one per query head.
    std::int64_t inner = 0;      ///< Features between the two linear layers; 0: 4 * width.
    /// Probability of dropout on the outputs of attention and linear layers, not on weights.
    double dropout = 0.1;
    Activation activation = Activation::relu;  ///< Function between the two linear layers.
    /// Norms before each block (pre-norm) rather than after each residual sum.
    bool norm_first = false;
    double epsilon = 1e-5;  ///< Added to the variance in both norms.
    bool bias = true;       ///< Whether projections, linear layers and norms add a bias.
  };

  MultiHeadAttention attention;
  LayerNorm norm1;
  Linear linear1;
  Linear linear2;
  LayerNorm norm2;
  Dropout dropout;
  Activation activation;
  bool norm_first;

  /// Errors: ArgumentError, as for the layers that it contains.
  TransformerEncoderLayer(const Config& config,
                          const Device& device,
                          Generator& generator,
                          DType dtype = DType::f32,
                          SourceLoc loc = SourceLoc::current());

  /// Applies the layer.
  ///
  /// Shapes: x [..., n, width], mask as for attention(); result like x.
  /// Dtypes: floats; x has the weights' dtype.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; ArgumentError in training if neither a
  /// generator is passed nor a GeneratorScope is open; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x, Mode mode, AttentionOptions options = {}) const;
  [[nodiscard]] Tensor forward(Arg x, Arg mask, Mode mode, AttentionOptions options = {}) const;
  [[nodiscard]] Tensor forward(Arg x,
                               Mode mode,
                               Generator& generator,
                               AttentionOptions options = {}) const;
  [[nodiscard]] Tensor forward(
      Arg x, Arg mask, Mode mode, Generator& generator, AttentionOptions options = {}) const;
  /// Evaluates the positions that follow those in the cache, by MultiHeadAttention::step().
  [[nodiscard]] Tensor step(Arg x, KeyValueCache& cache) const;

  HEARTH_MODULE(TransformerEncoderLayer, attention, norm1, linear1, linear2, norm2)
};

}  // namespace hearth
