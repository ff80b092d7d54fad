#include <hearth/modules/evaluation_metric.hpp>

#include <hearth/modules/metrics.hpp>

#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

using Statistics = EvaluationMetric::Statistics;

[[noreturn]] void fail(ErrorCode code,
                       std::string_view metric,
                       std::string text,
                       SourceLoc loc = {}) {
  throw_error(Error{.code = code,
                    .text = fmt::format("{}: {}", metric, text),
                    .op = std::string(metric),
                    .location = loc});
}

std::vector<double> doubles_of(const Tensor& tensor, SourceLoc loc) {
  return tensor.to(DType::f64, loc).to_vector<double>(loc);
}

// Reads the labels of a batch of classes.
// Errors: ShapeError, DtypeError for anything else, and Exception out_of_range for a label outside
// the classes.
std::vector<std::int64_t> labels_of(std::string_view metric,
                                    const Tensor& logits,
                                    const Tensor& labels,
                                    SourceLoc loc) {
  if (logits.rank() != 2 || labels.rank() != 1 || logits.size(0) != labels.size(0)) {
    fail(ErrorCode::shape_mismatch,
         metric,
         fmt::format("outputs [n, classes] and targets [n] expected, got {} and {}",
                     logits.shape().to_string(),
                     labels.shape().to_string()),
         loc);
  }
  if (labels.dtype() != DType::i32 && labels.dtype() != DType::i64) {
    fail(ErrorCode::dtype_mismatch,
         metric,
         fmt::format("targets are classes in i32 or i64, got {}", name(labels.dtype())),
         loc);
  }
  const std::int64_t classes = logits.size(1);
  if (classes < 2) {  // the largest of one logit is always class 0
    fail(ErrorCode::shape_mismatch,
         metric,
         fmt::format("outputs {} are of fewer than two classes; for one logit a row use "
                     "binary_accuracy_metric() or binary_f1_metric()",
                     logits.shape().to_string()),
         loc);
  }
  auto values = labels.to(DType::i64, loc).to_vector<std::int64_t>(loc);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] >= classes) {
      fail(ErrorCode::out_of_range,
           metric,
           fmt::format("the target of row {} is {}, but outputs {} are of the classes 0 to {}",
                       i,
                       values[i],
                       logits.shape().to_string(),
                       classes - 1),
           loc);
    }
  }
  return values;
}

std::int64_t checked_class_count(std::string_view metric, std::int64_t count, SourceLoc loc) {
  if (count < 2) {
    fail(ErrorCode::invalid_argument,
         metric,
         fmt::format("{} classes: expected 2 or more", count),
         loc);
  }
  return count;
}

Statistics confusion_of(std::string_view metric,
                        std::int64_t class_count,
                        const Tensor& logits,
                        const Tensor& labels,
                        SourceLoc loc) {
  if (logits.rank() == 2 && logits.size(1) != class_count) {
    fail(ErrorCode::shape_mismatch,
         metric,
         fmt::format(
             "made for {} classes, but outputs are {}", class_count, logits.shape().to_string()),
         loc);
  }
  const std::vector<std::int64_t> actual = labels_of(metric, logits, labels, loc);
  const auto predicted = argmax(Arg(logits, loc), 1).to_vector<std::int64_t>(loc);
  ConfusionMatrix matrix(class_count);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    matrix.add(actual[i], predicted[i], 1, loc);
  }
  return {matrix.counts().begin(), matrix.counts().end()};
}

double share_of(const Statistics& all) {
  return all[0] / all[1];
}

// Reads outputs and targets, one to one.
std::pair<std::vector<double>, std::vector<double>> values_of(std::string_view metric,
                                                              const Tensor& outputs,
                                                              const Tensor& targets,
                                                              SourceLoc loc) {
  if (outputs.element_count() != targets.element_count()) {
    fail(ErrorCode::shape_mismatch,
         metric,
         fmt::format("outputs and targets of equally many elements expected, got {} and {}",
                     outputs.shape().to_string(),
                     targets.shape().to_string()),
         loc);
  }
  return {doubles_of(outputs, loc), doubles_of(targets, loc)};
}

