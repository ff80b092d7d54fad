#include <hearth/parallel/trainer_loss.hpp>

#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace hearth {
namespace {

std::vector<std::int64_t> without_ones(const Shape& shape) {
  std::vector<std::int64_t> sizes;
  std::ranges::copy_if(
      shape.dims(), std::back_inserter(sizes), [](std::int64_t size) { return size != 1; });
  return sizes;
}

}  // namespace

namespace {

// On the rank's device, which need not know f64.
Tensor weights_like(const Tensor& outputs, const std::vector<double>& weights) {
  const Shape shape{static_cast<std::int64_t>(weights.size())};
  if (outputs.dtype() == DType::f64) {
    return Tensor::from(outputs.device(), weights, shape);
  }
  return Tensor::from(outputs.device(), std::vector<float>(weights.begin(), weights.end()), shape);
}

}  // namespace

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions options) : options_(std::move(options)) {
  if (options_.class_weights.is_valid()) {
    class_weights_ = options_.class_weights.to(DType::f64).to_vector<double>();
    options_.class_weights = {};
  }
}

LossOutputs CrossEntropyLoss::operator()(const Tensor& outputs, const Tensor& targets) const {
  if (!options_.ignore_index && class_weights_.empty()) {
    return {.loss = cross_entropy(outputs, targets, options_)};
  }
  CrossEntropyOptions here = options_;
  if (!class_weights_.empty()) {
    here.class_weights = weights_like(outputs, class_weights_);
  }
  return detail::loss_outputs(cross_entropy_sum(outputs, targets, here));
}

Tensor MeanSquaredLoss::operator()(const Tensor& outputs, const Tensor& targets) const {
  if (without_ones(outputs.shape()) != without_ones(targets.shape())) {
    throw_error(Error{.code = ErrorCode::shape_mismatch,
                      .text = fmt::format("MeanSquaredLoss: outputs are {}, but targets {}: they "
                                          "may differ in axes of 1 alone",
                                          describe(outputs.dtype(), outputs.shape()),
                                          describe(targets.dtype(), targets.shape())),
                      .op = "MeanSquaredLoss"});
  }
  return mse_loss(outputs, reshape(targets, outputs.shape()).to(outputs.dtype()));
}

namespace detail {

FigurePart figures_of(const LossOutputs& result,
                      std::int64_t sample_count,
                      const std::vector<EvaluationMetric>& metrics) {
  if (!metrics.empty() && (!result.outputs.is_valid() || !result.targets.is_valid())) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "Trainer: metrics need outputs and targets, but the loss function "
                              "returns the loss alone: return a LossOutputs",
                      .op = "Trainer"});
  }
  const bool is_sum = result.weight.is_valid();
  const double factor = is_sum ? 1 : static_cast<double>(sample_count);
  FigurePart part{.loss = result.loss.item() * factor,
                  .weight = is_sum ? checked_weight(result.weight).item() : factor,
                  .sample_count = sample_count};
  for (const EvaluationMetric& metric : metrics) {
    part.statistics.push_back(metric.measure(result.outputs, result.targets));
  }
  return part;
}

void FigureSums::add(const FigurePart& part) {
  if (part.sample_count == 0) {
    return;
  }
  loss_ += part.loss;
  weight_ += part.weight;
  sample_count_ += part.sample_count;
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    merge_statistics(metrics_[i], statistics_[i], part.statistics.at(i));
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
