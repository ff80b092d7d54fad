// EvaluationMetric: a figure of a whole data set, gathered batch by batch, also on several devices.
// Each batch yields a vector of numbers (statistics). The statistics are merged in a fixed order
// and finally reduced to the figure.
// A value, copied to every rank. Threads: measure() on the thread of the tensors' stream; the rest
// any.
// Invariant: merging the statistics of the parts yields those of the whole.
#pragma once

#include <hearth/modules/best_value.hpp>
#include <hearth/modules/confusion_matrix.hpp>

#include <hearth/runtime/tensor.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hearth {

/// A metric. A user-defined one needs a name, `measure` and `value`; without `merge` statistics are
/// added.
struct EvaluationMetric {
  using Statistics = std::vector<double>;

  std::string name;           ///< Name in log lines, tables and `watch`.
  Goal goal = Goal::highest;  ///< Whether higher or lower is better.
  bool in_percent = false;    ///< Whether it is printed in per cent.
  /// Computes the statistics of one batch. Waits for its values.
  std::function<Statistics(const Tensor& outputs, const Tensor& targets)> measure;
  /// Merges the statistics of further examples into `sum`.
  std::function<void(Statistics& sum, const Statistics& more)> merge = {};
  std::function<double(const Statistics& all)>
      value;  ///< Computes the figure from the sum of all statistics.
  /// Number of classes, if the statistics are the counts of a ConfusionMatrix, which the report
  /// then shows; else 0.
  std::int64_t class_count = 0;
  /// Identifies the figure. Metrics of one name and figure are shown once; one name with different
  /// figures is an error.
  std::string figure = {};
};

/// Merges `more` into `sum`, which may be empty.
///
/// Errors: ArgumentError when their lengths differ.
void merge_statistics(const EvaluationMetric& metric,
                      EvaluationMetric::Statistics& sum,
                      const EvaluationMetric::Statistics& more,
                      SourceLoc loc = SourceLoc::current());
/// The confusion matrix of a metric that has classes.
///
/// Errors: ArgumentError when it has none, or another number of them.
[[nodiscard]] ConfusionMatrix confusion_matrix_of(const EvaluationMetric& metric,
                                                  const EvaluationMetric::Statistics& all,
                                                  SourceLoc loc = SourceLoc::current());

/// "accuracy": the share of rows whose largest logit is at their label.
///
/// Shapes: outputs [n, classes], at least two classes, targets [n]; also for the next two metrics.
/// Dtypes: outputs numbers, targets i32 or i64.
/// Errors: ShapeError, DtypeError when a batch does not match, Exception out_of_range for a target
/// outside the classes, with the line that made the metric; also for all metrics below.
[[nodiscard]] EvaluationMetric accuracy_metric(SourceLoc loc = SourceLoc::current());
/// "accuracy": the share of outputs on the right side of `threshold`, above it if the target is 1.
/// Use 0 for logits, as with BinaryCrossEntropyWithLogitsLoss, and 0.5 for probabilities.
///
/// Shapes: outputs [n] or [n, 1], or as targets; targets [n] or as outputs.
/// Dtypes: numbers; computed in f64.
/// Errors: Exception out_of_range for a target other than 0 and 1.
[[nodiscard]] EvaluationMetric binary_accuracy_metric(double threshold = 0,
                                                      SourceLoc loc = SourceLoc::current());
/// "top-5 accuracy": the share of rows whose label is among their `k` largest logits.
///
/// Errors: ArgumentError for a k below 1, and when a batch has fewer classes.
[[nodiscard]] EvaluationMetric top_k_metric(std::int64_t k, SourceLoc loc = SourceLoc::current());
/// "F1": the mean of the F1 scores of all classes, also of two. binary_f1_metric is the F1 of class
/// 1.
[[nodiscard]] EvaluationMetric f1_metric(std::int64_t class_count,
                                         SourceLoc loc = SourceLoc::current());
/// "F1": the F1 score of class 1 of two.
///
/// Shapes: outputs [n, 2], or [n] or [n, 1] with one logit, positive for class 1; targets [n] or as
/// outputs, 0 or 1 in any dtype.
[[nodiscard]] EvaluationMetric binary_f1_metric(SourceLoc loc = SourceLoc::current());
/// "accuracy", with the whole confusion matrix in the report.
[[nodiscard]] EvaluationMetric confusion_metric(std::int64_t class_count,
                                                SourceLoc loc = SourceLoc::current());
/// "R²": 1 - (sum of squared errors) / (sum of squared distances of the targets from their mean).
/// NaN where all targets are equal.
///
/// Shapes: outputs and targets have the same number of elements.
[[nodiscard]] EvaluationMetric r_squared_metric(SourceLoc loc = SourceLoc::current());
/// "mean error": the mean absolute error, in the units of the targets. For targets that a
/// TableEncoder standardised the unit is one deviation (TableEncoder::target_value).
///
/// Shapes: as r_squared_metric.
[[nodiscard]] EvaluationMetric mean_error_metric(SourceLoc loc = SourceLoc::current());

}  // namespace hearth
