// MultiHeadAttention: queries, keys and values from one projection, attention in each head, and a
// projection of all heads together; KeyValueCache: what steps of generation keep. A module.
// Threads: one at a time.
#pragma once

#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// Keys and values of the positions so far, [..., key_heads, length, head_width] each; starts
/// empty. A value: a copy goes on by itself.
struct KeyValueCache {
  std::optional<Tensor> keys;    ///< Keys of the positions so far; step() adds to them.
  std::optional<Tensor> values;  ///< Values of these positions.

  /// Positions so far.
  [[nodiscard]] std::int64_t length() const;
};

/// Papers: Vaswani et al., Attention Is All You Need, arXiv:1706.03762; Ainslie et al., GQA,
/// arXiv:2305.13245.
struct MultiHeadAttention {
  struct Config {
    std::int64_t width = 0;       ///< Features of x.
    std::int64_t heads = 1;       ///< Number of heads of the queries.
    std::int64_t key_heads = 0;   ///< Heads in a row share keys and values; 0: as many as heads.
    std::int64_t head_width = 0;  ///< 0: width / heads.
    bool bias = true;             ///< Whether both products have one.
  };

  Linear projection;  ///< To queries of all heads, then keys, then values.
  Linear out;
  std::int64_t heads;
  std::int64_t key_heads;

  /// Errors: ArgumentError when a size is below 1, heads do not divide the width (without a
  /// head_width), or key_heads do not divide the heads.
  MultiHeadAttention(const Config& config,
                     const Device& device,
                     Generator& generator,
                     DType dtype = DType::f32,
                     SourceLoc loc = SourceLoc::current());

  /// Each position of x sees the others as options and mask say.
  ///
  /// Shapes: x [..., n, width], mask as for attention(), broadcast to [..., heads, n, n]; result
  /// like x.
  /// Dtypes: floats, x as the weights.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x, AttentionOptions options = {}) const;
  [[nodiscard]] Tensor forward(Arg x, Arg mask, AttentionOptions options = {}) const;

  /// Each position of x sees those of `context` (cross attention).
  ///
  /// Shapes: x [..., n, width], context [..., m, width]; result like x.
  [[nodiscard]] Tensor attend(Arg x, Arg context, AttentionOptions options = {}) const;
  [[nodiscard]] Tensor attend(Arg x, Arg context, Arg mask, AttentionOptions options = {}) const;

  /// x are the positions that follow those in the cache: each sees these and the ones of x up to
  /// itself, and they join the cache, which is as before when anything throws. One position or
  /// many at a time give what forward() with `causal` gives of all.
  ///
  /// Shapes: x [..., n, width], with the leading axes of the first call; result like x.
  [[nodiscard]] Tensor step(Arg x, KeyValueCache& cache) const;

  HEARTH_MODULE(MultiHeadAttention, projection, out)
};

}  // namespace hearth
