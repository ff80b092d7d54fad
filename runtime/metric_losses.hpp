// Losses of distances between embeddings. Errors and threads: as in ops.hpp.
#pragma once

#include <hearth/runtime/tensor.hpp>

namespace hearth {

struct TripletMarginOptions {
  double margin = 1;      ///< Least difference of the distances.
  double p = 2;           ///< Power of the norm, also infinity.
  double epsilon = 1e-6;  ///< Added to each difference of elements.
  /// True: takes the negative's distance to the anchor or to the positive, the smaller one.
  bool swap = false;
};
/// The mean of max(d(anchor, positive) - d(anchor, negative) + margin, 0), with distances along the
/// last axis.
///
/// Shapes: all three [..., d], equal; result []. Dtypes: as mse_loss.
/// Errors: ShapeError, DtypeError; ArgumentError for p not above 0.
/// Paper: Balntas et al., Learning local feature descriptors with triplets, BMVC 2016.
[[nodiscard]] Tensor triplet_margin_loss(Arg anchor,
                                         Arg positive,
                                         Arg negative,
                                         const TripletMarginOptions& options = {});
/// The mean of 1 - c for targets 1, and of max(c - margin, 0) for targets -1, with the cosine
/// similarity c of two rows. Other targets count as 0.
///
/// Shapes: a and b [..., d], equal, targets [...]; result [].
/// Dtypes: a and b as mse_loss; targets numbers. Errors: ShapeError, DtypeError.
[[nodiscard]] Tensor cosine_embedding_loss(Arg a, Arg b, Arg targets, double margin = 0);

}  // namespace hearth
