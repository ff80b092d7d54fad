// Losses, as ops. ops.hpp includes this header and states the rules of all ops. Threads: any.
#pragma once

#include <cstdint>
#include <optional>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// Cross-entropy of each row.
///
/// Shapes: logits [n, classes], targets i32 or i64 [n] -> [n].
/// Errors: a class outside [0, classes) poisons the result with out_of_range.
[[nodiscard]] Tensor cross_entropy_per_row(Arg logits, Arg targets);
/// The mean of cross_entropy_per_row(); for logits of a higher rank, as with default options.
[[nodiscard]] Tensor cross_entropy(Arg logits, Arg targets);
struct CrossEntropyOptions {
  /// Class index whose targets are ignored, such as padding.
  std::optional<std::int64_t> ignore_index = {};
  /// Weight of the rows of each class; empty: 1. Shapes: [classes].
  Tensor class_weights = {};
  /// Part of a target's probability that is spread evenly over all classes, including itself: 0 to
  /// 1.
  double label_smoothing = 0;
  int class_axis = 1;  ///< Axis of the logits that holds the classes.
};
/// The mean over all targets that are not ignored, weighted by their classes; NaN if there is none.
/// Means of parts of a batch (devices, accumulation) cannot be added up: see cross_entropy_sum
/// (loss_sum.hpp).
///
/// Shapes: logits [n, classes, ...], targets as logits without the class axis; for sequences [n,
/// length, classes] set {.class_axis = -1}.
/// Dtypes: logits floats, targets i32 or i64. f16 and bf16 are summed in f32.
/// Errors: ShapeError, DtypeError; ArgumentError for a smoothing outside of 0 to 1; a class outside
/// [0, classes) poisons the result with out_of_range, unless it is ignored.
/// Paper: Szegedy et al., Rethinking the Inception Architecture, arXiv:1512.00567 (smoothing).
[[nodiscard]] Tensor cross_entropy(Arg logits, Arg targets, const CrossEntropyOptions& options);
/// The mean negative log-probability of the target classes: nll_loss(log_softmax(x), t) is
/// cross_entropy(x, t).
///
/// Shapes and dtypes: as cross_entropy_per_row, of rank 0; f16 and bf16 are computed in f32.
/// Errors: a class outside [0, classes) poisons the result with out_of_range.
[[nodiscard]] Tensor nll_loss(Arg log_probabilities, Arg targets);
/// The mean of the squared differences, of rank 0.
///
/// Shapes: equal; a target that would broadcast is refused.
/// Dtypes: floats, equal; f16 and bf16 are computed in f32.
[[nodiscard]] Tensor mse_loss(Arg prediction, Arg target);
/// The mean of the absolute differences. Shapes and dtypes: as mse_loss.
[[nodiscard]] Tensor l1_loss(Arg prediction, Arg target);
/// The mean of d²/2 where the difference d is at most `delta`, else of delta·(|d| - delta/2). Less
/// sensitive to outliers than the square. Shapes and dtypes: as mse_loss. Errors: also
/// ArgumentError if delta is not above 0.
/// Paper: Huber, Robust Estimation of a Location Parameter, Annals of Mathematical Statistics 1964.
[[nodiscard]] Tensor huber_loss(Arg prediction, Arg target, double delta = 1);
/// huber_loss divided by its delta, here `beta`: the slope for large differences is 1; l1_loss for
/// beta 0.
/// Paper: Girshick, Fast R-CNN, arXiv:1504.08083.
[[nodiscard]] Tensor smooth_l1_loss(Arg prediction, Arg target, double beta = 1);
/// The divergence of the predicted distribution from the target's. Sums t·(log(t) - x) over all
/// classes and averages over the first axis. Terms with t = 0 are 0.
///
/// Shapes: log probabilities x [n, ...] and probabilities t, equal. Dtypes: as mse_loss.
/// Paper: Kullback, Leibler, On Information and Sufficiency, Annals of Mathematical Statistics
/// 1951.
[[nodiscard]] Tensor kl_div_loss(Arg log_probabilities, Arg target);
/// The mean of -t·log(p) - (1 - t)·log(1 - p) with p = sigmoid(x), for logits x and targets t in
/// [0, 1], without overflow. Shapes and dtypes: as mse_loss.
[[nodiscard]] Tensor binary_cross_entropy_with_logits(Arg logits, Arg targets);
struct BinaryCrossEntropyOptions {
  /// Factor of -t·log(p); above 1 it raises recall. Shapes: broadcasts to the logits', as
  /// [classes]; empty: 1.
  Tensor positive_weight = {};
};
/// binary_cross_entropy_with_logits with options. Errors: also ShapeError if the weight does not
/// broadcast to the logits.
[[nodiscard]] Tensor binary_cross_entropy_with_logits(Arg logits,
                                                      Arg targets,
                                                      const BinaryCrossEntropyOptions& options);

}  // namespace hearth
