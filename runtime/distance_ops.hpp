// Norms of vectors and distances between them. Errors and threads: as in ops.hpp. Dtypes: floats,
// promoted to one type; f16 and bf16 are computed in f32 and rounded once. All have gradients: that
// of a norm of zeros is 0.
#pragma once

#include <cstdint>

#include <hearth/runtime/axes.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// (Σ|x|^p)^(1/p) over the axes; the largest |x| for infinity. Not scaled, so squares of large
/// elements overflow.
///
/// Shapes: as a reduction's. Errors: ArgumentError for p not above 0, and for infinity over no
/// elements.
[[nodiscard]] Tensor vector_norm(Arg x, double p = 2, Axes axes = {}, ReduceOptions options = {});

struct NormalizeOptions {
  double p = 2;            ///< Power of the norm, also infinity.
  int axis = 1;            ///< Axis of the vectors.
  double epsilon = 1e-12;  ///< Least divisor.
};
/// x divided by its norm along an axis, or by epsilon if that is larger.
///
/// Shapes: result like x. Errors: as vector_norm; ArgumentError for an axis outside x.
[[nodiscard]] Tensor normalize(Arg x, NormalizeOptions options = {});

struct CosineOptions {
  int axis = 1;           ///< Axis of the vectors.
  double epsilon = 1e-8;  ///< Least norm in the divisor.
};
/// a·b / (max(|a|, epsilon)·max(|b|, epsilon)) along an axis.
///
/// Shapes: a and b broadcast; the result lacks the axis.
/// Errors: ArgumentError for an axis outside the broadcast shape.
[[nodiscard]] Tensor cosine_similarity(Arg a, Arg b, CosineOptions options = {});

enum class CdistMode : std::uint8_t {
  automatic,    ///< Products for p = 2 and more than 25 rows on one side, as PyTorch.
  differences,  ///< Exact: differences of all pairs.
  products,     ///< |a|² + |b|² - 2·a·b, for p = 2 only: fast, but close points lose digits.
};
struct CdistOptions {
  double p = 2;                           ///< Power of the norm, also infinity.
  CdistMode mode = CdistMode::automatic;  ///< How the distances are computed.
};
/// The distances between all rows of a and all rows of b, by a p-norm.
///
/// Shapes: a [..., n, d], b [..., m, d], whose leading axes broadcast -> [..., n, m].
/// Errors: ShapeError if the d differ or a rank is below 2; ArgumentError for p not above 0, and
/// for products with another p than 2.
/// Cost: products: one matmul and n·m elements. Differences: n·m·d operations. A gradient, and
/// devices that do not fuse the reduction, store n·m·d elements.
[[nodiscard]] Tensor cdist(Arg a, Arg b, CdistOptions options = {});

}  // namespace hearth
