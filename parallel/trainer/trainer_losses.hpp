// Loss functions as objects, for Trainer's constructor or a program's own loop: each calls the
// function of its name with its options.
// Values; each rank has a copy. Threads: any, but each object one at a time.
// Invariants: (1) several devices and accumulated batches yield the loss of the whole batch: a mean
// over something other than samples has a weight; (2) errors, also later ones, name the line that
// made the object.
#pragma once

#include <hearth/parallel/rank_model.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/losses.hpp>

#include <vector>

namespace hearth {

/// Calls cross_entropy(). With ignore_index or class_weights it has a weight: the mean is over the
/// counted targets of all devices.
class CrossEntropyLoss final {
 public:
  /// Reads the class weights. Errors: those of the read; ArgumentError for a label_smoothing
  /// outside of 0 to 1.
  explicit CrossEntropyLoss(CrossEntropyOptions options = {},
                            SourceLoc where = SourceLoc::current());
  [[nodiscard]] LossOutputs operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  CrossEntropyOptions options_;
  std::vector<double> class_weights_;  ///< Values that each rank copies to its own device.
  SourceLoc where_;
};

/// Calls nll_loss(): cross entropy of outputs that are log-probabilities.
class NegativeLogLikelihoodLoss final {
 public:
  explicit NegativeLogLikelihoodLoss(SourceLoc where = SourceLoc::current()) : where_(where) {}
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  SourceLoc where_;
};

// In the losses below, targets are converted to the outputs' type, and shapes may differ in axes of
// 1: a column may meet a list. Errors: ShapeError for other shapes.

/// Calls mse_loss().
class MeanSquaredLoss final {
 public:
  explicit MeanSquaredLoss(SourceLoc where = SourceLoc::current()) : where_(where) {}
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  SourceLoc where_;
};

/// Calls l1_loss().
class L1Loss final {
 public:
  explicit L1Loss(SourceLoc where = SourceLoc::current()) : where_(where) {}
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  SourceLoc where_;
};

struct HuberOptions {
  double delta = 1;  ///< Distance at which the loss turns from quadratic to linear.
};
/// Calls huber_loss(). Errors: ArgumentError for a delta that is not above 0.
class HuberLoss final {
 public:
  explicit HuberLoss(HuberOptions options = {}, SourceLoc where = SourceLoc::current());
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  HuberOptions options_;
  SourceLoc where_;
};

struct SmoothL1Options {
  double beta = 1;  ///< Distance at which the loss turns from quadratic to linear.
};
/// Calls smooth_l1_loss(). Errors: ArgumentError for a beta below 0.
class SmoothL1Loss final {
 public:
  explicit SmoothL1Loss(SmoothL1Options options = {}, SourceLoc where = SourceLoc::current());
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  SmoothL1Options options_;
  SourceLoc where_;
};

/// Calls kl_div_loss(): outputs are log-probabilities, targets probabilities.
class KlDivergenceLoss final {
 public:
  explicit KlDivergenceLoss(SourceLoc where = SourceLoc::current()) : where_(where) {}
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  SourceLoc where_;
};

/// Calls binary_cross_entropy_with_logits(): outputs are logits, targets from 0 to 1; integer
/// classes 0 and 1 work too.
class BinaryCrossEntropyWithLogitsLoss final {
 public:
  /// Reads the positive weight. Errors: those of the read.
  explicit BinaryCrossEntropyWithLogitsLoss(const BinaryCrossEntropyOptions& options = {},
                                            SourceLoc where = SourceLoc::current());
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  std::vector<double> positive_weight_;  ///< Values that each rank copies to its own device.
  Shape positive_weight_shape_;
  SourceLoc where_;
};

}  // namespace hearth