// Returns [count, mean of the targets, squared distances from it, squared errors]. The first three
// are merged by Chan, Golub, LeVeque, Updating Formulae for Sample Variances, 1979, since sums of
// squares of large targets would cancel.
Statistics regression_of(const Tensor& outputs, const Tensor& targets, SourceLoc loc) {
  const auto [got, wanted] = values_of("R²", outputs, targets, loc);
  Statistics all{0, 0, 0, 0};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    all[0] += 1;
    const double distance = wanted[i] - all[1];
    all[1] += distance / all[0];
    all[2] += distance * (wanted[i] - all[1]);
    all[3] += (got[i] - wanted[i]) * (got[i] - wanted[i]);
  }
  return all;
}

void merge_regression(Statistics& sum, const Statistics& more) {
  const double count = sum[0] + more[0];
  if (more[0] == 0) {
    return;
  }
  const double distance = more[1] - sum[1];
  sum[2] += more[2] + distance * distance * sum[0] * more[0] / count;
  sum[1] += distance * more[0] / count;
  sum[0] = count;
  sum[3] += more[3];
}

void require_zero_or_one(std::string_view metric, double target, SourceLoc loc) {
  if (target != 0 && target != 1) {
    fail(ErrorCode::out_of_range,
         metric,
         fmt::format("a target is {}, expected 0 or 1", target),
         loc);
  }
}

// Returns [true positives, false positives, false negatives].
Statistics binary_of(const Tensor& outputs, const Tensor& targets, SourceLoc loc) {
  const bool has_two = outputs.rank() == 2 && outputs.size(1) == 2;
  const Arg given(outputs, loc);
  const Tensor is_one =
      has_two ? argmax(given, 1) : greater(given, Arg(0, loc)).to(DType::i64, loc);
  const auto [got, wanted] = values_of("F1", is_one, targets, loc);
  Statistics counts{0, 0, 0};
  for (std::size_t i = 0; i < got.size(); ++i) {
    require_zero_or_one("F1", wanted[i], loc);
    const bool is_hit = got[i] == wanted[i];
    counts[0] += is_hit && got[i] == 1 ? 1 : 0;
    counts[1] += !is_hit && got[i] == 1 ? 1 : 0;
    counts[2] += !is_hit && got[i] == 0 ? 1 : 0;
  }
  return counts;
}

}  // namespace

void merge_statistics(const EvaluationMetric& metric,
                      Statistics& sum,
                      const Statistics& more,
                      SourceLoc loc) {
  if (sum.empty()) {
    sum = more;
  } else if (more.size() != sum.size()) {
    fail(ErrorCode::invalid_argument,
         metric.name,
         fmt::format("a batch gave {} statistics, another {}", sum.size(), more.size()),
         loc);
  } else if (metric.merge) {
    metric.merge(sum, more);
  } else {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += more[i];
    }
  }
}

ConfusionMatrix confusion_matrix_of(const EvaluationMetric& metric,
                                    const Statistics& all,
                                    SourceLoc loc) {
  const std::int64_t classes = metric.class_count;
  if (classes < 1 || all.size() != static_cast<std::size_t>(classes * classes)) {
    fail(ErrorCode::invalid_argument,
         metric.name,
         fmt::format("{} statistics are no table of {} classes", all.size(), classes),
         loc);
  }
  ConfusionMatrix matrix(classes);
  for (std::int64_t i = 0; i < classes * classes; ++i) {
    matrix.add(
        i / classes, i % classes, static_cast<std::int64_t>(all[static_cast<std::size_t>(i)]), loc);
  }
  return matrix;
}

EvaluationMetric accuracy_metric(SourceLoc loc) {
  return {.name = "accuracy",
          .in_percent = true,
          .measure =
              [loc](const Tensor& outputs, const Tensor& targets) {
                const auto labels = labels_of("accuracy", outputs, targets, loc);
                return Statistics{correct_count(outputs, targets, loc).item(loc),
                                  static_cast<double>(labels.size())};
              },
          .value = share_of,
          .figure = "accuracy"};
}

