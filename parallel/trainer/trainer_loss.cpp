#include <hearth/parallel/trainer_loss.hpp>

#include <hearth/runtime/ops.hpp>

#include <cmath>

namespace hearth {
namespace detail {

FigurePart figures_of(const LossOutputs& result,
                      std::int64_t sample_count,
                      const std::vector<EvaluationMetric>& metrics,
                      SourceLoc where) {
  if (!metrics.empty() && (!result.outputs.is_valid() || !result.targets.is_valid())) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "Trainer: metrics need outputs and targets, but the loss function "
                              "returns the loss alone: return a LossOutputs",
                      .op = "Trainer",
                      .location = where});
  }
  require_loss("Trainer", result.loss, where);
  const bool is_sum = result.weight.is_valid();
  const double factor = is_sum ? 1 : static_cast<double>(sample_count);
  FigurePart part{.loss = result.loss.item(where) * factor,
                  .weight = is_sum ? checked_weight(result.weight, where).item(where) : factor,
                  .sample_count = sample_count};
  for (const EvaluationMetric& metric : metrics) {
    part.statistics.push_back(metric.measure(result.outputs, result.targets));
  }
  return part;
}

void FigureSums::add(const FigurePart& part, SourceLoc where) {
  if (part.sample_count == 0) {
    return;
  }
  loss_ += part.loss;
  weight_ += part.weight;
  sample_count_ += part.sample_count;
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    merge_statistics(metrics_[i], statistics_[i], part.statistics.at(i), where);
  }
}

EvaluationFigures FigureSums::figures() const {
  EvaluationFigures all{.loss = loss_ / weight_, .sample_count = sample_count_};
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    all.metrics.push_back(statistics_[i].empty() ? std::nan("")
                                                 : metrics_[i].value(statistics_[i]));
  }
  all.statistics = statistics_;
  return all;
}

}  // namespace detail

}  // namespace hearth
