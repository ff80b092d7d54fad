// Losses, as ops: what is true of all ops stands in ops.hpp, which brings this header. Threads:
// any.
#pragma once

#include <cstdint>
#include <optional>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// Shapes: logits [n, classes], targets i32 or i64 [n] -> [n], the loss of each row. Errors: a
/// class outside [0, classes) poisons the result with out_of_range.
[[nodiscard]] Tensor cross_entropy_per_row(Arg logits, Arg targets);
/// The mean over the rows; of logits of a higher rank as with options that say nothing.
[[nodiscard]] Tensor cross_entropy(Arg logits, Arg targets);
struct CrossEntropyOptions {
  /// Targets of this number count for nothing: padding, for instance.
  std::optional<std::int64_t> ignore_index = {};
  /// How much a row of each class counts; empty: all the same. Shapes: [classes].
  Tensor class_weights = {};
  /// What a target gives to all classes in equal parts, itself too: 0 to 1.
  double label_smoothing = 0;
  int class_axis = 1;  ///< Which axis of the logits has the classes.
};
/// The mean over all targets that are not ignored, weighted by their classes; NaN when there is
/// none. Of parts of a batch (devices, accumulation) their means cannot be added up: see
/// cross_entropy_sum (loss_sum.hpp).
///
/// Shapes: logits [n, classes, ...], targets the same without the axis of the classes; for
/// sequences [n, length, classes] say {.class_axis = -1}. Dtypes: logits floats, targets i32 or
/// i64. f16 and bf16 are summed in f32. Errors: ShapeError, DtypeError; ArgumentError for a
/// smoothing outside of 0 to 1; a class outside [0, classes) poisons the result with out_of_range,
/// unless it is ignored. Paper: Szegedy et al., Rethinking the Inception Architecture,
/// arXiv:1512.00567 (smoothing).
[[nodiscard]] Tensor cross_entropy(Arg logits, Arg targets, const CrossEntropyOptions& options);
/// The mean of what the target's class has, with the sign turned: nll_loss(log_softmax(x), t) is
/// cross_entropy(x, t). Shapes and dtypes: as cross_entropy_per_row, of rank 0; f16 and bf16 are
/// computed in f32. Errors: a class outside [0, classes) poisons the result with out_of_range.
[[nodiscard]] Tensor nll_loss(Arg log_probabilities, Arg targets);
/// The mean of the squared differences, of rank 0.
///
/// Shapes: equal; a target that would broadcast is refused.
/// Dtypes: floats, equal; f16 and bf16 are computed in f32.
[[nodiscard]] Tensor mse_loss(Arg prediction, Arg target);
/// The mean of the absolute differences. Shapes and dtypes: as mse_loss.
[[nodiscard]] Tensor l1_loss(Arg prediction, Arg target);
/// The mean of d²/2 where the difference d is at most `delta`, else of delta·(|d| - delta/2): less
/// moved by outliers than the square. Shapes and dtypes: as mse_loss. Errors besides: ArgumentError
/// when delta is not above 0.
/// Paper: Huber, Robust Estimation of a Location Parameter, Annals of Mathematical Statistics 1964.
[[nodiscard]] Tensor huber_loss(Arg prediction, Arg target, double delta = 1);
/// huber_loss divided by delta, here `beta`, so that its slope far out is 1; l1_loss for beta 0.
/// Paper: Girshick, Fast R-CNN, arXiv:1504.08083.
[[nodiscard]] Tensor smooth_l1_loss(Arg prediction, Arg target, double beta = 1);
/// The divergence of the predicted distribution from the target's: the sum of t·(log(t) - x) over
/// all classes, in the mean over the first axis. Where t is 0 it adds nothing.
///
/// Shapes: log probabilities x [n, ...] and probabilities t, equal. Dtypes: as mse_loss.
/// Paper: Kullback, Leibler, On Information and Sufficiency, Annals of Mathematical Statistics
/// 1951.
[[nodiscard]] Tensor kl_div_loss(Arg log_probabilities, Arg target);
/// The mean of -t·log(p) - (1 - t)·log(1 - p) with p = sigmoid(x), for logits x and targets t in
/// [0, 1], without overflow. Shapes and dtypes: as mse_loss.
[[nodiscard]] Tensor binary_cross_entropy_with_logits(Arg logits, Arg targets);
struct BinaryCrossEntropyOptions {
  /// How often a positive counts: the factor of -t·log(p). Above 1 it finds more of what is rare.
  /// Shapes: one that broadcasts to the logits', as [classes] to [n, classes]; empty: 1.
  Tensor positive_weight = {};
};
/// The same with options. Errors besides: ShapeError where the weight does not broadcast to the
/// logits.
[[nodiscard]] Tensor binary_cross_entropy_with_logits(Arg logits,
                                                      Arg targets,
                                                      const BinaryCrossEntropyOptions& options);

}  // namespace hearth
