#include <hearth/parallel/trainer_losses.hpp>

#include <hearth/runtime/loss_sum.hpp>
#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace hearth {
namespace {

std::vector<std::int64_t> without_ones(const Shape& shape) {
  std::vector<std::int64_t> sizes;
  std::ranges::copy_if(
      shape.dims(), std::back_inserter(sizes), [](std::int64_t size) { return size != 1; });
  return sizes;
}

// The targets, converted to the shape and type of the outputs.
Tensor fitted(const char* loss, const Tensor& outputs, const Tensor& targets, SourceLoc where) {
  if (without_ones(outputs.shape(where)) != without_ones(targets.shape(where))) {
    throw_error(Error{.code = ErrorCode::shape_mismatch,
                      .text = fmt::format("{}: outputs are {}, but targets {}: they may differ in "
                                          "axes of 1 alone",
                                          loss,
                                          describe(outputs.dtype(), outputs.shape()),
                                          describe(targets.dtype(), targets.shape())),
                      .op = loss,
                      .location = where});
  }
  return reshape(Arg(targets, where), outputs.shape()).to(outputs.dtype(), where);
}

// Returns fn(outputs, fitted targets). Its errors carry the name of the loss.
template <class Fn>
Tensor of_fitted(
    const char* loss, const Tensor& outputs, const Tensor& targets, SourceLoc where, const Fn& fn) {
  return detail::mistakes_named(loss, [&] {
    const Tensor wanted = fitted(loss, outputs, targets, where);
    return fn(Arg(outputs, where), Arg(wanted, where));
  });
}

// Copies the weights to the rank's device, as f32 unless the outputs are f64: it may lack f64.
Tensor weights_like(const Tensor& outputs,
                    const std::vector<double>& weights,
                    const Shape& shape,
                    SourceLoc where) {
  if (outputs.dtype() == DType::f64) {
    return Tensor::from(outputs.device(), weights, shape, where);
  }
  return Tensor::from(
      outputs.device(), std::vector<float>(weights.begin(), weights.end()), shape, where);
}

[[noreturn]] void refuse(const char* loss, std::string text, SourceLoc where) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("{}: {}", loss, text),
                    .op = loss,
                    .location = where});
}

}  // namespace

Tensor LossOutputs::mean(SourceLoc loc) const {
  return weight.is_valid() ? LossSum{.sum = loss, .weight = weight}.mean(loc) : loss;
}

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions options, SourceLoc where)
    : options_(std::move(options)), where_(where) {
  if (!(options_.label_smoothing >= 0 && options_.label_smoothing <= 1)) {
    refuse("CrossEntropyLoss",
           fmt::format("label_smoothing is {}, but must be in 0 to 1", options_.label_smoothing),
           where);
  }
  if (options_.class_weights.is_valid()) {
    class_weights_ = options_.class_weights.to(DType::f64, where).to_vector<double>(where);
    options_.class_weights = {};
  }
}

LossOutputs CrossEntropyLoss::operator()(const Tensor& outputs, const Tensor& targets) const {
  return detail::mistakes_named("CrossEntropyLoss", [&]() -> LossOutputs {
    const Arg logits(outputs, where_);
    const Arg classes(targets, where_);
    if (outputs.rank() >= 2 && outputs.size(1) == 1) {  // the loss would be 0 for any outputs
      refuse("CrossEntropyLoss",
             fmt::format("outputs {} are of one class; for one logit a row there is "
                         "BinaryCrossEntropyWithLogitsLoss",
                         outputs.shape().to_string()),
             where_);
    }
    if (!options_.ignore_index && class_weights_.empty()) {
      return {.loss = cross_entropy(logits, classes, options_)};
    }
    CrossEntropyOptions here = options_;
    if (!class_weights_.empty()) {
      const Shape shape{static_cast<std::int64_t>(class_weights_.size())};
      here.class_weights = weights_like(outputs, class_weights_, shape, where_);
    }
    return detail::loss_outputs(cross_entropy_sum(logits, classes, here));
  });
}

Tensor NegativeLogLikelihoodLoss::operator()(const Tensor& outputs, const Tensor& targets) const {
  return detail::mistakes_named("NegativeLogLikelihoodLoss", [&] {
    return nll_loss(Arg(outputs, where_), Arg(targets, where_));
  });
}

Tensor MeanSquaredLoss::operator()(const Tensor& outputs, const Tensor& targets) const {
  return of_fitted("MeanSquaredLoss", outputs, targets, where_, [](Arg values, Arg wanted) {
    return mse_loss(values, wanted);
  });
}

Tensor L1Loss::operator()(const Tensor& outputs, const Tensor& targets) const {
  return of_fitted("L1Loss", outputs, targets, where_, [](Arg values, Arg wanted) {
    return l1_loss(values, wanted);
  });
}

HuberLoss::HuberLoss(HuberOptions options, SourceLoc where) : options_(options), where_(where) {
  if (!(options.delta > 0)) {
    refuse("HuberLoss", fmt::format("delta is {}, but must be above 0", options.delta), where);
  }
}

Tensor HuberLoss::operator()(const Tensor& outputs, const Tensor& targets) const {
  return of_fitted("HuberLoss", outputs, targets, where_, [&](Arg values, Arg wanted) {
    return huber_loss(values, wanted, options_.delta);
  });
}

SmoothL1Loss::SmoothL1Loss(SmoothL1Options options, SourceLoc where)
    : options_(options), where_(where) {
  if (!(options.beta >= 0)) {
    refuse("SmoothL1Loss", fmt::format("beta is {}, but must be 0 or more", options.beta), where);
  }
}

Tensor SmoothL1Loss::operator()(const Tensor& outputs, const Tensor& targets) const {
  return of_fitted("SmoothL1Loss", outputs, targets, where_, [&](Arg values, Arg wanted) {
    return smooth_l1_loss(values, wanted, options_.beta);
  });
}

Tensor KlDivergenceLoss::operator()(const Tensor& outputs, const Tensor& targets) const {
  return of_fitted("KlDivergenceLoss", outputs, targets, where_, [](Arg values, Arg wanted) {
    return kl_div_loss(values, wanted);
  });
}

BinaryCrossEntropyWithLogitsLoss::BinaryCrossEntropyWithLogitsLoss(
    const BinaryCrossEntropyOptions& options, SourceLoc where)
    : where_(where) {
  if (options.positive_weight.is_valid()) {
    positive_weight_shape_ = options.positive_weight.shape(where);
    positive_weight_ = options.positive_weight.to(DType::f64, where).to_vector<double>(where);
  }
}

Tensor BinaryCrossEntropyWithLogitsLoss::operator()(const Tensor& outputs,
                                                    const Tensor& targets) const {
  constexpr const char* kName = "BinaryCrossEntropyWithLogitsLoss";
  return of_fitted(kName, outputs, targets, where_, [&](Arg values, Arg wanted) {
    BinaryCrossEntropyOptions here;
    if (!positive_weight_.empty()) {
      here.positive_weight =
          weights_like(outputs, positive_weight_, positive_weight_shape_, where_);
    }
    return binary_cross_entropy_with_logits(values, wanted, here);
  });
}

}  // namespace hearth
