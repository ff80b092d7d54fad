// TransformerEncoderLayer: attention among positions and two linear layers on each, both with a
// way around them and a norm. A module without state: random numbers are the caller's.
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

/// With `causal` in the options it is a layer of a decoder without cross attention, as GPT has it.
///
/// Papers: Vaswani et al., Attention Is All You Need, arXiv:1706.03762; norm_first: Xiong et al.,
/// On Layer Normalization in the Transformer Architecture, arXiv:2002.04745.
struct TransformerEncoderLayer {
  enum class Activation : std::uint8_t { relu, gelu };
  struct Config {
    std::int64_t width = 0;      ///< Size of the last axis of x.
    std::int64_t heads = 1;      ///< Number of heads of the queries; divides the width.
    std::int64_t key_heads = 0;  ///< As MultiHeadAttention has them.
    std::int64_t inner = 0;      ///< Features between the linear layers; 0: 4 * width.
    double dropout = 0.1;        ///< Of what attention and the linear layers give, not of weights.
    Activation activation = Activation::relu;  ///< Function between the two linear layers.
    bool norm_first = false;  ///< Norms before attention and linear layers, not after the sums.
    double epsilon = 1e-5;    ///< Added to the variance in both norms.
    bool bias = true;         ///< Whether products and norms have one.
  };

  MultiHeadAttention attention;
  LayerNorm norm1;
  Linear linear1;
  Linear linear2;
  LayerNorm norm2;
  Dropout dropout;
  Activation activation;
  bool norm_first;

  /// Errors: ArgumentError, as its parts say.
  TransformerEncoderLayer(const Config& config,
                          const Device& device,
                          Generator& generator,
                          DType dtype = DType::f32,
                          SourceLoc loc = SourceLoc::current());

  /// Shapes: x [..., n, width], mask as for attention(); result like x.
  /// Dtypes: floats, x as the weights.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; ArgumentError in training outside of any
  /// GeneratorScope where no generator is given; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x, Mode mode, AttentionOptions options = {}) const;
  [[nodiscard]] Tensor forward(Arg x, Arg mask, Mode mode, AttentionOptions options = {}) const;
  [[nodiscard]] Tensor forward(Arg x,
                               Mode mode,
                               Generator& generator,
                               AttentionOptions options = {}) const;
  [[nodiscard]] Tensor forward(
      Arg x, Arg mask, Mode mode, Generator& generator, AttentionOptions options = {}) const;
  /// In evaluation, of the positions that follow those in the cache: MultiHeadAttention::step().
  [[nodiscard]] Tensor step(Arg x, KeyValueCache& cache) const;

  HEARTH_MODULE(TransformerEncoderLayer, attention, norm1, linear1, linear2, norm2)
};

}  // namespace hearth
