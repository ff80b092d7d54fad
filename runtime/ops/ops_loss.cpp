#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"
#include "ops_index.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

// Checks that both are floats of one type and shape: a target that broadcasts is mostly a mistake.
void check_alike(std::string_view what, const Arg& x, const Arg& target) {
  constexpr OpKind kKind = OpKind::reduce_mean;
  const TensorImpl& left = detail::accepted_operand(kKind, x);
  const TensorImpl& right = detail::accepted_operand(kKind, target);
  const bool has_type = left.dtype == right.dtype;
  if (has_type && left.layout->shape == right.layout->shape) {
    return;
  }
  const std::array inputs{x, target};
  detail::throw_op_error(has_type ? ErrorCode::shape_mismatch : ErrorCode::dtype_mismatch,
                         kKind,
                         fmt::format("{} differ: {} {}, target {}",
                                     has_type ? "shapes" : "element types",
                                     what,
                                     describe(left.dtype, left.layout->shape),
                                     describe(right.dtype, right.layout->shape)),
                         x.location(),
                         inputs);
}

void check_above_zero(std::string_view what, double value, const Arg& x) {
  if (!(value > 0)) {
    detail::throw_op_error(ErrorCode::invalid_argument,
                           OpKind::reduce_mean,
                           fmt::format("{} {} is not above 0", what, value),
                           x);
  }
}

// The absolute differences, in the compute type.
Tensor distances(const Arg& prediction, const Arg& target) {
  check_alike("prediction", prediction, target);
  const SourceLoc loc = prediction.location();
  Tensor wanted = detail::wide(detail::shared_operand(target));
  Tensor difference = sub(Arg(detail::wide(prediction), loc), Arg(std::move(wanted), loc));
  return abs(Arg(std::move(difference), loc));
}

// With c = min(|d|, delta), d*d/2 up to delta and delta*(|d| - delta/2) beyond is c*(|d| - c/2).
Tensor huber_of(const Tensor& distance, double delta, SourceLoc loc) {
  const Tensor near = minimum(Arg(distance, loc), Arg(delta, loc));
  Tensor half = mul(Arg(near, loc), Arg(0.5, loc));
  Tensor rest = sub(Arg(distance, loc), Arg(std::move(half), loc));
  return mul(Arg(near, loc), Arg(std::move(rest), loc));
}

Tensor mean_of(Tensor losses, DType dtype, SourceLoc loc) {
  return cast(Arg(mean(Arg(std::move(losses), loc)), loc), dtype);
}

void check_positive_weight(const Arg& logits, const Tensor& weight) {
  const Shape& shape = detail::operand(OpKind::reduce_mean, logits).layout->shape;
  const Result<Shape> both = broadcast(weight.shape(), shape);
  if (!both.has_value() || both.value() != shape) {
    detail::throw_op_error(ErrorCode::shape_mismatch,
                           OpKind::reduce_mean,
                           fmt::format("positive_weight must broadcast to the logits' {}, is {}",
                                       shape.to_string(),
                                       describe(weight.dtype(), weight.shape())),
                           logits);
  }
}

}  // namespace

Tensor mse_loss(Arg prediction, Arg target) {
  return detail::named_as("mse_loss", [&] {
    check_alike("prediction", prediction, target);
    const SourceLoc loc = prediction.location();
    const DType dtype = prediction.tensor().dtype();
    Tensor wanted = detail::wide(detail::shared_operand(target));
    Tensor difference = sub(Arg(detail::wide(prediction), loc), Arg(std::move(wanted), loc));
    return mean_of(square(Arg(std::move(difference), loc)), dtype, loc);
  });
}

Tensor l1_loss(Arg prediction, Arg target) {
  return detail::named_as("l1_loss", [&] {
    const DType dtype = detail::operand(OpKind::reduce_mean, prediction).dtype;
    return mean_of(distances(prediction, target), dtype, prediction.location());
  });
}

Tensor huber_loss(Arg prediction, Arg target, double delta) {
  return detail::named_as("huber_loss", [&] {
    const DType dtype = detail::operand(OpKind::reduce_mean, prediction).dtype;
    check_above_zero("delta", delta, prediction);
    const SourceLoc loc = prediction.location();
    return mean_of(huber_of(distances(prediction, target), delta, loc), dtype, loc);
  });
}

Tensor smooth_l1_loss(Arg prediction, Arg target, double beta) {
  return detail::named_as("smooth_l1_loss", [&] {
    const DType dtype = detail::operand(OpKind::reduce_mean, prediction).dtype;
    const SourceLoc loc = prediction.location();
    if (beta != 0) {
      check_above_zero("beta", beta, prediction);
    }
    Tensor distance = distances(prediction, target);
    if (beta == 0) {
      return mean_of(std::move(distance), dtype, loc);
    }
    Tensor losses = huber_of(distance, beta, loc);
    return mean_of(div(Arg(std::move(losses), loc), Arg(beta, loc)), dtype, loc);
  });
}

