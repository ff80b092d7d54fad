// MultiHeadAttention: projects x to queries, keys and values, attends in each head, and projects
// all heads together. KeyValueCache: the keys and values of a generation so far. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/rotary_embedding.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// Keys and values of the positions so far, [..., key_heads, length, head_width] each; starts
/// empty. Keys are rotated. A value: a copy evolves independently.
struct KeyValueCache {
  std::optional<Tensor> keys;    ///< Keys of the positions so far; step() appends to them.
  std::optional<Tensor> values;  ///< Values of the positions so far.

  /// Number of positions so far.
  [[nodiscard]] std::int64_t length() const;
};

/// Multi-head attention, with shared keys and values where key_heads is below heads.
///
/// Papers: Vaswani et al., Attention Is All You Need, arXiv:1706.03762; Ainslie et al., GQA,
/// arXiv:2305.13245; rotary: Su et al., RoFormer, arXiv:2104.09864.
struct MultiHeadAttention {
  struct Config {
    std::int64_t width = 0;  ///< Features of x.
    std::int64_t heads = 1;  ///< Number of query heads.
    /// Number of key and value heads, each shared by consecutive query heads. 0: one per query
    /// head.
    std::int64_t key_heads = 0;
    std::int64_t head_width = 0;  ///< Features of a head. 0: width / heads.
    bool bias = true;             ///< Whether both projections add a bias.
    /// Rotation of queries and keys by their positions, which begin at its offset. None: the layer
    /// does not know positions.
    std::optional<RotaryOptions> rotary = {};
  };

  Linear projection;  ///< To the queries of all heads, then keys, then values.
  Linear out;
  std::int64_t heads;
  std::int64_t key_heads;
  std::optional<RotaryOptions> rotary;

  /// Creates both projections.
  ///
  /// Errors: ArgumentError when a size is below 1, heads do not divide the width (without a
  /// head_width), or key_heads do not divide the heads; ArgumentError for a rotation that does not
  /// fit the head_width.
  MultiHeadAttention(const Config& config,
                     const Device& device,
                     Generator& generator,
                     DType dtype = DType::f32,
                     SourceLoc loc = SourceLoc::current());

  /// Self-attention among the positions of x, restricted by options and mask.
  ///
  /// Shapes: x [..., n, width], mask as for attention(), broadcast to [..., heads, n, n]; result
  /// like x.
  /// Dtypes: floats; x has the weights' dtype.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x, AttentionOptions options = {}) const;
  [[nodiscard]] Tensor forward(Arg x, Arg mask, AttentionOptions options = {}) const;

  /// Cross attention: each position of x attends to the positions of `context`.
  ///
  /// Shapes: x [..., n, width], context [..., m, width]; result like x.
  /// Errors: as forward(); ArgumentError if the layer rotates: two sequences have no common
  /// positions.
  [[nodiscard]] Tensor attend(Arg x, Arg context, AttentionOptions options = {}) const;
  [[nodiscard]] Tensor attend(Arg x, Arg context, Arg mask, AttentionOptions options = {}) const;
  /// Cross attention to a context whose keys and values were projected before.
  [[nodiscard]] Tensor attend(Arg x,
                              const KeyValueCache& context,
                              AttentionOptions options = {}) const;
  [[nodiscard]] Tensor attend(Arg x,
                              const KeyValueCache& context,
                              Arg mask,
                              AttentionOptions options = {}) const;
  /// Projects a context to keys and values, for several calls of attend().
  ///
  /// Shapes: context [..., m, width].
  [[nodiscard]] KeyValueCache projected(Arg context) const;

  /// Attends from the positions of x, which follow those in the cache, to the cache and to the
  /// positions of x up to their own. Appends x to the cache; if anything throws, the cache is
  /// unchanged. Steps of any size give the result of forward() with `causal` over all positions.
  /// Rotations continue at the cache's length.
  ///
  /// Shapes: x [..., n, width], with the leading axes of the first call; result like x.
  [[nodiscard]] Tensor step(Arg x, KeyValueCache& cache) const;

  HEARTH_MODULE(MultiHeadAttention, projection, out)
};

}  // namespace hearth
