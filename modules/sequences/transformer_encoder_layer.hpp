// TransformerEncoderLayer: self-attention and a feed-forward block of linear layers, each with a
// residual connection and a norm. A module without state: the caller owns the generator.
// Threads: one at a time.
#pragma once

#include <hearth/modules/dropout.hpp>
#include <hearth/modules/layer_norm.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/multi_head_attention.hpp>
#include <hearth/modules/transformer_config.hpp>

#include <hearth/runtime/ops.hpp>

#include <optional>

namespace hearth {

namespace detail {
class TransformerParts;
}  // namespace detail

/// A Transformer block. With `causal` in the options it is a decoder layer without cross attention,
/// as in GPT.
///
/// Papers: Vaswani et al., Attention Is All You Need, arXiv:1706.03762. norm_first: Xiong et al.,
/// On Layer Normalization in the Transformer Architecture, arXiv:2002.04745. swiglu: Shazeer, GLU
/// Variants Improve Transformer, arXiv:2002.05202.
struct TransformerEncoderLayer {
  using Config = TransformerConfig;
  using Activation = FeedForwardActivation;

  MultiHeadAttention attention;
  LayerNorm norm1;
  Linear linear1;
  Linear linear2;
  std::optional<Linear> gate;  ///< Gate of the feed-forward block, with `swiglu` only.
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

  HEARTH_MODULE(TransformerEncoderLayer, attention, norm1, linear1, linear2, gate, norm2)

 private:
  TransformerEncoderLayer(const Config& config,
                          const detail::TransformerParts& parts,
                          SourceLoc loc);
};

}  // namespace hearth