// Where t is 0, 0*log(0) counts as 0, and so does its gradient.
Tensor kl_div_loss(Arg log_probabilities, Arg target) {
  return detail::named_as("kl_div_loss", [&] {
    check_alike("log probabilities", log_probabilities, target);
    const SourceLoc loc = log_probabilities.location();
    const DType dtype = log_probabilities.tensor().dtype();
    const Shape shape = log_probabilities.tensor().shape();
    if (shape.rank() < 1) {
      detail::throw_op_error(ErrorCode::shape_mismatch,
                             OpKind::reduce_mean,
                             "needs a row of classes, got a number",
                             log_probabilities);
    }
    const Tensor wanted = detail::wide(detail::shared_operand(target));
    const Tensor is_there = not_equal(Arg(wanted, loc), Arg(0.0, loc));
    Tensor safe = where(Arg(is_there, loc), Arg(wanted, loc), Arg(1.0, loc));
    Tensor logs =
        where(Arg(is_there, loc), Arg(detail::wide(log_probabilities), loc), Arg(0.0, loc));
    Tensor difference = sub(Arg(log(Arg(std::move(safe), loc)), loc), Arg(std::move(logs), loc));
    Tensor product = mul(Arg(wanted, loc), Arg(std::move(difference), loc));
    Tensor parts = where(Arg(is_there, loc), Arg(std::move(product), loc), Arg(0.0, loc));
    Tensor total = sum(Arg(std::move(parts), loc));
    Tensor share = div(Arg(std::move(total), loc), Arg(static_cast<double>(shape[0]), loc));
    return cast(Arg(std::move(share), loc), dtype);
  });
}

Tensor nll_loss(Arg log_probabilities, Arg targets) {
  return detail::named_as("nll_loss", [&] {
    constexpr OpKind kKind = OpKind::cross_entropy;
    static_cast<void>(detail::operand(kKind, log_probabilities));
    static_cast<void>(detail::operand(kKind, targets));
    const std::array inputs{log_probabilities, targets};
    static_cast<void>(
        detail::checked(rules::cross_entropy(detail::spec_of(kKind, log_probabilities),
                                             detail::spec_of(kKind, targets)),
                        kKind,
                        std::span<const Arg>(inputs)));
    const SourceLoc loc = log_probabilities.location();
    const DType dtype = log_probabilities.tensor().dtype();
    Tensor index = unsqueeze(detail::shared_operand(targets), 1);
    Tensor chosen = detail::gather_as(CalledAs::nll_loss,
                                      Arg(detail::wide(log_probabilities), loc),
                                      1,
                                      Arg(std::move(index), loc));
    return mean_of(neg(Arg(std::move(chosen), loc)), dtype, loc);
  });
}

Tensor binary_cross_entropy_with_logits(Arg logits, Arg targets) {
  return binary_cross_entropy_with_logits(logits, targets, {});
}

// -w*t*log(p) - (1-t)*log(1-p) with p = sigmoid(x). As -log(p) is s = log(1 + exp(-|x|)) +
// max(-x, 0), and -log(1-p) is x + s, it is x*(1-t) + s*(1 + (w-1)*t): no exponential overflows and
// no logarithm sees 0. Without a weight, max(x, 0) - x*t + log(1 + exp(-|x|)).
Tensor binary_cross_entropy_with_logits(Arg logits,
                                        Arg targets,
                                        const BinaryCrossEntropyOptions& options) {
  return detail::named_as("binary_cross_entropy_with_logits", [&] {
    check_alike("logits", logits, targets);
    if (options.positive_weight.is_valid()) {
      check_positive_weight(logits, options.positive_weight);
    }
    const SourceLoc loc = logits.location();
    const DType dtype = logits.tensor().dtype();
    const Tensor wanted = detail::wide(detail::shared_operand(targets));
    const Tensor x = detail::wide(logits);
    Tensor distance = neg(Arg(abs(Arg(x, loc)), loc));
    Tensor bend = log1p(Arg(exp(Arg(std::move(distance), loc)), loc));
    if (!options.positive_weight.is_valid()) {
      Tensor product = mul(Arg(x, loc), Arg(wanted, loc));
      Tensor above = maximum(Arg(x, loc), Arg(0.0, loc));
      Tensor straight = sub(Arg(std::move(above), loc), Arg(std::move(product), loc));
      return mean_of(add(Arg(std::move(straight), loc), Arg(std::move(bend), loc)), dtype, loc);
    }
    Tensor surplus =
        sub(Arg(cast(Arg(options.positive_weight, loc), x.dtype()), loc), Arg(1.0, loc));
    Tensor factor =
        add(Arg(mul(Arg(wanted, loc), Arg(std::move(surplus), loc)), loc), Arg(1.0, loc));
    Tensor below = maximum(Arg(neg(Arg(x, loc)), loc), Arg(0.0, loc));
    Tensor surprise = add(Arg(std::move(bend), loc), Arg(std::move(below), loc));
    Tensor negative = mul(Arg(x, loc), Arg(sub(Arg(1.0, loc), Arg(wanted, loc)), loc));
    Tensor positive = mul(Arg(std::move(factor), loc), Arg(std::move(surprise), loc));
    return mean_of(add(Arg(std::move(negative), loc), Arg(std::move(positive), loc)), dtype, loc);
  });
}

}  // namespace hearth
