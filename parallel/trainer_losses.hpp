// Loss functions as objects, for Trainer's constructor or a loop of your own: each calls the
// function of its name, with its options. Values; each rank has a copy. Threads: any, but each
// object one at a time. Invariants: (1) several devices and accumulated batches have the loss of
// the whole batch: a mean over something else than samples comes with its weight; (2) what they
// refuse, and what goes wrong later, is at the line that made them.
#pragma once

#include <hearth/parallel/rank_model.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/losses.hpp>

#include <vector>

namespace hearth {

/// cross_entropy(). With an ignore_index or class_weights the mean is that of all devices' targets
/// that count: it has a weight.
class CrossEntropyLoss final {
 public:
  /// Reads the class weights. Errors: those of the read; ArgumentError for a label_smoothing
  /// outside of 0 to 1.
  explicit CrossEntropyLoss(CrossEntropyOptions options = {},
                            SourceLoc where = SourceLoc::current());
  [[nodiscard]] LossOutputs operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  CrossEntropyOptions options_;
  std::vector<double> class_weights_;  ///< Each rank has them on its own device.
  SourceLoc where_;
};

/// nll_loss(): cross entropy of outputs that are logarithms of probabilities.
class NegativeLogLikelihoodLoss final {
 public:
  explicit NegativeLogLikelihoodLoss(SourceLoc where = SourceLoc::current()) : where_(where) {}
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  SourceLoc where_;
};

// In all below targets take the outputs' type, and a column may meet a list: shapes may differ in
// axes of 1. Errors: ShapeError for others.

/// mse_loss()
class MeanSquaredLoss final {
 public:
  explicit MeanSquaredLoss(SourceLoc where = SourceLoc::current()) : where_(where) {}
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  SourceLoc where_;
};

/// l1_loss()
class L1Loss final {
 public:
  explicit L1Loss(SourceLoc where = SourceLoc::current()) : where_(where) {}
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  SourceLoc where_;
};

struct HuberOptions {
  double delta = 1;  ///< Where the squares end.
};
/// huber_loss(). Errors: ArgumentError for a delta that is not above 0.
class HuberLoss final {
 public:
  explicit HuberLoss(HuberOptions options = {}, SourceLoc where = SourceLoc::current());
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  HuberOptions options_;
  SourceLoc where_;
};

struct SmoothL1Options {
  double beta = 1;  ///< Where the squares end.
};
/// smooth_l1_loss(). Errors: ArgumentError for a beta below 0.
class SmoothL1Loss final {
 public:
  explicit SmoothL1Loss(SmoothL1Options options = {}, SourceLoc where = SourceLoc::current());
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  SmoothL1Options options_;
  SourceLoc where_;
};

/// kl_div_loss(): outputs are logarithms of probabilities, targets probabilities.
class KlDivergenceLoss final {
 public:
  explicit KlDivergenceLoss(SourceLoc where = SourceLoc::current()) : where_(where) {}
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  SourceLoc where_;
};

/// binary_cross_entropy_with_logits(): outputs are logits, targets from 0 to 1, classes 0 and 1
/// too.
class BinaryCrossEntropyWithLogitsLoss final {
 public:
  /// Reads the positive weight. Errors: those of the read.
  explicit BinaryCrossEntropyWithLogitsLoss(const BinaryCrossEntropyOptions& options = {},
                                            SourceLoc where = SourceLoc::current());
  [[nodiscard]] Tensor operator()(const Tensor& outputs, const Tensor& targets) const;

 private:
  std::vector<double> positive_weight_;  ///< Each rank has it on its own device.
  Shape positive_weight_shape_;
  SourceLoc where_;
};

}  // namespace hearth
