// Rotary position embeddings (RoPE): rotate pairs of features by angles that grow with the
// position. Products of rotated queries and keys depend on the distance of their positions.
// Stateless. Threads: any; on the calling thread's stream.
#pragma once

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <string_view>

namespace hearth {

/// Pairs of features that rotate together.
enum class RotaryLayout : std::uint8_t {
  half,         ///< Feature i and i + width/2, as in GPT-NeoX and Hugging Face's Llama.
  interleaved,  ///< Feature 2i and 2i + 1, as in the paper and in Meta's Llama.
};

struct RotaryOptions {
  RotaryLayout layout = RotaryLayout::half;  ///< Pairs of features that rotate together.
  double base = 10000;      ///< Pair i of width/2 turns by base^(-2i/width) per position.
  std::int64_t offset = 0;  ///< Position of the first row.
  std::int64_t width = 0;   ///< Features that rotate, the first ones; an even number. 0: all.
  /// Number by which positions are divided. Above 1: position interpolation, for sequences that are
  /// longer than those of the training.
  double scale = 1;
};

/// Rotates the features of each row by the angles of its position: row i has position offset + i.
///
/// Shapes: x [..., n, features]; the result is like x.
/// Dtypes: floats; f16 and bf16 are computed in f32. Angles are f32, or f64 for x of f64.
/// Errors: ShapeError, DtypeError, DeviceMismatch; ArgumentError for a width that is odd, below 0
/// or above the features, and for a base or scale that is not finite and above 0. Papers: Su et
/// al., RoFormer, arXiv:2104.09864; scale: Chen et al., Extending Context Window of Large Language
/// Models via Position Interpolation, arXiv:2306.15595.
[[nodiscard]] Tensor rotary_embedding(Arg x, RotaryOptions options = {});
/// Rotates the features of each row by the angles of the given positions, plus the offset.
///
/// Shapes: positions i32 or i64; they broadcast to [..., n], x without its last axis.
[[nodiscard]] Tensor rotary_embedding(Arg x, Arg positions, RotaryOptions options = {});

namespace detail {
/// Checks options for rows of this many features.
///
/// Errors: ArgumentError naming `user`, as rotary_embedding().
void require_rotary(std::string_view user,
                    const RotaryOptions& options,
                    std::int64_t features,
                    SourceLoc loc);
}  // namespace detail

}  // namespace hearth
