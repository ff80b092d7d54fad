// EvaluationMetric: a figure of a whole data set that is gathered batch by batch, on several
// devices too: each batch gives a few numbers (statistics), which are merged in a fixed order and
// become the figure at the end.
// A value, copied to every rank. Threads: measure() on the thread of the tensors' stream; the rest
// any. Invariant: merging the statistics of the parts gives those of the whole.
#pragma once

#include <hearth/modules/best_value.hpp>
#include <hearth/modules/confusion_matrix.hpp>

#include <hearth/runtime/tensor.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hearth {

/// One of your own needs a name, `measure` and `value`; without `merge` statistics are added up.
struct EvaluationMetric {
  using Statistics = std::vector<double>;

  std::string name;           ///< In lines, tables and `watch`.
  Goal goal = Goal::highest;  ///< Whether more of it is better.
  bool in_percent = false;    ///< Shown in per cent.
  /// What a batch says. Waits for its values.
  std::function<Statistics(const Tensor& outputs, const Tensor& targets)> measure;
  /// Adds the statistics of further examples.
  std::function<void(Statistics& sum, const Statistics& more)> merge = {};
  std::function<double(const Statistics& all)>
      value;  ///< Computes the figure from the sum of all statistics.
  /// How many classes its statistics are a ConfusionMatrix of, for the report; 0: of none.
  std::int64_t class_count = 0;
  /// Which figure it is, where several metrics have it: of those of one name and one figure, a run
  /// shows the first alone. Two of one name that are not the same figure are refused.
  std::string figure = {};
};

/// Adds `more` to `sum`, which may be empty yet. Errors: ArgumentError when they are of two
/// lengths.
void merge_statistics(const EvaluationMetric& metric,
                      EvaluationMetric::Statistics& sum,
                      const EvaluationMetric::Statistics& more,
                      SourceLoc loc = SourceLoc::current());
/// Of a metric that has classes. Errors: ArgumentError when it has none, or others.
[[nodiscard]] ConfusionMatrix confusion_matrix_of(const EvaluationMetric& metric,
                                                  const EvaluationMetric::Statistics& all,
                                                  SourceLoc loc = SourceLoc::current());

/// The share of rows whose largest logit is at their label: "accuracy".
///
/// Shapes: outputs [n, classes], two classes or more, targets [n]; so for the next two.
/// Dtypes: outputs numbers, targets i32 or i64.
/// Errors: ShapeError, DtypeError when a batch does not fit, Exception out_of_range for a target
/// that is no class, at the line that made the metric; so for all.
[[nodiscard]] EvaluationMetric accuracy_metric(SourceLoc loc = SourceLoc::current());
/// The share of outputs on the right side of `threshold`, above it for the target 1: "accuracy".
/// 0 is for logits, as of BinaryCrossEntropyWithLogitsLoss, 0.5 for probabilities.
/// Shapes: outputs [n] or [n, 1], or as targets; targets [n] or as outputs.
/// Dtypes: numbers; computed in f64. Errors: Exception out_of_range for a target but 0 and 1.
[[nodiscard]] EvaluationMetric binary_accuracy_metric(double threshold = 0,
                                                      SourceLoc loc = SourceLoc::current());
/// The share of rows whose label is among their `k` largest logits: "top-5 accuracy".
/// Errors: ArgumentError for a k below 1, and when a batch has fewer classes.
[[nodiscard]] EvaluationMetric top_k_metric(std::int64_t k, SourceLoc loc = SourceLoc::current());
/// The mean of the classes' F1, "F1". Of two classes too: the F1 of class 1 alone is
/// binary_f1_metric.
[[nodiscard]] EvaluationMetric f1_metric(std::int64_t class_count,
                                         SourceLoc loc = SourceLoc::current());
/// The F1 of class 1 of two, "F1". Shapes: outputs [n, 2], or [n] or [n, 1]: one logit, positive
/// for class 1; targets [n] or as outputs, 0 or 1 in any type.
[[nodiscard]] EvaluationMetric binary_f1_metric(SourceLoc loc = SourceLoc::current());
/// Accuracy with the whole confusion matrix in the report: "accuracy".
[[nodiscard]] EvaluationMetric confusion_metric(std::int64_t class_count,
                                                SourceLoc loc = SourceLoc::current());
/// 1 - (sum of squared errors) / (sum of squared distances of the targets from their mean): "R²".
/// NaN where all targets are equal. Shapes: outputs and targets have equally many elements.
[[nodiscard]] EvaluationMetric r_squared_metric(SourceLoc loc = SourceLoc::current());
/// The mean distance of outputs from targets, in their units: "mean error". Of targets that a
/// TableEncoder standardised it is in deviations (TableEncoder::target_value). Shapes: as
/// r_squared_metric.
[[nodiscard]] EvaluationMetric mean_error_metric(SourceLoc loc = SourceLoc::current());

}  // namespace hearth
