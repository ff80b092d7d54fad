// LossSum: a loss in two parts, for means over something else than samples: targets that count,
// weights of classes. The parts of several devices or micro-batches can be added up and divided
// then; their means cannot. A value. Threads: as Tensor.
#pragma once

#include <string_view>

#include <hearth/runtime/losses.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// What a loss function of DataParallel and Trainer can return in place of a mean: with
/// `sum(losses * mask)` and `sum(mask)`, several devices have the mean of the whole batch.
struct LossSum {
  Tensor sum;     ///< Of rank 0. Not NaN where nothing counts, but 0.
  Tensor weight;  ///< What the sum is to be divided by: one number, not differentiated.

  /// The one divided by the other: NaN where nothing counts.
  [[nodiscard]] Tensor mean(SourceLoc loc = SourceLoc::current()) const;
};

/// cross_entropy(logits, targets, options) before the division: the sum over all targets that are
/// not ignored, weighted by their classes, and the sum of these weights.
///
/// Shapes, dtypes and errors: as cross_entropy; of f16 and bf16 both are f32.
[[nodiscard]] LossSum cross_entropy_sum(Arg logits,
                                        Arg targets,
                                        const CrossEntropyOptions& options = {});

namespace detail {
/// Errors: ArgumentError, DtypeError or ShapeError of `caller` for a loss that is not one float.
void require_loss(std::string_view caller, const Tensor& loss, SourceLoc loc);
}  // namespace detail

}  // namespace hearth
