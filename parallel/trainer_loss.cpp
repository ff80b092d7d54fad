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

Tensor CrossEntropyLoss::operator()(const Tensor& outputs, const Tensor& targets) const {
  return cross_entropy(outputs, targets);
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
  FigurePart part{.loss = result.loss.item() * static_cast<double>(sample_count),
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
  sample_count_ += part.sample_count;
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    merge_statistics(metrics_[i], statistics_[i], part.statistics.at(i));
  }
}

EvaluationFigures FigureSums::figures() const {
  EvaluationFigures all{.loss = loss_ / static_cast<double>(sample_count_),
                        .sample_count = sample_count_};
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    all.metrics.push_back(statistics_[i].empty() ? std::nan("")
                                                 : metrics_[i].value(statistics_[i]));
  }
  all.statistics = statistics_;
  return all;
}

}  // namespace detail

}  // namespace hearth