EvaluationMetric top_k_metric(std::int64_t k, SourceLoc loc) {
  const std::string title = fmt::format("top-{} accuracy", k);
  if (k < 1) {
    fail(ErrorCode::invalid_argument,
         "top_k_metric",
         fmt::format("k is {}, but must be 1 or more", k),
         loc);
  }
  const auto measure = [k, title, loc](const Tensor& outputs, const Tensor& targets) {
    const auto rows = static_cast<std::int64_t>(labels_of(title, outputs, targets, loc).size());
    if (k > outputs.size(1)) {
      fail(ErrorCode::invalid_argument,
           title,
           fmt::format("outputs {} have fewer classes", outputs.shape().to_string()),
           loc);
    }
    const Tensor best = topk(Arg(outputs, loc), k, {.axis = 1}).positions;
    const Tensor wanted = reshape(Arg(targets.to(DType::i64, loc), loc), {rows, 1});
    const Tensor is_hit = equal(Arg(best, loc), Arg(wanted, loc));
    const Tensor hits = sum(Arg(is_hit.to(DType::i64, loc), loc));
    return Statistics{hits.item(loc), static_cast<double>(rows)};
  };
  return {
      .name = title, .in_percent = true, .measure = measure, .value = share_of, .figure = title};
}

EvaluationMetric f1_metric(std::int64_t class_count, SourceLoc loc) {
  checked_class_count("f1_metric", class_count, loc);
  EvaluationMetric metric = confusion_metric(class_count, loc);
  metric.name = "F1";
  metric.figure = "mean F1";
  metric.measure = [class_count, loc](const Tensor& outputs, const Tensor& targets) {
    return confusion_of("f1_metric", class_count, outputs, targets, loc);
  };
  metric.value = [metric, loc](const Statistics& all) {
    return confusion_matrix_of(metric, all, loc).macro_f1();
  };
  return metric;
}

EvaluationMetric binary_f1_metric(SourceLoc loc) {
  return {.name = "F1",
          .in_percent = true,
          .measure = [loc](const Tensor& outputs,
                           const Tensor& targets) { return binary_of(outputs, targets, loc); },
          .value =
              [](const Statistics& all) {
                const double relevant = 2 * all[0] + all[1] + all[2];
                return relevant == 0 ? 0 : 2 * all[0] / relevant;
              },
          .figure = "F1 of class 1"};
}

EvaluationMetric binary_accuracy_metric(double threshold, SourceLoc loc) {
  return {.name = "accuracy",
          .in_percent = true,
          .measure =
              [threshold, loc](const Tensor& outputs, const Tensor& targets) {
                detail::require_binary("accuracy", outputs, targets, loc);
                const std::vector<double> got = doubles_of(outputs, loc);
                const std::vector<double> wanted = doubles_of(targets, loc);
                Statistics all{0, static_cast<double>(got.size())};
                for (std::size_t i = 0; i < got.size(); ++i) {
                  require_zero_or_one("accuracy", wanted[i], loc);
                  all[0] += (got[i] > threshold) == (wanted[i] == 1) ? 1 : 0;
                }
                return all;
              },
          .value = share_of,
          .figure = fmt::format("accuracy above {}", threshold)};
}

EvaluationMetric confusion_metric(std::int64_t class_count, SourceLoc loc) {
  checked_class_count("confusion_metric", class_count, loc);
  EvaluationMetric metric{.name = "accuracy",
                          .in_percent = true,
                          .measure =
                              [class_count, loc](const Tensor& outputs, const Tensor& targets) {
                                return confusion_of(
                                    "confusion_metric", class_count, outputs, targets, loc);
                              },
                          .value = {},
                          .class_count = class_count,
                          .figure = "accuracy"};
  metric.value = [metric, loc](const Statistics& all) {
    return confusion_matrix_of(metric, all, loc).accuracy();
  };
  return metric;
}

EvaluationMetric r_squared_metric(SourceLoc loc) {
  return {.name = "R²",
          .measure = [loc](const Tensor& outputs,
                           const Tensor& targets) { return regression_of(outputs, targets, loc); },
          .merge = merge_regression,
          .value =
              [](const Statistics& all) { return all[2] > 0 ? 1 - all[3] / all[2] : std::nan(""); },
          .figure = "R²"};
}

EvaluationMetric mean_error_metric(SourceLoc loc) {
  return {.name = "mean error",
          .goal = Goal::lowest,
          .measure =
              [loc](const Tensor& outputs, const Tensor& targets) {
                const auto [got, wanted] = values_of("mean error", outputs, targets, loc);
                Statistics all{0, static_cast<double>(got.size())};
                for (std::size_t i = 0; i < got.size(); ++i) {
                  all[0] += std::fabs(got[i] - wanted[i]);
                }
                return all;
              },
          .value = share_of,
          .figure = "mean error"};
}

}  // namespace hearth
