// LossSum: a loss as sum and weight, for means over something else than samples: targets that are
// not ignored, weights of classes. The parts of several devices or micro-batches can be added and
// then divided; their means cannot. A value. Threads: as Tensor.
#pragma once

#include <string_view>

#include <hearth/runtime/losses.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// A result that a loss function of DataParallel and Trainer may return in place of a mean. With
/// `sum(losses * mask)` and `sum(mask)`, several devices compute the mean of the whole batch.
struct LossSum {
  Tensor sum;     ///< Sum of the losses, of rank 0; 0, not NaN, if nothing counts.
  Tensor weight;  ///< Divisor of the sum: one number, not differentiated.

  /// sum / weight; NaN if nothing counts.
  [[nodiscard]] Tensor mean(SourceLoc loc = SourceLoc::current()) const;
};

/// The parts of cross_entropy(logits, targets, options) before the division. `sum` is over all
/// targets that are not ignored, weighted by their classes; `weight` is the sum of these weights.
///
/// Shapes, dtypes and errors: as cross_entropy; for f16 and bf16 both parts are f32.
[[nodiscard]] LossSum cross_entropy_sum(Arg logits,
                                        Arg targets,
                                        const CrossEntropyOptions& options = {});

namespace detail {
/// Checks that a loss is one float. Errors: ArgumentError, DtypeError or ShapeError of `caller`.
void require_loss(std::string_view caller, const Tensor& loss, SourceLoc loc);
}  // namespace detail

}  // namespace hearth
