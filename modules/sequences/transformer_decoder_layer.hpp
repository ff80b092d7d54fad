// TransformerDecoderLayer: self-attention, attention to a memory, and a feed-forward block, each
// with a residual connection and a norm. DecoderCache: what a generation keeps of them. A module
// without state: the caller owns the generator.
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

struct DecoderOptions {
  bool causal = true;  ///< Whether a position of x attends to itself and those before it only.
  /// Mask of the positions of x, as for attention(): [..., heads, n, n] or what broadcasts to it.
  std::optional<Tensor> mask = {};
  /// Mask of the positions of the memory: [..., heads, n, m] or what broadcasts to it.
  std::optional<Tensor> memory_mask = {};
};

/// Keys and values of one generation, made by TransformerDecoderLayer::start(). A value: a copy
/// evolves independently.
struct DecoderCache {
  KeyValueCache positions = {};            ///< Keys and values of the positions of x so far.
  KeyValueCache memory = {};               ///< Keys and values of the memory.
  std::optional<Tensor> memory_mask = {};  ///< Mask of the memory, as in DecoderOptions.
};

/// A Transformer block of a decoder, which attends to the outputs of an encoder. For a model
/// without an encoder, such as GPT, use a TransformerEncoderLayer with `causal`.
///
/// Papers: Vaswani et al., Attention Is All You Need, arXiv:1706.03762. norm_first: Xiong et al.,
/// On Layer Normalization in the Transformer Architecture, arXiv:2002.04745. swiglu: Shazeer, GLU
/// Variants Improve Transformer, arXiv:2002.05202.
struct TransformerDecoderLayer {
  using Config = TransformerConfig;
  using Activation = FeedForwardActivation;

  MultiHeadAttention attention;
  LayerNorm norm1;
  MultiHeadAttention cross_attention;  ///< To the memory; without rotation.
  LayerNorm norm2;
  Linear linear1;
  Linear linear2;
  std::optional<Linear> gate;  ///< Gate of the feed-forward block, with `swiglu` only.
  LayerNorm norm3;
  Dropout dropout;
  Activation activation;
  bool norm_first;

  /// Errors: ArgumentError, as for the layers that it contains.
  TransformerDecoderLayer(const Config& config,
                          const Device& device,
                          Generator& generator,
                          DType dtype = DType::f32,
                          SourceLoc loc = SourceLoc::current());

  /// Applies the layer.
  ///
  /// Shapes: x [..., n, width], memory [..., m, width], with equal leading axes; result like x.
  /// Dtypes: floats; x and the memory have the weights' dtype.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; ArgumentError in training if neither a
  /// generator is passed nor a GeneratorScope is open; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x,
                               Arg memory,
                               Mode mode,
                               const DecoderOptions& options = {}) const;
  [[nodiscard]] Tensor forward(
      Arg x, Arg memory, Mode mode, Generator& generator, const DecoderOptions& options = {}) const;

  /// Projects the memory for a generation by step().
  ///
  /// Shapes: memory [..., m, width].
  [[nodiscard]] DecoderCache start(Arg memory, std::optional<Tensor> memory_mask = {}) const;
  /// Evaluates the positions that follow those in the cache, and appends them to it. If anything
  /// throws, the cache is unchanged. Steps of any size give the result of a causal forward() over
  /// all positions.
  ///
  /// Shapes: x [..., n, width], with the leading axes of the memory; result like x.
  /// Errors: as forward(); ArgumentError for a cache without a memory.
  [[nodiscard]] Tensor step(Arg x, DecoderCache& cache) const;

  HEARTH_MODULE(TransformerDecoderLayer,
                attention,
                norm1,
                cross_attention,
                norm2,
                linear1,
                linear2,
                gate,
                norm3)

 private:
  TransformerDecoderLayer(const Config& config,
                          const detail::TransformerParts& parts,
                          SourceLoc loc);
};

}  // namespace hearth
